"""Mean, variance, covariance and range of rows that come in parts: the one place where they are summed.

Sums of squares lose their digits when the mean is far from 0. So the first row is subtracted from every row, in double
precision: a column of timestamps near 1.7e9 that varies by 1 keeps its variance.
"""

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from narrows._util.errors import NarrowsError


class Moments:
    """Running moments of rows, `(rows, *shape)` at a time, in float64.

    Arguments:
        covariance: Also keep the covariance of all pairs of values; rows must then be vectors, (rows, d).
        missing: Leave NaN out: each value has a count of its own. A value that was never observed has mean and
            variance 0.
    """

    def __init__(self, covariance: bool = False, missing: bool = False) -> None:
        self.count: int | float = 0
        """How many rows there were, or their weights together."""
        self.seen: float | np.ndarray = 0
        """The same for each value, `shape`, where values are missing or rows have weights."""
        self.first = self.low = self.high = np.zeros(0)
        self._total, self._squares, self._products = np.zeros(0), np.zeros(0), np.zeros(0)
        self._pairs, self._missing = covariance, missing

    @classmethod
    def of(cls, parts: Iterable[np.ndarray | Tensor], covariance: bool = False, missing: bool = False) -> "Moments":
        """Return the moments of rows that come in parts, `(rows, *shape)` each."""
        moments = cls(covariance, missing)
        for part in parts:
            moments.add(part)
        return moments

    def add(self, rows: np.ndarray | Tensor, weight: np.ndarray | None = None) -> None:
        """Add more rows, `(rows, *shape)`; a row with a weight of 2 counts as two, and one of weight 0 as none.

        Weights, (rows,), are given for all rows or for none, and not together with a covariance.
        """
        x = np.asarray(rows, np.float64)
        if weight is not None and not weight.all():
            x, weight = x[weight > 0], weight[weight > 0]
        if not len(x):
            return
        if not self.count:
            self.first = self.low = self.high = x[0].copy()
            self._total, self._squares = np.zeros_like(x[0]), np.zeros_like(x[0])
            self._products = np.zeros((x.shape[1], x.shape[1]) if self._pairs else 0)
        if self._missing or weight is not None:
            self._add_some(x, np.ones(len(x)) if weight is None else weight)
            return
        self.low, self.high = np.minimum(self.low, x.min(0)), np.maximum(self.high, x.max(0))
        x = x - self.first
        self._total += x.sum(0)
        if self._pairs:
            self._products += x.T @ x
        self._squares += np.square(x, out=x).sum(0)
        self.count += len(x)
        self.seen = self.count

    def _add_some(self, x: np.ndarray, weight: np.ndarray) -> None:
        """Add rows that have weights, or of which not every value was observed."""
        seen = ~np.isnan(x) if self._missing else np.ones(x.shape, bool)
        new = np.isnan(self.first) & seen.any(0)  # values whose first observation is among these rows
        self.first = np.where(new, np.take_along_axis(x, seen.argmax(0)[None], 0)[0], self.first)
        self.low = np.fmin(self.low, np.fmin.reduce(x, 0))
        self.high = np.fmax(self.high, np.fmax.reduce(x, 0))
        weights = seen * weight.reshape(-1, *(1,) * (x.ndim - 1))
        x = np.where(seen, x - self.first, 0.0)
        self._total += (weights * x).sum(0)
        self._squares += (weights * np.square(x)).sum(0)
        self.count += float(weight.sum())
        self.seen = self.seen + weights.sum(0)

    @property
    def observed(self) -> float:
        """How many values a row has on average: all of them, unless some are missing."""
        return float(np.sum(self.seen) / self.count) if self._missing else float(self.first.size)

    @property
    def total_variance(self) -> float:
        """The variance of all values of a row together; a value that is observed in half of the rows counts half."""
        return float((self.seen * self.variance).sum() / self.count) if self._missing else float(self.variance.sum())

    @property
    def mean(self) -> np.ndarray:
        """The mean of each value, `shape`."""
        return np.where(np.isnan(self.first), 0.0, self.first) + self._total / self._counts

    @property
    def variance(self) -> np.ndarray:
        """The variance of each value, `shape`, with `count` as its divisor."""
        return np.maximum(self._squares / self._counts - np.square(self._total / self._counts), 0)

    @property
    def _counts(self) -> np.ndarray:
        return np.where(np.greater(self.seen, 0), self.seen, 1)

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of each value, `shape`."""
        return np.sqrt(self.variance)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance, (d, d), with `count - 1` as its divisor.

        Raises:
            NarrowsError: There are fewer than two rows, or a value is not finite.
        """
        if self.count < 2:
            raise NarrowsError(f"a covariance needs two rows or more; there is {self.count}")
        if not np.isfinite(self._products).all():
            raise NarrowsError("a covariance needs finite numbers; remove the rows that are not")
        mean = self._total / self.count
        return (self._products - self.count * np.outer(mean, mean)) / (self.count - 1)


def symmetric_root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric S with S S = covariance, (d, d); eigenvalues that rounding made negative count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
