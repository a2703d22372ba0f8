"""Charts have the rows' numbers: nothing that shows is thinned away, every input is in a bar."""

import dataclasses
import math

import numpy as np
import pytest

from narrows.report import charts
from narrows.report.evidence import Traversal
from narrows.runs import MetricRow


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


def test_a_runs_four_charts_have_its_rows_and_tau():
    made = charts.run_charts(rows(40), 20.0, 10, None, [])
    assert [title for title, _ in made] == ["Error per input", "Open gates", "Multiplier λ′", "Tolerance hits"]
    error, gates, multiplier, hits = (spec for _, spec in made)
    for spec, name in ((error, "error"), (gates, "gate_sum"), (multiplier, "multiplier"), (hits, "hits")):
        assert spec["series"][0]["y"] == [getattr(row, name) for row in rows(40)]
        assert spec["group"] == "batches"
    assert error["rules"][0]["at"] == 20.0
    assert multiplier["y"]["log"]


def test_gates_that_are_not_sampled_have_no_probabilities_even_before_the_first_closes():
    watched = [dataclasses.replace(row, watched=row.error) for row in rows(40)]
    gates = charts.run_charts(watched, 20.0, 10, None, [])[1][1]
    assert [(one["name"], one["y"]) for one in gates["series"]] == [("open gates", [10, 10])]


@pytest.mark.parametrize("tau", [None, 0.4, 7.0, 31.0])
def test_every_input_is_in_one_bar_and_tau_is_between_bars(tau):
    errors = np.random.default_rng(0).gamma(3.0, 4.0, 777)
    spec = charts.error_histogram(errors, tau)
    assert sum(spec["counts"]) == 777
    assert len(spec["edges"]) == len(spec["counts"]) + 1
    if tau is not None:
        assert min(abs(edge - tau) for edge in spec["edges"]) < 1e-9 * tau
        below = sum(n for n, edge in zip(spec["counts"], spec["edges"], strict=False) if edge < tau * (1 - 1e-9))
        assert below == (errors < tau).sum()


def test_a_set_without_any_error_has_a_histogram():
    assert sum(charts.error_histogram(np.zeros(5), None)["counts"]) == 5


def test_named_columns_are_drawn_against_the_code_those_that_move_most_first():
    positions = np.linspace(-2, 2, 9)
    decoded = np.stack([positions, 50 * positions, 0 * positions + 3], axis=1)
    spec = charts.traversal_chart(Traversal(0, positions, decoded), ["a", "b", "c"], np.array([1.0, 1_000.0, 1.0]))
    assert [one["name"] for one in spec["series"]] == ["a", "b", "c"]  # in their units a moves by 4, b by 0.2
    assert spec["series"][0]["y"] == pytest.approx(positions)
    assert math.isclose(spec["x"]["max"], 2)


def test_values_without_names_are_drawn_as_profiles():
    spec = charts.traversal_chart(Traversal(3, np.linspace(0, 1, 9), np.arange(9 * 20.0).reshape(9, 20)), [], 1.0)
    assert [one["name"] for one in spec["series"]] == ["code 0", "code 0.5", "code 1"]
    assert spec["series"][2]["y"] == list(np.arange(160.0, 180.0))
