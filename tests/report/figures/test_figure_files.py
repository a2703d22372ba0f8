"""The figure shows the rows: four curves with their data, tau as a line, axes with names; no half file is left."""

import pytest

from disks import full_disk
from narrows.report.contents import read_run
from narrows.report.figures.charts import run_charts
from narrows.report.figures.figure_files import draw_charts, draw_curves
from narrows.runs.folder import RunFolder
from narrows.runs.records import MetricRow
from narrows.training.config import TrainConfig, to_dict


def rows(count: int = 40) -> list[MetricRow]:
    return [
        MetricRow(50 * i, 60 / i, 10 - i / 8, 10 - i // 8, 2.0 / i, i / 80, 1.0, 1.0, float(i)) for i in range(1, count)
    ]


def paper_run(path) -> RunFolder:
    folder = RunFolder(path)
    folder.write_config(to_dict(TrainConfig(recipe="paper", tau=20.0, n=10)))
    return folder


def test_each_curve_has_its_rows(tmp_path):
    folder = paper_run(tmp_path)
    for row in rows():
        folder.append_row(row)
    stored = folder.read_rows()
    error, gates, multiplier, hits = draw_charts(run_charts(read_run(folder))).axes
    for axis, name in ((error, "error"), (gates, "gate_sum"), (multiplier, "multiplier"), (hits, "hits")):
        line = axis.lines[0]
        assert list(line.get_xdata()) == [row.step for row in stored]
        assert list(line.get_ydata()) == [getattr(row, name) for row in stored]
        assert axis.yaxis.get_label_text()
    assert set(error.lines[1].get_ydata()) == {20.0}
    assert multiplier.get_yscale() == "log"
    assert hits.get_xlabel() == "batch"


def test_both_files_are_written_and_small(tmp_path):
    folder = paper_run(tmp_path)
    assert draw_curves(folder) is None
    for row in rows():
        folder.append_row(row)
    assert draw_curves(folder) == folder.figure
    assert folder.figure.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in folder.figure.with_suffix(".svg").read_text()


def test_a_full_disk_leaves_the_old_figure_and_nothing_half(tmp_path):
    folder = paper_run(tmp_path)
    for row in rows():
        folder.append_row(row)
    draw_curves(folder)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(), pytest.raises(OSError, match="too large"):
        draw_curves(folder)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
