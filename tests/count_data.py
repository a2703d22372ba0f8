"""Counts with a known number of dimensions: log rates on a plane, library sizes that vary."""

import numpy as np


def drawn_counts(rows=400, columns=30, d=2, total=60.0, dispersion=0.0, seed=0, spread=1.0):
    """Return counts, (rows, columns), and their expectations."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=columns) + rng.normal(size=(rows, d)) @ rng.normal(size=(d, columns)) * spread / d**0.5
    share = np.exp(logit - logit.max(1, keepdims=True))
    size = total * np.exp(0.3 * rng.normal(size=(rows, 1)))
    mean = size * share / share.sum(1, keepdims=True)
    rate = mean * rng.gamma(1 / dispersion, dispersion, mean.shape) if dispersion else mean
    x = rng.poisson(rate).astype(np.float64)
    x[x.sum(1) == 0, 0] = 1
    return x, mean


def drawn_batches(rows=400, columns=30, d=2, batches=3, total=120.0, seed=0):
    """Return counts, (rows, columns), whose columns have a factor of their own in each batch, and the batches."""
    rng = np.random.default_rng(seed)
    batch = rng.integers(0, batches, rows)
    logit = rng.normal(size=columns) + rng.normal(size=(rows, d)) @ rng.normal(size=(d, columns)) / d**0.5
    share = np.exp(logit + rng.normal(size=(batches, columns))[batch])
    size = total * np.exp(0.3 * rng.normal(size=(rows, 1)))
    x = rng.poisson(size * share / share.sum(1, keepdims=True)).astype(np.float64)
    x[x.sum(1) == 0, 0] = 1
    return x, batch
