"""The one place where the order of examples becomes random: a permutation fixed by a seed and a key."""

import numpy as np

from narrows.errors import NarrowsError


def shuffled(count: int, seed: int, *key: int) -> np.ndarray:
    """Return a permutation of 0..count-1 from numpy's PCG64; each `key` gives an independent one.

    Without a key this is np.random.Generator(np.random.PCG64(seed)).permutation(count).
    """
    if seed < 0:
        raise NarrowsError(f"seed is {seed}, but a seed is a whole number from 0 up; choose another --seed")
    source = np.random.SeedSequence(seed, spawn_key=key)
    order = np.random.Generator(np.random.PCG64(source)).permutation(count)
    return order.astype(np.int64, copy=False)
