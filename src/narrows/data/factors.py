"""What is known about each example: the factors a set was made from, or the labels people gave it.

A set that holds every combination of its factors once, in order, needs no table: the number of an image is its
combination (np.ravel_multi_index, last factor fastest). Other sets carry one row of indices an example.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from narrows.errors import NarrowsError


@dataclass(frozen=True)
class Factor:
    """One factor of variation: its name and its values, in the order of their indices."""

    name: str
    values: tuple[float, ...]
    words: tuple[str, ...] = ()  # what the values mean, where they are kinds and not amounts

    @property
    def size(self) -> int:
        """How many values it takes."""
        return len(self.values)


def evenly(start: float, stop: float, count: int) -> tuple[float, ...]:
    """Return `count` evenly spaced values, both ends included."""
    return tuple(np.linspace(start, stop, count).tolist())


def kinds(name: str, words: Sequence[str]) -> Factor:
    """Return a factor whose values are kinds, numbered from 0."""
    return Factor(name, tuple(float(i) for i in range(len(words))), tuple(words))


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a set and, for each example, which value of each it has."""

    factors: tuple[Factor, ...]
    labels: np.ndarray | None = None  # (N, factors) indices; None: every combination once, in order

    @property
    def names(self) -> tuple[str, ...]:
        """The factors' names."""
        return tuple(f.name for f in self.factors)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each factor takes."""
        return tuple(f.size for f in self.factors)

    def of(self, index: np.ndarray) -> np.ndarray:
        """Return the factor indices of the examples at `index`: (len(index), factors) int64."""
        index = np.atleast_1d(index)
        count = int(np.prod(self.sizes)) if self.labels is None else len(self.labels)
        if index.size and not (index.min() >= 0 and index.max() < count):
            raise NarrowsError(
                f"examples are numbered from 0 to {count - 1}; {index.min()} to {index.max()} are asked for"
            )
        if self.labels is not None:
            return self.labels[index].astype(np.int64)
        return np.stack(np.unravel_index(index, self.sizes), axis=-1).astype(np.int64)

    def values_of(self, index: np.ndarray) -> np.ndarray:
        """Return the factor values of the examples at `index`: (len(index), factors) float64."""
        chosen = self.of(index)
        return np.stack([np.asarray(f.values)[chosen[:, j]] for j, f in enumerate(self.factors)], axis=-1)

    def number(self, **indices: int) -> int:
        """Return the number of the image with these factor indices (those not named: 0); only for whole grids."""
        if self.labels is not None:
            raise NarrowsError(f"the factors {', '.join(self.names)} do not fix one example; look them up with `of`")
        unknown = set(indices) - set(self.names)
        if unknown:
            raise NarrowsError(f"there is no factor {unknown.pop()!r}; the factors are {', '.join(self.names)}")
        chosen = [indices.get(name, 0) for name in self.names]
        for factor, i in zip(self.factors, chosen, strict=True):
            if not isinstance(i, (int, np.integer)) or not 0 <= i < factor.size:
                raise NarrowsError(f"factor {factor.name} has values 0 to {factor.size - 1}; {i} is none of them")
        return int(np.ravel_multi_index(chosen, self.sizes))
