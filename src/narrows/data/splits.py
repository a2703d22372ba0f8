"""Train, validation and test: one stated rule, so that a run can be repeated from its seed alone.

All indices are shuffled with PCG64(seed). The first tenth, at most 5,000, is validation; the next tenth, at most
10,000, is test; the rest is train. A set with an official test split keeps it, and validation is a tenth (at most
5,000) of the others. Where examples have groups, the groups are shuffled instead, and validation and test take whole
groups until they have that many examples, and 30 groups if that is at most a fifth of them. Validation and test have
at least two examples each, so that errors have a spread. Every split is sorted, so that reading a split in order reads
the file in order. Sets that are streamed have a rule of their own (streams/split.py).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows._util.room import amount, free_memory
from narrows.data.dataset import Data

MOST_VALIDATION = 5_000
MOST_TEST = 10_000
GROUPS = 30
"""Groups that validation and test have at least, if there are enough: fewer cannot certify anything."""
_BYTES = 32
"""Memory per example for the shuffled order, its sorted parts and what lies between."""


class TrainingRows(Protocol):
    """The examples that train a model, in a new order every epoch."""

    def __len__(self) -> int: ...

    def epoch(self, seed: int, epoch: int) -> "Epoch":
        """Return the order of one epoch, a function of the two numbers alone."""
        ...


class Epoch(Protocol):
    """All training examples in one order."""

    def __getitem__(self, part: slice, /) -> np.ndarray:
        """Return the indices at some places of the order."""
        ...


@dataclass(frozen=True, eq=False)
class ShuffledRows:
    """Training examples that can all be read at any time, in a permutation drawn from (seed, epoch)."""

    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def epoch(self, seed: int, epoch: int) -> "ShuffledEpoch":
        """See `TrainingRows`."""
        return ShuffledEpoch(self.index, shuffled(len(self.index), seed, epoch))


@dataclass(frozen=True, eq=False)
class ShuffledEpoch:
    """One permutation of some examples."""

    index: np.ndarray
    order: np.ndarray

    def __getitem__(self, part: slice) -> np.ndarray:
        return self.index[self.order[part]]


@dataclass(frozen=True, eq=False)
class Splits:
    """Three disjoint, sorted int64 arrays of indices, which together cover the set, unless it is streamed."""

    train: np.ndarray
    """Examples that train the model; of a streamed set the sample of them that is at hand."""
    validation: np.ndarray
    """Examples that choose the model."""
    test: np.ndarray
    """Examples that the certificate is measured on, once."""
    rows: TrainingRows | None = None
    """All training examples of a streamed set, in an order in which they can be read."""
    rule: str = ""
    """How the set was divided, if not by the rule above."""

    @property
    def training(self) -> TrainingRows:
        """All training examples, for `Batches`."""
        return ShuffledRows(self.train) if self.rows is None else self.rows


def split(data: Data, seed: int = 0) -> Splits:
    """Divide examples into train, validation and test by the rule above.

    Arguments:
        data: The set; its `test` indices, if any, are kept as the test split.
        seed: Of the shuffle.

    Returns:
        The three splits.

    Raises:
        NarrowsError: The set has fewer than 5 examples, or fewer than 3 outside its test split.
    """
    if data.stream is not None:
        return data.stream.split(seed)
    count = len(data.examples)
    if count < 5:
        raise NarrowsError(f"{data.name}: {count} examples are too few for train, validation and test; use 5 or more")
    if (needed := _BYTES * count) > (free := free_memory()):
        raise NarrowsError(
            f"{data.name}: the order of {count:,} examples needs {amount(needed)} of memory, and {amount(free)} are "
            "free; use fewer examples"
        )
    groups = data.counting.groups
    order = shuffled(count, seed)
    if groups is not None:
        return _by_group(data, groups, seed)
    if data.test is None:
        held = _tenth(count, MOST_VALIDATION)
        validation, test, train = np.split(order, [held, held + _tenth(count, MOST_TEST)])
    else:
        test = np.unique(data.test).astype(np.int64)
        others = order[~np.isin(order, test)]
        if len(others) < 3:
            raise NarrowsError(
                f"{data.name}: {len(others)} of {count} examples are outside its test split; "
                "train and validation need 3 or more"
            )
        validation, train = np.split(others, [_tenth(len(others), MOST_VALIDATION)])
    return Splits(np.sort(train), np.sort(validation), np.sort(test))


def _by_group(data: Data, groups: np.ndarray, seed: int) -> Splits:
    """Divide examples so that all of a group are in one split."""
    if data.test is not None:
        raise NarrowsError(f"{data.name} has a test split of its own, which groups cannot change; leave them out")
    count, names = len(groups), np.unique(groups)
    order = names[shuffled(len(names), seed)]
    ends = np.cumsum(np.bincount(groups)[order])  # examples in the first groups of the order
    first = _enough(ends, _tenth(count, MOST_VALIDATION), len(names))
    second = first + _enough(ends[first:] - ends[first - 1], _tenth(count, MOST_TEST), len(names))
    place = np.empty(int(names.max()) + 1, np.int64)
    place[order] = np.arange(len(order))
    where = place[groups]
    validation, test = np.flatnonzero(where < first), np.flatnonzero((where >= first) & (where < second))
    return Splits(np.flatnonzero(where >= second), validation, test, rule=f"by {len(names):,} whole groups")


def _enough(ends: np.ndarray, examples: int, groups: int) -> int:
    """Return how many of the first groups to take, from the number of examples that they hold; a third at most."""
    least = GROUPS if groups // 5 >= GROUPS else 1
    return min(max(int(np.searchsorted(ends, examples)) + 1, least), groups // 3)


def shuffled(count: int, seed: int, *key: int) -> np.ndarray:
    """Return a permutation of 0..count-1 from numpy's PCG64; each `key` gives an independent one.

    Without a key this is np.random.Generator(np.random.PCG64(seed)).permutation(count).
    """
    if seed < 0:
        raise NarrowsError(f"{setting('seed')} must be at least 0; it is {seed}")
    source = np.random.SeedSequence(seed, spawn_key=key)
    order = np.random.Generator(np.random.PCG64(source)).permutation(count)
    return order.astype(np.int64, copy=False)


def thinned(index: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` of the indices, evenly spaced, including the first and the last."""
    return index if len(index) <= most else index[np.linspace(0, len(index) - 1, most).astype(np.int64)]


def _tenth(count: int, most: int) -> int:
    return max(2, min(count // 10, most))
