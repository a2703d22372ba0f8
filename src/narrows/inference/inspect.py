"""What a saved model does to test inputs: errors, reconstructions, traversals, and samples of the prior.

Everything is measured on evenly spaced inputs of the test split, not on all of them, so that a report takes seconds;
the certificate (`Result.heldout`) covers all of them. Errors count as the promise counts them: for tables in each
column's unit. A traversal moves one dimension from the 1st to the 99th percentile of its codes, while the others stay
where one input with the median error has them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from narrows.data import Data, split, thinned
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments
from narrows.inference.trained import ROWS, Trained, layout
from narrows.model.vae import standard_normal
from narrows.networks.batches import in_average_batch
from narrows.runs.records import Result

MOST_INPUTS, LEAST_INPUTS = 1_000, 100
VALUES = 4_096_000
"""Values that are reconstructed, about: 1,000 images of 64 x 64."""
SHOWN = 6
"""Inputs shown with the smallest, the median and the largest error."""
POSITIONS = 9
"""Steps of a traversal."""
TRAVERSED = 64
"""Dimensions that are traversed at most: those with the largest cost of removal."""
SAMPLES = 32
PERCENTILES = (1.0, 99.0)
NORMAL_99 = 2.326
"""The 99th percentile of a standard normal: the range of a dimension whose codes are unknown."""


Which = Literal["best", "median", "worst"]
"""Inputs by their error."""


@dataclass(frozen=True)
class Reconstructions:
    """Test inputs, their reconstructions (decoding the mean) and the errors."""

    inputs: np.ndarray
    outputs: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True)
class Inspection:
    """A model on test inputs."""

    errors: np.ndarray
    """The error of each input, (inputs,), with z drawn from the posterior, as the promise counts it."""
    best: Reconstructions
    median: Reconstructions
    worst: Reconstructions
    column_errors: np.ndarray | None
    """For vectors, the share of each value in the mean error, (D,), decoding the mean."""
    ranges: np.ndarray
    """The percentiles of each dimension's codes, (2, n)."""
    start: np.ndarray
    """The code of the input with the median error, (n,)."""
    unit: np.ndarray | float
    """The unit in which each column's error counts."""
    index: np.ndarray
    """Which examples of the data these inputs are, (inputs,)."""
    codes: np.ndarray
    """Their codes, (inputs, n)."""


@torch.no_grad()
def inspect_model(trained: Trained, data: Data, split_seed: int | None) -> Inspection:
    """Reconstruct test inputs, each once with z drawn from the posterior and once from its mean.

    Without the seed of the run's splits, all of `data` are inputs to be reconstructed.
    """
    model, unit = trained.model, trained.unit
    chosen = np.arange(len(data.examples)) if split_seed is None else split(data, split_seed).test
    index = evenly_spaced(chosen, data.examples.shape)
    generator = torch.Generator().manual_seed(0)
    errors, at_mean = np.empty((2, len(index)))
    codes, columns = np.empty((len(index), model.n), np.float32), Moments()
    for here, x in in_batches(data.exact, index, ROWS):
        posterior = model.encode(x)
        drawn = model.decode(posterior.draw(standard_normal(posterior.mean, generator)))
        errors[here] = trained.error(x, drawn)
        each = trained.value_errors(x, model.decode(posterior.mean)).double().flatten(1)
        at_mean[here], codes[here] = each.sum(1), posterior.mean
        if not data.is_image:
            columns.add(each)
    shown, (ranges, start) = by_error(at_mean), range_and_start(codes, at_mean)

    def reconstructions(chosen: np.ndarray) -> Reconstructions:
        x = data.exact.batch(index[chosen])
        return Reconstructions(layout(x), layout(model.reconstruct(x)), at_mean[chosen])

    return Inspection(
        errors=errors,
        best=reconstructions(shown["best"]),
        median=reconstructions(shown["median"]),
        worst=reconstructions(shown["worst"]),
        column_errors=None if data.is_image else columns.mean,
        ranges=ranges,
        start=start,
        unit=unit if isinstance(unit, float) else unit.numpy(),
        index=index,
        codes=codes,
    )


def by_error(errors: np.ndarray) -> dict[Which, np.ndarray]:
    """Return the places of the inputs with the smallest, the median and the largest errors, at most 6 of each."""
    order = np.argsort(errors, kind="stable")
    middle = max(0, len(order) // 2 - SHOWN // 2)
    return {"best": order[:SHOWN], "median": order[middle : middle + SHOWN], "worst": order[::-1][:SHOWN]}


def range_and_start(codes: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what a traversal moves through: the percentiles of codes, (2, n), and the code with the median error."""
    order = np.argsort(errors, kind="stable")
    return np.percentile(codes, PERCENTILES, axis=0), codes[order[len(order) // 2]]


def evenly_spaced(index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return at most 1,000 of the inputs at `index`, evenly spaced; fewer if one input of `shape` is large."""
    return thinned(index, int(np.clip(VALUES // int(np.prod(shape)), LEAST_INPUTS, MOST_INPUTS)))


@dataclass(frozen=True)
class Traversal:
    """One dimension moved through its range."""

    dimension: int
    """Its place in the saved model."""
    positions: np.ndarray
    """The values of the dimension, (POSITIONS,)."""
    decoded: np.ndarray
    """The decoded examples, `(POSITIONS, ...)`."""


def traverse(trained: Trained, inspection: Inspection | None, result: Result | None) -> list[Traversal]:
    """Move each dimension, at most 64 of them, through its range; without test inputs, around the mean code."""
    if inspection is not None:
        (low, high), start = inspection.ranges, inspection.start
    else:
        low, high, start = assumed_ranges(trained.model.n, result)
    kind = next(trained.model.parameters()).dtype

    @torch.no_grad()
    def decode(codes: np.ndarray) -> np.ndarray:
        return layout(in_average_batch(trained.model.decode(torch.from_numpy(codes).to(kind))))

    start = start.astype(np.float32)
    return [move(decode, j, low, high, start) for j in range(min(trained.model.n, TRAVERSED))]


def move(
    decode: Callable[[np.ndarray], np.ndarray], j: int, low: np.ndarray, high: np.ndarray, start: np.ndarray
) -> Traversal:
    """Move dimension j through its range, from `low` to `high`, with the others as in `start`."""
    codes = np.repeat(start[None], POSITIONS, axis=0)
    codes[:, j] = np.linspace(low[j], high[j], POSITIONS)
    return Traversal(j, codes[:, j], decode(codes))


def assumed_ranges(n: int, result: Result | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return low, high and start, (n,) each, without test inputs: from each dimension's mean and deviation."""
    if result is None:
        return np.full(n, -NORMAL_99), np.full(n, NORMAL_99), np.zeros(n)
    mean, std = (np.array([getattr(d, name) for d in result.dimensions]) for name in ("mean", "std"))
    return mean - NORMAL_99 * std, mean + NORMAL_99 * std, mean


@torch.no_grad()
def prior_samples(trained: Trained, seed: int = 0) -> np.ndarray:
    """Return new examples, decoded from draws of the prior."""
    return layout(trained.model.sample(SAMPLES, torch.Generator().manual_seed(seed)))
