"""What a saved model does, for whoever looks at it: errors of test inputs, reconstructions, traversals, samples.

Everything is measured on the test split, on evenly spaced inputs and not on all of them, so that a report is made in
seconds; the certificate (`Result.heldout`) is about all of them. Errors count as the promise does: for tables in the
columns' own units. Traversals lead one dimension from the 1st to the 99th percentile of its codes, the others stay
where one ordinary input has them.
"""

from dataclasses import dataclass

import numpy as np
import torch

from narrows.data import Data, split, thinned
from narrows.model import standard_normal
from narrows.objective import ERRORS
from narrows.runs import Result
from narrows.using import ROWS, Trained, layout, unit_of

MOST_INPUTS, LEAST_INPUTS = 1_000, 100
VALUES = 4_096_000
"""Values that are reconstructed, about: 1,000 images of 64 x 64."""
PICKED = 6
"""Inputs shown of the best, of the median and of the worst."""
POSITIONS = 9
"""Steps of a traversal."""
TRAVERSED = 64
"""Dimensions that are traversed at most: those with the largest cost of removal."""
SAMPLES = 32
PERCENTILES = (1.0, 99.0)
NORMAL_99 = 2.326
"""The 99th percentile of a standard normal: the range of a dimension whose codes are not at hand."""


@dataclass(frozen=True)
class Picked:
    """A few test inputs, what the model makes of them (decoding the mean), and their errors."""

    inputs: np.ndarray
    outputs: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True)
class HeldOutEvidence:
    """The model on test inputs."""

    count: int
    """Inputs measured."""
    errors: np.ndarray
    """(count,), z drawn from the posterior, as the promise counts."""
    best: Picked
    median: Picked
    worst: Picked
    column_errors: np.ndarray | None
    """Vectors: each value's share of the error, (D,), decoding the mean."""
    ranges: np.ndarray
    """(2, n): percentiles of the codes."""
    start: np.ndarray
    """(n,): the code of the input with the median error."""
    unit: np.ndarray | float
    """What counts as one in each column."""


@torch.no_grad()
def look_at(trained: Trained, data: Data, split_seed: int) -> HeldOutEvidence:
    """Reconstruct test inputs: each once with z drawn, once from the mean."""
    error, unit, model = ERRORS[trained.about.get("error", "squared")], unit_of(trained), trained.model
    index = evenly_spaced(split(data, split_seed).test, data.examples.shape)
    generator = torch.Generator().manual_seed(0)
    drawn, at_mean, codes = [], [], []
    columns = torch.zeros(1, dtype=torch.float64)
    for start in range(0, len(index), ROWS):
        x = data.examples.batch(index[start : start + ROWS])
        posterior = model.encode(x)
        y = model.decode(posterior.mean)
        z = posterior.draw(standard_normal(posterior.mean, generator))
        drawn.append(error(x / unit, model.decode(z) / unit).double())
        each = error((x / unit).reshape(-1, 1), (y / unit).reshape(-1, 1)).double().view(len(x), -1)
        at_mean.append(each.sum(1))
        columns = columns + each.sum(0)
        codes.append(posterior.mean)
    means, code = torch.cat(at_mean).numpy(), torch.cat(codes).numpy()
    order = np.argsort(means, kind="stable")
    middle = max(0, len(order) // 2 - PICKED // 2)

    def pick(chosen: np.ndarray) -> Picked:
        x = data.examples.batch(index[chosen])
        return Picked(layout(x), layout(model.reconstruct(x)), means[chosen])

    return HeldOutEvidence(
        len(index),
        torch.cat(drawn).numpy(),
        pick(order[:PICKED]),
        pick(order[middle : middle + PICKED]),
        pick(order[::-1][:PICKED]),
        None if data.is_image else (columns / len(index)).numpy(),
        np.percentile(code, PERCENTILES, axis=0),
        code[order[len(order) // 2]],
        unit if isinstance(unit, float) else unit.numpy(),
    )


def evenly_spaced(index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return at most 1,000 of the inputs, fewer if they are large."""
    most = int(np.clip(VALUES // int(np.prod(shape)), LEAST_INPUTS, MOST_INPUTS))
    return thinned(index, most)


@dataclass(frozen=True)
class Traversal:
    """One dimension led through its range."""

    dimension: int
    """Its place in the saved model."""
    positions: np.ndarray
    """(POSITIONS,)"""
    decoded: np.ndarray
    """(POSITIONS, ...): what each stands for."""


@torch.no_grad()
def traverse(trained: Trained, seen: HeldOutEvidence | None, result: Result | None) -> list[Traversal]:
    """Lead each dimension through its range, at most 64 of them; without test inputs, around the mean code."""
    n = trained.model.n
    if seen is not None:
        (low, high), start = seen.ranges, seen.start
    else:
        low, high, start = assumed_ranges(n, result)
    made = []
    for j in range(min(n, TRAVERSED)):
        codes = np.repeat(start[None].astype(np.float32), POSITIONS, axis=0)
        codes[:, j] = np.linspace(low[j], high[j], POSITIONS)
        made.append(Traversal(j, codes[:, j], layout(trained.model.decode(torch.from_numpy(codes)))))
    return made


def assumed_ranges(n: int, result: Result | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return low, high and start, (n,) each, without test inputs: by each dimension's mean and deviation."""
    if result is None:
        return np.full(n, -NORMAL_99), np.full(n, NORMAL_99), np.zeros(n)
    mean, std = (np.array([getattr(d, name) for d in result.dimensions]) for name in ("mean", "std"))
    return mean - NORMAL_99 * std, mean + NORMAL_99 * std, mean


@torch.no_grad()
def samples(trained: Trained, seed: int = 0) -> np.ndarray:
    """Decode draws from the prior."""
    return layout(trained.model.sample(SAMPLES, torch.Generator().manual_seed(seed)))
