"""Synthetic data with a known number of dimensions: points on a curved d-dimensional manifold in a larger space.

Coordinates t are uniform in [-1, 1]^d; each of the `ambient` values is a random linear form of t plus a random sine
of another, so the manifold is smooth, curved, and fills no linear subspace of dimension d. Values are scaled into
[0, 1] as a whole, so that distances keep their shape.
"""

import numpy as np


def curved_manifold(count: int, d: int, ambient: int = 50, seed: int = 0) -> np.ndarray:
    """Return points on a random manifold.

    Arguments:
        count: Number of points.
        d: Intrinsic dimension.
        ambient: Values per point.
        seed: Of the manifold and the points.

    Returns:
        The points, (count, ambient) float32 in [0, 1].
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    t = rng.uniform(-1, 1, (count, d))
    # Orthonormal columns: every direction of t matters equally, so no dimension is cheaper to drop than another.
    linear = np.linalg.qr(rng.standard_normal((ambient, d)))[0]
    bend = rng.standard_normal((d, ambient))
    phase = rng.uniform(0, 2 * np.pi, ambient)
    x = t @ linear.T * np.sqrt(ambient / d) + 0.5 * np.sin(np.pi * (t @ bend) / np.sqrt(d) + phase)
    low, high = x.min(), x.max()
    return ((x - low) / (high - low)).astype(np.float32)
