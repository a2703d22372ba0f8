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
    """

    def __init__(self, covariance: bool = False) -> None:
        self.count = 0
        self.first = self.low = self.high = np.zeros(0)
        self._total = self._squares = self._products = np.zeros(0)
        self._pairs = covariance

    @classmethod
    def of(cls, parts: Iterable[np.ndarray | Tensor], covariance: bool = False) -> "Moments":
        """Return the moments of rows that come in parts, `(rows, *shape)` each."""
        moments = cls(covariance)
        for part in parts:
            moments.add(part)
        return moments

    def add(self, rows: np.ndarray | Tensor) -> None:
        """Add more rows, `(rows, *shape)`."""
        x = np.asarray(rows, np.float64)
        if not len(x):
            return
        if not self.count:
            self.first = self.low = self.high = x[0].copy()
            self._total, self._squares = np.zeros_like(x[0]), np.zeros_like(x[0])
            self._products = np.zeros((x.shape[1], x.shape[1]) if self._pairs else 0)
        self.low, self.high = np.minimum(self.low, x.min(0)), np.maximum(self.high, x.max(0))
        x = x - self.first
        self._total += x.sum(0)
        if self._pairs:
            self._products += x.T @ x
        self._squares += np.square(x, out=x).sum(0)
        self.count += len(x)

    @property
    def mean(self) -> np.ndarray:
        """The mean of each value, `shape`."""
        return self.first + self._total / self.count

    @property
    def variance(self) -> np.ndarray:
        """The variance of each value, `shape`, with `count` as its divisor."""
        return np.maximum(self._squares / self.count - np.square(self._total / self.count), 0)

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
