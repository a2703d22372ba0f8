"""One line a gate: every closing and every opening again, and together they are the number of open gates."""

from narrows.report.curves import staircase
from narrows.report.staircase import lines_by_count, lines_by_gate, lines_of_run
from narrows.runs import DecisionRow, MetricRow, RunFolder

DECISIONS = [
    DecisionRow(100, "close", 5, 0.9, "3 0"),
    DecisionRow(160, "close", 3, 0.9, "1"),
    DecisionRow(600, "reopen", 2, 1.4, "1"),
    DecisionRow(650, "close", 3, 0.9, "4"),
    DecisionRow(700, "release", 2, 0.9, ""),
]


def row(step: int, count: int) -> MetricRow:
    return MetricRow(step, 1.0, float(count), count, 1.0, 0.5, 1.0, 1.0, 0.0)


def test_each_gate_has_its_spans_and_changes():
    lines = {line.name: line for line in lines_by_gate(DECISIONS, range(5), 5, 900)}
    assert lines["gate 1"].spans == [(0, 160), (600, 900)]
    assert lines["gate 1"].changes == [(160, "closed"), (600, "opened again")]
    assert lines["gate 2"].spans == [(0, 900)]
    assert lines["gate 2"].changes == []
    assert [name for name, line in lines.items() if line.is_open] == ["gate 1", "gate 2"]
    assert list(lines) == ["gate 1", "gate 2", "gate 4", "gate 0", "gate 3"]  # open ones, then those that closed last


def test_the_lines_together_are_the_staircase():
    lines = lines_by_gate(DECISIONS, range(5), 5, 900)
    for at, count in zip(*staircase(DECISIONS, 5, 900), strict=True):
        assert sum(start <= at < end or at == end == 900 for line in lines for start, end in line.spans) == count


def test_where_only_the_count_is_known_line_k_stands_for_k_or_more():
    lines = lines_by_count([row(10, 3), row(20, 1), row(30, 2), row(40, 2)], 3)
    assert [line.spans for line in lines] == [[(0, 40)], [(0, 20), (30, 40)], [(0, 20)]]
    assert [line.is_open for line in lines] == [True, True, False]
    assert lines[1].changes == [(20, "closed"), (30, "opened again")]


def test_a_run_that_began_with_fewer_gates_has_only_those(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_costs(50, [float("nan"), 2.0, 3.0, float("nan")])
    folder.append_decision(DecisionRow(60, "close", 2, 0.9, "2"))
    rows = [row(50, 2), row(100, 1)]
    lines = lines_of_run(folder, 4, rows)
    assert [(line.name, line.spans) for line in lines] == [("gate 1", [(0, 100)]), ("gate 2", [(0, 60)])]
    assert lines_of_run(folder, 4, []) == []


def test_the_papers_recipe_has_lines_by_count_even_while_all_gates_are_open(tmp_path):
    lines = lines_of_run(RunFolder(tmp_path), 3, [row(10, 3), row(20, 3)])
    assert [line.name for line in lines] == ["1 or more", "2 or more", "3 or more"]
