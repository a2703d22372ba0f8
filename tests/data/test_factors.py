"""Factors: from an example to its factors and back."""

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data.factors import Factor, Factors, evenly, kinds

GRID = Factors((kinds("shape", "ab"), Factor("x", evenly(0, 1, 3)), Factor("y", evenly(-1, 1, 5))))
LABELLED = Factors((kinds("digit", "0123456789"),), np.array([[5], [0], [9]], np.uint8))


def test_a_grid_counts_the_last_factor_fastest():
    every = GRID.of(np.arange(30))
    assert every[:6].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 0, 4], [0, 1, 0]]
    numbers = [GRID.number(shape=a, x=b, y=c) for a, b, c in every]
    assert numbers == list(range(30))
    assert GRID.number() == 0
    assert (GRID.names, GRID.sizes) == (("shape", "x", "y"), (2, 3, 5))


def test_values():
    np.testing.assert_allclose(GRID.values_of(np.array([29, 0])), [[1, 1, 1], [0, 0, -1]])
    np.testing.assert_allclose(GRID.values_of(29), [[1, 1, 1]])
    assert LABELLED.values_of(np.array([2, 0])).tolist() == [[9], [5]]
    assert GRID.factors[0].value_names == ("a", "b")


@pytest.mark.parametrize("factors", [GRID, LABELLED])
@pytest.mark.parametrize("index", [[-1], [30], [0, 1000]])
def test_numbers_outside_the_set(factors, index):
    with pytest.raises(NarrowsError, match="examples are numbered"):
        factors.of(np.array(index))


@pytest.mark.parametrize("indices", [{"x": 3}, {"x": -1}, {"x": 1.5}, {"x": "a"}])
def test_values_that_a_factor_does_not_have(indices):
    with pytest.raises(NarrowsError, match="the index of factor x must be from 0 to 2"):
        GRID.number(**indices)


def test_unknown_factors_and_labelled_sets():
    with pytest.raises(NarrowsError, match="unknown factor 'z'; the factors are shape, x, y"):
        GRID.number(z=1)
    with pytest.raises(NarrowsError, match="do not fix one example"):
        LABELLED.number(digit=1)
