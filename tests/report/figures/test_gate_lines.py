"""One line per gate: every closing and every reopening, and together they are the number of open gates."""

import dataclasses

from narrows.report.contents import RunContents
from narrows.report.figures.gate_lines import gate_lines, lines_by_count, lines_by_gate, open_counts
from narrows.runs.folder import RunFolder
from narrows.runs.records import DecisionRow, HeldOut, MetricRow, Result
from narrows.training.config import TrainConfig

DECISIONS = [
    DecisionRow(100, "close", 5, 0.9, "3 0"),
    DecisionRow(160, "close", 3, 0.9, "1"),
    DecisionRow(600, "restore", 2, 1.4, "1"),
    DecisionRow(650, "close", 3, 0.9, "4"),
    DecisionRow(700, "release", 2, 0.9, ""),
]


def row(step: int, count: int) -> MetricRow:
    return MetricRow(step, 1.0, float(count), count, 1.0, 0.5, 1.0, 1.0, 0.0)


def test_each_gate_has_its_spans_and_changes():
    lines = {line.name: line for line in lines_by_gate(DECISIONS, range(5), 5, 900)}
    assert lines["gate 1"].spans == [(0, 160), (600, 900)]
    assert lines["gate 1"].changes == [(160, "closed"), (600, "reopened")]
    assert lines["gate 2"].spans == [(0, 900)]
    assert lines["gate 2"].changes == []
    assert [name for name, line in lines.items() if line.open] == ["gate 1", "gate 2"]
    assert list(lines) == ["gate 1", "gate 2", "gate 4", "gate 0", "gate 3"]  # open ones, then those that closed last


def test_the_lines_together_are_the_number_of_open_gates():
    lines = lines_by_gate(DECISIONS, range(5), 5, 900)
    for at, count in zip(*open_counts(DECISIONS, 5, 900), strict=True):
        assert sum(start <= at < end or at == end == 900 for line in lines for start, end in line.spans) == count


def test_where_only_the_count_is_known_line_k_stands_for_k_or_more():
    lines = lines_by_count([row(10, 3), row(20, 1), row(30, 2), row(40, 2)], 3)
    assert [line.spans for line in lines] == [[(0, 40)], [(0, 20), (30, 40)], [(0, 20)]]
    assert [line.open for line in lines] == [True, True, False]
    assert lines[1].changes == [(20, "closed"), (30, "reopened")]


def test_a_run_that_began_with_fewer_gates_has_only_those(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_costs(50, [float("nan"), 2.0, 3.0, float("nan")])
    folder.append_decision(DecisionRow(60, "close", 2, 0.9, "2"))
    rows = [row(50, 2), row(100, 1)]
    run = RunContents(folder, TrainConfig(n=4), rows, folder.read_decisions())
    lines = gate_lines(run)
    assert [(line.name, line.spans) for line in lines] == [("gate 1", [(0, 100)]), ("gate 2", [(0, 60)])]
    assert gate_lines(dataclasses.replace(run, rows=[])) == []


def test_a_run_that_goes_on_with_a_closing_has_the_gates_that_were_open_and_the_one_that_reopened(tmp_path):
    """As a front's later runs: no cost is known at first, and the first decision may undo what another run closed."""
    folder = RunFolder(tmp_path)
    folder.append_costs(50, [float("nan")] * 6)
    for decision in (DecisionRow(200, "restore", 2, 1.4, "2"), DecisionRow(210, "release", 3, 0.9, "")):
        folder.append_decision(decision)
    held = HeldOut(1.0, 1.0, 1.0, 100)
    result = Result(
        n=6, dims=3, kept=[0, 1, 2], tau=2.0, values=16, variance=None, heldout=held, validation=held, best_error=1.0,
        best_dims=3, met=True, model="smallest that met tau", model_step=900, steps=900, seconds=1.0, seed=0,
        versions={}, dimensions=[], errors_of_first=[],
    )  # fmt: skip
    run = RunContents(folder, TrainConfig(n=6), [row(50, 2), row(900, 3)], folder.read_decisions(), result=result)
    lines = {line.name: line.spans for line in gate_lines(run)}
    assert lines == {"gate 0": [(0, 900)], "gate 1": [(0, 900)], "gate 2": [(200, 900)]}
    assert open_counts(run.decisions, 6, 900) == ([0, 200, 210, 900], [2, 3, 3, 3])


def test_the_papers_recipe_has_lines_by_count_even_while_all_gates_are_open(tmp_path):
    config = TrainConfig(recipe="paper", n=3)
    lines = gate_lines(RunContents(RunFolder(tmp_path), config, [row(10, 3), row(20, 3)], []))
    assert [line.name for line in lines] == ["1 or more", "2 or more", "3 or more"]


def test_counts_have_every_closing_and_every_gate_that_reopened():
    decisions = [
        DecisionRow(100, "close", 8, 0.9, "3 5"),
        DecisionRow(160, "close", 6, 0.9, "1"),
        DecisionRow(600, "restore", 5, 1.4, "1"),
        DecisionRow(700, "release", 6, 0.9, ""),
        DecisionRow(900, "end", 6, 0.9, ""),
    ]
    assert open_counts(decisions, 8, 900) == ([0, 100, 160, 600, 700, 900, 900], [8, 6, 5, 6, 6, 6, 6])
