"""Gates are counted from the metrics of a run."""

from narrows.paper.job import open_after
from narrows.runs.records import MetricRow


def test_gates_are_counted_by_the_last_row_up_to_a_batch():
    rows = [MetricRow(step, 1.0, 1.0, gates, 1.0, 0.5, 1.0, 1.0, 1.0) for step, gates in ((50, 9), (100, 7))]
    assert [open_after(rows, step, 10) for step in (10, 50, 99, 100, 1_000)] == [10, 9, 9, 7, 7]
