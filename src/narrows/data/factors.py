"""The factors that a set was made from, or the labels that people gave its examples.

A set that holds every combination of its factors once, in order, needs no table: the number of an image is its
combination (np.ravel_multi_index, last factor fastest). Other sets have one row of indices per example.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from narrows._util.errors import NarrowsError


@dataclass(frozen=True)
class Factor:
    """One factor of variation."""

    name: str
    """What it is called."""
    values: tuple[float, ...]
    """Its values, in the order of their indices."""
    value_names: tuple[str, ...] = ()
    """The names of the values, if they are categories and not amounts."""

    @property
    def size(self) -> int:
        """The number of its values."""
        return len(self.values)


def evenly(start: float, stop: float, count: int) -> tuple[float, ...]:
    """Return `count` evenly spaced values, including both ends."""
    return tuple(np.linspace(start, stop, count).tolist())


def kinds(name: str, value_names: Sequence[str]) -> Factor:
    """Return a factor whose values are categories, numbered from 0."""
    return Factor(name, tuple(float(i) for i in range(len(value_names))), tuple(value_names))


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a set and the value of each factor for every example."""

    factors: tuple[Factor, ...]
    """The factors."""
    labels: np.ndarray | None = None
    """Indices of the values, (N, factors); None for every combination once, in order."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(f.name for f in self.factors)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each factor."""
        return tuple(f.size for f in self.factors)

    @property
    def count(self) -> int:
        """The number of examples."""
        return int(np.prod(self.sizes)) if self.labels is None else len(self.labels)

    def of(self, index: np.ndarray) -> np.ndarray:
        """Return the factor indices of the examples at `index`: (len(index), factors) int64."""
        index = np.atleast_1d(index)
        if index.size and not (index.min() >= 0 and index.max() < self.count):
            raise NarrowsError(
                f"examples are numbered from 0 to {self.count - 1}; {index.min()} to {index.max()} were requested"
            )
        if self.labels is not None:
            return self.labels[index].astype(np.int64)
        return np.stack(np.unravel_index(index, self.sizes), axis=-1).astype(np.int64)

    def values_of(self, index: np.ndarray) -> np.ndarray:
        """Return the factor values of the examples at `index`: (len(index), factors) float64."""
        chosen = self.of(index)
        return np.stack([np.asarray(f.values)[chosen[:, j]] for j, f in enumerate(self.factors)], axis=-1)

    def number(self, **indices: int) -> int:
        """Return the number of the image with these factor indices, 0 for factors not named; only for whole grids."""
        if self.labels is not None:
            raise NarrowsError(f"the factors {', '.join(self.names)} do not fix one example; search them with `of`")
        unknown = set(indices) - set(self.names)
        if unknown:
            raise NarrowsError(f"unknown factor {unknown.pop()!r}; the factors are {', '.join(self.names)}")
        chosen = [indices.get(name, 0) for name in self.names]
        for factor, i in zip(self.factors, chosen, strict=True):
            if not isinstance(i, (int, np.integer)) or not 0 <= i < factor.size:
                raise NarrowsError(f"the index of factor {factor.name} must be from 0 to {factor.size - 1}; it is {i}")
        return int(np.ravel_multi_index(chosen, self.sizes))
