"""Normal distributions fitted to rows of numbers, and how far two of them are apart.

The Fréchet distance of N(m1, C1) and N(m2, C2) (Dowson and Landau, 1982) is here, as in most work on samples, its
square:

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)).

C1 C2 is not symmetric. With the symmetric roots S1 and S2, its root has the same trace as that of S1 C2 S1, which is
the sum of the singular values of S1 S2. Taken from those, directions in which nothing varies cost no digits.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from narrows.errors import NarrowsError


class Normal(NamedTuple):
    """A normal distribution with the moments of some rows."""

    mean: np.ndarray
    """(d,) float64."""
    covariance: np.ndarray
    """(d, d) float64, with count - 1 as its divisor."""
    rows: int
    """How many it was fitted to."""


def fit_normal(parts: Iterable[np.ndarray]) -> Normal:
    """Fit a normal distribution to rows that come in parts, (rows, d) each; two rows or more."""
    count, mean, squares = 0, np.zeros(0), np.zeros((0, 0))
    for part in parts:
        rows = np.asarray(part, np.float64)
        if not np.isfinite(rows).all():
            raise NarrowsError("a normal distribution cannot be fitted to numbers that are not finite; mend the rows")
        centre = rows.mean(0)
        within = (rows - centre).T @ (rows - centre)
        if count == 0:
            count, mean, squares = len(rows), centre, within
            continue
        # Each part about its own mean, and then the parts' means: no digits are lost to a mean far from 0.
        gap, total = centre - mean, count + len(rows)
        mean = mean + gap * (len(rows) / total)
        squares = squares + within + np.outer(gap, gap) * (count * len(rows) / total)
        count = total
    if count < 2:
        raise NarrowsError(f"a normal distribution is fitted to 2 rows or more; there is {count}")
    return Normal(mean, squares / (count - 1), count)


def symmetric_root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric S with S S = covariance; what rounding makes negative counts as 0."""
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def frechet_distance(a: Normal, b: Normal) -> float:
    """Return the (squared) Fréchet distance; 0 if and only if the moments are the same."""
    if a.mean.shape != b.mean.shape:
        raise NarrowsError(
            f"the Fréchet distance is between distributions of the same dimensions; these have {len(a.mean)} and "
            f"{len(b.mean)}"
        )
    if np.array_equal(a.mean, b.mean) and np.array_equal(a.covariance, b.covariance):
        return 0.0  # rounding would leave something
    shared = np.linalg.svd(symmetric_root(a.covariance) @ symmetric_root(b.covariance), compute_uv=False).sum()
    shift = np.square(a.mean - b.mean).sum()
    return max(0.0, float(shift + np.trace(a.covariance) + np.trace(b.covariance) - 2 * shared))
