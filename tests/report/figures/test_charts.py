"""Charts have the rows' numbers: nothing that shows is thinned away, every input is in a bar."""

import dataclasses
import io
import itertools
import json
import math
import warnings

import numpy as np
import pytest

from narrows.inference.inspect import Traversal
from narrows.report.contents import RunContents
from narrows.report.figures import charts, figure_files, terminal
from narrows.report.figures.specification import Axis
from narrows.runs.folder import RunFolder
from narrows.runs.records import HeldOut, MetricRow, Result
from narrows.training.config import TrainConfig


def rows(count: int) -> list[MetricRow]:
    return [
        MetricRow(50 * i, 60 / i, 10 - i / count, 10, 2.0 / i, i / (2 * count), 1.0, 1.0, float(i))
        for i in range(1, count + 1)
    ]


def test_few_rows_are_all_there_and_of_many_the_extremes():
    assert charts.thin(rows(40)) == rows(40)
    many = rows(5_000)
    many[2_345] = dataclasses.replace(many[2_345], error=1e6)
    many[4_001] = dataclasses.replace(many[4_001], hits=0.0)
    thinned = charts.thin(many)
    assert len(thinned) <= charts.MOST_ROWS + 2
    assert [row.step for row in thinned] == sorted({row.step for row in thinned})
    assert {many[0].step, many[2_345].step, many[4_001].step, many[-1].step} <= {row.step for row in thinned}


def run(recipe: str, made: list[MetricRow]) -> RunContents:
    return RunContents(RunFolder("runs/a"), TrainConfig(recipe=recipe, tau=20.0, n=10), made, [])


def test_a_runs_four_charts_have_its_rows_and_tau():
    drawn = charts.run_charts(run("paper", rows(40)))
    assert [chart.title for chart in drawn] == ["Error per input", "Open gates", "Multiplier λ′", "Tolerance hits"]
    for chart, name in zip(drawn, ("error", "gate_sum", "multiplier", "hits"), strict=True):
        assert chart.series[0].y == [getattr(row, name) for row in rows(40)]
        assert chart.group == "batches"
    assert drawn[0].rules[0].at == 20.0
    assert drawn[2].y.log


def result_with(errors: list[float], tau: float | None) -> Result:
    held = HeldOut(errors[-1], errors[-1], errors[-1], 100)
    return Result(
        n=10, dims=len(errors) - 1, kept=list(range(len(errors) - 1)), tau=tau, values=16, variance=None, heldout=held,
        validation=held, best_error=1.0, best_dims=2, met=True, model="last", model_step=1, steps=1, seconds=1.0,
        seed=0, versions={}, dimensions=[], errors_of_first=errors,
    )  # fmt: skip


def test_the_scree_plot_has_every_k_and_tau():
    chart = charts.scree_chart(result_with([50.0, 30.0, 18.0], tau=20.0))
    assert list(chart.series[0].x) == [0, 1, 2]
    assert chart.series[0].y == [50.0, 30.0, 18.0]
    assert chart.series[0].notes[2] == "first 2: error 18"
    assert [rule.at for rule in chart.rules] == [20.0]
    assert chart.x.max == 2
    assert charts.scree_chart(result_with([50.0, 30.0], tau=None)).rules == []


def test_gates_that_are_not_sampled_have_no_probabilities_even_before_the_first_closes():
    """The recipe decides, not the numbers: these rows have none of the held-out errors that the fast recipe writes."""
    gates = charts.run_charts(run("fast", rows(40)))[1]
    assert [(one.name, one.y) for one in gates.series] == [("open gates", [10, 10])]


def test_compared_runs_have_the_error_that_their_recipe_is_about():
    drawn = charts.comparison_charts([("a", run("fast", rows(40))), ("b", run("paper", rows(30)))])
    assert [math.isnan(series.y[0]) for series in drawn[0].series] == [True, False]
    assert [series.name for series in drawn[3].series] == ["a", "b"]
    assert charts.comparison_charts([("a", run("fast", []))]) == []


@pytest.mark.parametrize("tau", [None, 0.4, 7.0, 31.0])
def test_every_input_is_in_one_bar_and_tau_is_between_bars(tau):
    errors = np.random.default_rng(0).gamma(3.0, 4.0, 777)
    chart = charts.error_histogram(errors, tau)
    assert sum(chart.counts) == 777
    assert len(chart.edges) == len(chart.counts) + 1
    if tau is not None:
        assert min(abs(edge - tau) for edge in chart.edges) < 1e-9 * tau
        below = sum(n for n, edge in zip(chart.counts, chart.edges, strict=False) if edge < tau * (1 - 1e-9))
        assert below == (errors < tau).sum()


def test_a_set_without_any_error_has_a_histogram():
    assert sum(charts.error_histogram(np.zeros(5), None).counts) == 5


@pytest.mark.parametrize("tau", [1e-30, 1e-9, 0.05, 1e30])
@pytest.mark.parametrize("scale", [0.0, 1e-31, 1e-3, 2_000.0**2, 1e38])
def test_the_number_of_bars_does_not_grow_with_the_distance_between_errors_and_tau(tau, scale):
    """Values around 2,000 in their own unit, `--values any --tau 0.05`, made 80 million bars; `--tau 1e-9` more."""
    errors = scale * np.random.default_rng(0).gamma(3.0, 1.0, 777)
    chart = charts.error_histogram(errors, tau)
    assert 10 <= len(chart.counts) <= 3 * charts.BINS
    assert sum(chart.counts) == 777
    assert all(a < b for a, b in itertools.pairwise(chart.edges))
    assert any(math.isclose(edge, tau) for edge in chart.edges)
    below = sum(n for n, edge in zip(chart.counts, chart.edges, strict=False) if edge < tau * (1 - 1e-9))
    assert below == (errors < tau).sum()


def test_errors_that_are_no_numbers_are_in_the_last_bar():
    chart = charts.error_histogram(np.array([1.0, 2.0, math.inf, math.nan]), 1.5)
    assert (sum(chart.counts), chart.counts[-1]) == (4, 3)
    assert math.isfinite(chart.x.max)
    assert sum(charts.error_histogram(np.full(3, math.nan), None).counts) == 3


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("low", [math.nan, -math.inf, -1.0, 0.0, 5e-324, 3.0, 1e308, math.inf])
@pytest.mark.parametrize("high", [math.nan, -math.inf, 0.0, 5e-324, 3.0, 1e308, math.inf])
def test_an_axis_has_finite_ends_that_are_apart(low, high, log):
    axis = Axis("", low, high, log=log)
    assert math.isfinite(axis.min)
    assert math.isfinite(axis.max)
    assert axis.min < axis.max
    assert axis.min > 0 or not log


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, 1e-300])
def test_a_run_with_strange_numbers_can_be_drawn_in_every_way(value):
    made = [dataclasses.replace(row, error=value, multiplier=value, watched=value) for row in rows(40)]
    drawn = charts.run_charts(run("paper", made))
    assert all(math.isfinite(end) for chart in drawn for axis in (chart.x, chart.y) for end in (axis.min, axis.max))
    assert len(terminal.draw_charts(drawn, 80, 24)) > 8
    json.dumps([chart.to_dict() for chart in drawn], allow_nan=False)
    with warnings.catch_warnings(action="ignore"):  # numbers that matplotlib cannot place are left out
        figure_files.draw_charts(drawn).savefig(io.BytesIO())


def test_long_vectors_are_thinned():
    decoded = np.zeros((9, 100_000), np.float32)
    chart = charts.traversal_chart(Traversal(0, np.linspace(0, 1, 9), decoded), [], 1.0)
    assert all(len(one.x) == len(one.y) <= charts.MOST_ROWS for one in chart.series)
    assert chart.series[0].x[-1] < 100_000


def test_named_columns_are_drawn_against_the_code_those_that_move_most_first():
    positions = np.linspace(-2, 2, 9)
    decoded = np.stack([positions, 50 * positions, 0 * positions + 3], axis=1)
    chart = charts.traversal_chart(Traversal(0, positions, decoded), ["a", "b", "c"], np.array([1.0, 1_000.0, 1.0]))
    assert [one.name for one in chart.series] == ["a", "b", "c"]  # in their units a moves by 4, b by 0.2
    assert chart.series[0].y == pytest.approx(positions)
    assert math.isclose(chart.x.max, 2)


def test_values_without_names_are_drawn_as_profiles():
    chart = charts.traversal_chart(Traversal(3, np.linspace(0, 1, 9), np.arange(9 * 20.0).reshape(9, 20)), [], 1.0)
    assert [one.name for one in chart.series] == ["code 0", "code 0.5", "code 1"]
    assert chart.series[2].y == list(np.arange(160.0, 180.0))


def test_the_columns_that_a_dimension_says_most_about_come_first_and_of_a_category_the_level_that_moves_most():
    decoded = np.linspace(0, 1, 9)[:, None] * [5.0, 1.0, 2.0, 3.0]  # two numbers, and a category of two levels
    one, costs = Traversal(0, np.linspace(0, 1, 9), decoded), np.array([0.1, 0.7, 0.2])
    assert charts.shown_columns(one, 1.0) == [0, 3, 2, 1]
    assert charts.shown_columns(one, np.array([10.0, 1.0, 1.0, 1.0])) == [3, 2, 1, 0]
    assert charts.shown_columns(one, 1.0, costs, [0, 2, 1, 1]) == [3, 1, 0]
    assert charts.shown_columns(one, 1.0, np.array([0.1, 0.2, 0.9, 0.3])) == [2, 3, 1, 0]
    assert charts.shown_columns(one, 1.0, costs) == [0, 3, 2, 1], "costs of other columns are not used"
    chart = charts.traversal_chart(one, ["a", "b", "c=x", "c=y"], 1.0, [3, 1, 0])
    assert [series.name for series in chart.series] == ["c=y", "b", "a"]
