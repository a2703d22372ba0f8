"""Errors on data that trained nothing, with hard gates: z sampled as in training, and z = mu as users decode it."""

import math

import numpy as np
import torch
from scipy.special import stdtrit

from narrows.data import Examples
from narrows.model import VAE, standard_normal
from narrows.objective import Error, kl_elements, squared_error
from narrows.runs import Dimension, HeldOut

BATCH = 250
COST_DECODES = 40_000
"""Decodings that the costs of removal may take, about."""


@torch.no_grad()
def evaluate(model: VAE, examples: Examples, index: np.ndarray, seed: int = 0, error: Error = squared_error) -> HeldOut:
    """Measure a model on the examples of `index`. The noise is drawn anew from `seed`: same model, same numbers.

    The interval is that of a mean over independent inputs, by Student's t: mean +- 1.96 standard errors, and more where
    there are few inputs.
    """
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    was_training = model.training
    model.eval()
    # Made before the loop: what is kept from each batch would cut the freed memory of the batch into pieces.
    sampled, at_mean = torch.empty(2, len(index), dtype=torch.float64)
    for start in range(0, len(index), BATCH):
        here = slice(start, start + BATCH)
        x = examples.batch(index[here]).to(device)
        posterior = model.encode(x)
        noise = standard_normal(posterior.mean.cpu(), generator).to(device)
        sampled[here] = error(x, model.decode(posterior.draw(noise)))
        at_mean[here] = error(x, model.decode(posterior.mean))
    model.train(was_training)
    mean = sampled.mean().item()
    half = half_width(sampled.std().item(), len(sampled)) if len(sampled) > 1 else math.inf
    return HeldOut(mean, mean - half, mean + half, at_mean.mean().item(), len(sampled))


def half_width(std: float, count: int) -> float:
    """Return half of the 95% interval of a mean of `count` numbers with this standard deviation (Student's t)."""
    return float(stdtrit(count - 1, 0.975)) * std / math.sqrt(count)


@torch.no_grad()
def describe_dimensions(
    model: VAE, examples: Examples, index: np.ndarray, seed: int = 0, error: Error = squared_error
) -> list[Dimension]:
    """Measure each dimension of a model on up to 2,000 evenly spaced examples, fewer if it has many."""
    count = max(BATCH, min(2_000, COST_DECODES // max(model.n, 1)))
    index = index[:: max(1, len(index) // count)]
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    was_training = model.training
    model.eval()
    cost, kl, total, squares = torch.zeros(4, model.n, dtype=torch.float64)
    for start in range(0, len(index), BATCH):
        x = examples.batch(index[start : start + BATCH]).to(device)
        posterior = model.encode(x)
        z = posterior.draw(standard_normal(posterior.mean.cpu(), generator).to(device))
        before = error(x, model.decode(z)).double().sum()
        for j in range(model.n):
            without = z.clone()
            without[:, j] = 0
            cost[j] += (error(x, model.decode(without)).double().sum() - before).cpu()
        kl += kl_elements(*posterior).double().sum(0).cpu()
        total += z.double().sum(0).cpu()
        squares += z.double().square().sum(0).cpu()
    model.train(was_training)
    mean = total / len(index)
    std = (squares / len(index) - mean.square()).clamp(min=0).sqrt()
    rows = zip(
        model.kept, (cost / len(index)).tolist(), (kl / len(index)).tolist(), mean.tolist(), std.tolist(), strict=True
    )
    return [Dimension(*row) for row in rows]
