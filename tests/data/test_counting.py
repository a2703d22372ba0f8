"""How rows count: weights equal repeated rows, and groups are the units of what is known about a mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st

from narrows import NarrowsError, from_array
from narrows.data import split
from narrows.data.counting import Counting
from narrows.data.statistics import Moments
from narrows.runs.certificate import Terms

RNG = np.random.default_rng(0)
ERRORS = RNG.gamma(2.0, size=60)
GROUPS = np.repeat(np.arange(12), 5)


def test_without_weights_and_groups_errors_are_what_they_are():
    assert Counting().independent(ERRORS) is ERRORS
    assert Counting().units(60) == 60


@pytest.mark.parametrize("counting", [Counting(np.ones(60)), Counting(None, np.arange(60)), Counting(np.full(60, 7.0))])
def test_equal_weights_and_single_rows_change_nothing(counting):
    np.testing.assert_allclose(counting.independent(ERRORS), ERRORS, rtol=1e-12)


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_mean_is_the_weighted_mean_and_that_of_repeated_rows(seed, grouped):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 5, 60)
    weights[0] = 1
    counting = Counting(weights.astype(float), GROUPS if grouped else None)
    mean = np.repeat(ERRORS, weights).mean()
    assert counting.independent(ERRORS).mean() == pytest.approx(mean, rel=1e-12)
    terms = Terms()
    assert terms.upper(counting.independent(ERRORS)) >= mean


def test_copies_of_one_row_are_one_row():
    few = RNG.gamma(2.0, size=12)
    copied = Counting(None, GROUPS).independent(np.repeat(few, 5))
    np.testing.assert_allclose(copied, few, rtol=1e-12)
    assert Counting(None, GROUPS).effective(np.repeat(few, 5)) == pytest.approx(12)


def test_groups_of_independent_rows_are_worth_about_as_many_rows():
    errors, groups = RNG.gamma(2.0, size=20_000), np.repeat(np.arange(4_000), 5)
    assert Counting(None, groups).effective(errors) == pytest.approx(20_000, rel=0.1)


def test_upper_ends_of_grouped_rows_hold_as_often_as_they_say():
    """400 draws of 60 groups with rows that are alike: false in at most 5% plus three standard errors (8.3%)."""
    terms, wrong, wrong_without = Terms(0.95), 0, 0
    groups = np.repeat(np.arange(60), 8)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        errors = np.repeat(rng.normal(size=60), 8) + 0.3 * rng.normal(size=480) + 5
        wrong += terms.upper(Counting(None, groups).independent(errors)) < 5
        wrong_without += terms.upper(errors) < 5
    assert wrong <= 33
    assert wrong_without > 80


def test_upper_ends_of_weighted_rows_hold_as_often_as_they_say():
    terms, wrong = Terms(0.95), 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0, 3, 300)
        errors = weights + rng.normal(size=300)  # what weighs more is larger: the weighted mean is 2
        wrong += terms.upper(Counting(weights).independent(errors)) < 2
    assert wrong <= 33


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_moments_with_whole_weights_are_those_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(3, 2, (40, 5)), rng.integers(0, 4, 40)
    weights[0] = 1
    one, other = Moments(), Moments()
    for part in (slice(0, 11), slice(11, 40)):
        one.add(x[part], weights[part].astype(float))
    other.add(np.repeat(x, weights, axis=0))
    for name in ("mean", "variance", "count", "total_variance"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_moments_with_missing_values_are_those_of_the_observed_ones(seed):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((40, 5)) < 0.4, np.nan, rng.normal(1e6, 2, (40, 5)))
    x[:20, 0], x[30, 0] = np.nan, 4.0
    x[:, 1] = np.nan  # never observed
    found = Moments.of((x[:11], x[11:40]), missing=True)
    known = [0, 2, 3, 4]
    np.testing.assert_allclose(found.mean[known], np.nanmean(x[:, known], 0), rtol=1e-12)
    np.testing.assert_allclose(found.variance[known], np.nanvar(x[:, known], 0), rtol=1e-6, atol=1e-9)
    assert (found.mean[1], found.variance[1]) == (0, 0)
    squares = np.nansum((x[:, known] - found.mean[known]) ** 2)
    assert found.total_variance == pytest.approx(squares / 40, rel=1e-6)
    assert found.observed == pytest.approx(np.count_nonzero(~np.isnan(x)) / 40)
    assert found.low[0] == np.nanmin(x[:, 0])


def test_rows_of_weight_0_are_not_there():
    weights = np.r_[np.zeros(20), RNG.uniform(1, 2, 40)]
    for groups in (None, GROUPS):
        whole, part = Counting(weights, groups), Counting(weights[20:], None if groups is None else groups[20:])
        np.testing.assert_array_equal(whole.independent(ERRORS), part.independent(ERRORS[20:]))
        assert whole.units(60) == part.units(40) == len(part.independent(ERRORS[20:]))
    x = np.r_[np.full((5, 2), 1e9), RNG.normal(size=(40, 2))]
    moments, same = Moments(), Moments()
    moments.add(x, np.r_[np.zeros(5), np.ones(40)])
    same.add(x[5:], np.ones(40))
    for name in ("count", "mean", "variance", "low", "high"):
        np.testing.assert_array_equal(getattr(moments, name), getattr(same, name))


@given(st.lists(st.integers(0, 40), min_size=20, max_size=200), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_whatever_the_groups_are_none_is_divided(groups, seed):
    assume(len(set(groups)) >= 5)
    data = from_array(np.zeros((len(groups), 2), np.float32), "any", groups=groups)
    parts = split(data, seed)
    sides = [set(np.array(groups)[part].tolist()) for part in (parts.train, parts.validation, parts.test)]
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides)) == len(set(groups))
    assert len(parts.train) + len(parts.validation) + len(parts.test) == len(groups)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_is_never_divided(seed):
    groups = np.random.default_rng(seed).integers(0, 200, 3_000)
    data = from_array(np.zeros((3_000, 2), np.float32), "any", groups=[f"subject {g}" for g in groups])
    parts = split(data, seed)
    together = [set(groups[part]) for part in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, together)) == len(set.union(*together)) == len(np.unique(groups))
    np.testing.assert_array_equal(
        np.sort(np.concatenate([parts.train, parts.validation, parts.test])), np.arange(3_000)
    )
    assert all(300 <= len(part) < 600 for part in (parts.validation, parts.test))
    assert len(together[2]) >= 30


@pytest.mark.parametrize(("count", "held"), [(5, 1), (20, 2), (150, 30), (1_000, 100)])
def test_validation_and_test_have_enough_groups_to_certify_where_that_is_possible(count, held):
    data = from_array(np.zeros((count * 4, 2), np.float32), "any", groups=np.repeat(np.arange(count), 4))
    assert data.counting.at(split(data).test).units(0) == held


BAD = {
    "weights of the wrong length": ({"weights": [1.0] * 9}, "weights must have one number per row, (20,); it has the"),
    "a negative weight": (
        {"weights": [1.0] * 19 + [-1]},
        "must be finite numbers from 0 on; it is -1 in row 19",
    ),
    "a weight that is NaN": ({"weights": [1.0] * 19 + [np.nan]}, "weights must be finite numbers from 0 on; it is nan"),
    "no weight": ({"weights": [0] * 20}, "weights must be above zero for 5 rows or more; 0 are"),
    "words as weights": (
        {"weights": [1] * 3 + ["much"] * 17},
        "weights must be numbers, one per row; it is 'much' in row 3",
    ),
    "a group that pandas calls NA": (
        {"groups": pd.array(["a"] * 19 + [pd.NA], dtype="string")},
        "must name a group for every row; row 19 has none",
    ),
    "one group": ({"groups": [1] * 20}, "groups must name 5 groups or more"),
    "groups of the wrong length": ({"groups": range(3)}, "groups must have one entry per row, (20,); it has the shape"),
    "a row without a group": ({"groups": ["a", None] * 10}, "groups must name a group for every row; row 1 has none"),
    "a group that is NaN": (
        {"groups": [1.0] * 19 + [np.nan]},
        "must name a group for every row; row 19 has none",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_weights_and_groups_are_named(case):
    arguments, text = BAD[case]
    with pytest.raises(NarrowsError) as caught:
        from_array(np.zeros((20, 2), np.float32), "any", **arguments)
    assert text in str(caught.value)
