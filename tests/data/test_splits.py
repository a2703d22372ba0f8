"""Laws of the split: disjoint, covering, sorted, seeded, and of the stated sizes."""

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data import Data, from_array, split


def data(count, test=None):
    return Data("mine", from_array(np.zeros((count, 1), np.float32)).examples, "unit", test=test)


@pytest.mark.parametrize("count", [5, 6, 19, 20, 1234, 60_000, 150_000])
@pytest.mark.parametrize("official", [False, True])
def test_disjoint_covering_and_sorted(count, official):
    test = np.arange(count)[-(count // 3) :] if official else None
    splits = split(data(count, test))
    parts = (splits.train, splits.validation, splits.test)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(count))
    for part in parts:
        assert part.dtype == np.int64
        assert len(part) >= 1
        assert (np.diff(part) > 0).all()
    assert len(splits.validation) >= 2


@pytest.mark.parametrize(
    ("count", "validation", "test"),
    [(5, 2, 2), (19, 2, 2), (20, 2, 2), (1000, 100, 100), (70_000, 5000, 7000), (150_000, 5000, 10_000)],
)
def test_sizes(count, validation, test):
    splits = split(data(count))
    assert (len(splits.validation), len(splits.test)) == (validation, test)


def test_the_stated_rule():
    order = np.random.Generator(np.random.PCG64(7)).permutation(100)
    splits = split(data(100), seed=7)
    np.testing.assert_array_equal(splits.validation, np.sort(order[:10]))
    np.testing.assert_array_equal(splits.test, np.sort(order[10:20]))
    np.testing.assert_array_equal(splits.train, np.sort(order[20:]))


def test_official_test_split_is_kept():
    official = np.array([9, 5, 7])
    splits = split(data(43, official))
    np.testing.assert_array_equal(splits.test, [5, 7, 9])
    assert len(splits.validation) == 4


def test_the_seed_decides():
    same, again, other = split(data(500), 3), split(data(500), 3), split(data(500), 4)
    np.testing.assert_array_equal(same.validation, again.validation)
    np.testing.assert_array_equal(same.test, again.test)
    assert (same.validation != other.validation).any()


def test_too_few_examples():
    with pytest.raises(NarrowsError, match=r"^mine: 4 examples are too few .* use 5 or more$"):
        split(data(4))
    with pytest.raises(NarrowsError, match=r"^mine: 2 of 5 examples are outside its test split"):
        split(data(5, np.array([0, 1, 2])))


def test_negative_seed():
    with pytest.raises(NarrowsError, match=r"seed must be at least 0; it is -1"):
        split(data(10), seed=-1)
