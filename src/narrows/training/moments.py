"""Mean and variance of the training data, as a run needs them before its first batch."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from narrows.data import Data, Examples, statistics
from narrows.data.examples import in_batches
from narrows.data.mixed import MixedExamples
from narrows.objective import (
    SMALLEST_ENTROPY,
    entropies,
)
from narrows.training.config import TrainConfig
from narrows.training.counts import CountMoments, measure_counts

MOMENT_EXAMPLES = 20_000


@dataclass(frozen=True)
class Moments:
    """Mean of each value and total variance (summed over values) of the training data."""

    mean: Tensor
    variance: float
    observed: float
    """How many values an example has on average: all of them, unless some are missing."""
    counts: CountMoments | None = None
    """What is known of counts; `mean` is then that of a row of median size, and `variance` its null deviance. With
    batches there is one mean for each of them."""

    def null(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values of x, and what they are decoded to if nothing is known but their batch."""
        if self.counts is None or self.mean.ndim == 1:
            return x, self.mean.expand_as(x)
        columns = self.mean.shape[1]
        return x[:, :columns], x[:, columns:] @ self.mean


def moments(examples: Examples, index: np.ndarray, missing: bool = False, weights: np.ndarray | None = None) -> Moments:
    """Measure the data from at most 20,000 evenly spaced examples."""
    index = index[:: max(1, len(index) // MOMENT_EXAMPLES)]
    measured = statistics.Moments(missing=missing)
    for here, x in in_batches(examples, index, rows=64):
        measured.add(x, None if weights is None else weights[index[here]])
    mean = torch.from_numpy(measured.mean).float()
    if not isinstance(examples, MixedExamples):
        return Moments(mean, measured.total_variance, measured.observed)
    share = np.broadcast_to(measured.seen / measured.count, mean.shape)  # how often each value is observed
    first = len(mean) - sum(examples.widths)
    of_category = share[first + np.cumsum(examples.widths) - 1]
    constant = np.array([entropy <= SMALLEST_ENTROPY for entropy in entropies(mean[first:], examples.widths)])
    variance = float((share * measured.variance)[:first].sum() + of_category[~constant].sum())
    return Moments(mean, variance, float(share[:first].sum() + of_category.sum()))


def moments_of_counts(config: TrainConfig, data: Data, index: np.ndarray) -> Moments:
    """Measure counts as `moments` measures other values."""
    index = index[:: max(1, len(index) // MOMENT_EXAMPLES)]
    dispersed = config.error == "negative-binomial"
    counts = measure_counts(data.examples, index, data.counting.weights, dispersed, data.batches)
    mean = torch.from_numpy(counts.size * counts.proportion).float()
    return Moments(mean, counts.null, float(mean.shape[-1]), counts)
