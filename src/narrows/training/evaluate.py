"""Errors on data that trained nothing, with hard gates: z sampled as in training, and z = mu as users decode it."""

import math

import numpy as np
import torch

from narrows.data import Examples
from narrows.model import VAE, standard_normal
from narrows.objective import squared_error
from narrows.runs import HeldOut

BATCH = 250
Z95 = 1.959964
"""Half width of a 95% interval, in standard errors."""


@torch.no_grad()
def evaluate(model: VAE, examples: Examples, index: np.ndarray, seed: int = 0) -> HeldOut:
    """Measure a model on the examples of `index`. The noise is drawn anew from `seed`: same model, same numbers.

    The interval is the normal one of a mean over independent inputs: mean +- 1.96 standard deviations / sqrt(count).
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
        sampled[here] = squared_error(x, model.decode(posterior.draw(noise)))
        at_mean[here] = squared_error(x, model.decode(posterior.mean))
    model.train(was_training)
    mean = sampled.mean().item()
    half = Z95 * sampled.std().item() / math.sqrt(len(sampled)) if len(sampled) > 1 else math.inf
    return HeldOut(mean, mean - half, mean + half, at_mean.mean().item(), len(sampled))
