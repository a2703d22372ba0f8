"""Train, validation and test: one stated rule, so that a run can be repeated from its seed alone.

All indices are shuffled with PCG64(seed). The first tenth, at most 5,000, is validation; the next tenth, at
most 10,000, is test; the rest is train. A set with an official test split keeps it, and validation is a
tenth (at most 5,000) of the others. Validation and test have at least two examples each, so that a
mean has an interval, and every split is sorted, so that reading it
in order walks the file in order.
"""

from dataclasses import dataclass

import numpy as np

from narrows.data.dataset import Data
from narrows.data.shuffling import shuffled
from narrows.errors import NarrowsError

_MOST_VALIDATION = 5_000
_MOST_TEST = 10_000


@dataclass(frozen=True, eq=False)
class Splits:
    """Three disjoint int64 index arrays, sorted, which together cover the set."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(data: Data, seed: int = 0) -> Splits:
    """Divide the examples of `data` by the rule above."""
    count = len(data.examples)
    if count < 5:
        raise NarrowsError(f"{data.name}: {count} examples are too few for train, validation and test; bring 5 or more")
    order = shuffled(count, seed)
    if data.test is None:
        held = _tenth(count, _MOST_VALIDATION)
        validation, test, train = np.split(order, [held, held + _tenth(count, _MOST_TEST)])
    else:
        test = np.unique(data.test).astype(np.int64)
        others = order[~np.isin(order, test)]
        if len(others) < 3:
            raise NarrowsError(
                f"{data.name}: {len(others)} of {count} examples are outside its test split; "
                "train and validation need 3 or more"
            )
        validation, train = np.split(others, [_tenth(len(others), _MOST_VALIDATION)])
    return Splits(np.sort(train), np.sort(validation), np.sort(test))


def thinned(index: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` of the indices, evenly spaced, the first and the last among them."""
    return index if len(index) <= most else index[np.linspace(0, len(index) - 1, most).astype(np.int64)]


def _tenth(count: int, most: int) -> int:
    return max(2, min(count // 10, most))
