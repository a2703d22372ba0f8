"""The Fréchet distance between two sets of feature vectors, each described by its mean and covariance.

For N(m1, C1) and N(m2, C2) (Dowson and Landau, 1982), this module computes the square, as most work on samples does:

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)).

C1 C2 is not symmetric. With the symmetric roots S1 and S2, its root has the same trace as that of S1 C2 S1, which is
the sum of the singular values of S1 S2. Computed in this way, directions without variance cost no digits.
"""

import numpy as np

from narrows._util.errors import NarrowsError
from narrows.data.statistics import Moments, symmetric_root


def frechet_distance(a: Moments, b: Moments) -> float:
    """Return the squared Fréchet distance of two sets of features; it is 0 if and only if their moments are equal.

    Raises:
        NarrowsError: The vectors have different lengths, or a set has fewer than two.
    """
    if a.mean.shape != b.mean.shape:
        raise NarrowsError(f"features must have the same length; these have {len(a.mean)} and {len(b.mean)} values")
    first, second = a.covariance, b.covariance
    if np.array_equal(a.mean, b.mean) and np.array_equal(first, second):
        return 0.0  # rounding would leave a remainder
    shared = np.linalg.svd(symmetric_root(first) @ symmetric_root(second), compute_uv=False).sum()
    shift = np.square(a.mean - b.mean).sum()
    return max(0.0, float(shift + np.trace(first) + np.trace(second) - 2 * shared))
