"""The figure shows the rows: four curves with their data, tau as a line, axes with names."""

from narrows.report.curves import draw_curves, four_curves, staircase
from narrows.runs import DecisionRow, MetricRow, RunFolder


def rows(count: int = 40) -> list[MetricRow]:
    return [
        MetricRow(50 * i, 60 / i, 10 - i / 8, 10 - i // 8, 2.0 / i, i / 80, 1.0, 1.0, float(i)) for i in range(1, count)
    ]


def test_each_curve_has_its_rows():
    figure = four_curves(rows(), tau=20.0, n=10)
    error, gates, multiplier, hits = figure.axes
    steps = [row.step for row in rows()]
    for axis, name in ((error, "error"), (gates, "gate_sum"), (multiplier, "multiplier"), (hits, "hits")):
        line = axis.lines[0]
        assert list(line.get_xdata()) == steps
        assert list(line.get_ydata()) == [getattr(row, name) for row in rows()]
        assert axis.get_ylabel()
    assert set(error.lines[1].get_ydata()) == {20.0}
    assert multiplier.get_yscale() == "log"
    assert hits.get_xlabel() == "batch"


def test_both_files_are_written_and_small(tmp_path):
    folder = RunFolder(tmp_path)
    assert draw_curves(folder) is None
    folder.write_config({"tau": 20.0, "n": 10})
    for row in rows():
        folder.append_row(row)
    assert draw_curves(folder) == folder.figure
    assert folder.figure.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in folder.figure.with_suffix(".svg").read_text()


def test_the_staircase_has_every_closing_and_every_gate_that_opened_again():
    decisions = [
        DecisionRow(100, "close", 8, 0.9, "3 5"),
        DecisionRow(160, "close", 6, 0.9, "1"),
        DecisionRow(600, "reopen", 5, 1.4, "1"),
        DecisionRow(700, "release", 6, 0.9, ""),
        DecisionRow(900, "end", 6, 0.9, ""),
    ]
    assert staircase(decisions, 8, 900) == ([0, 100, 160, 600, 700, 900, 900], [8, 6, 5, 6, 6, 6, 6])
