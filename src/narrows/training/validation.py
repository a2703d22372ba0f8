"""A model's error and dimensions on data that trained nothing, with hard gates.

The error is measured twice: with z sampled from the posterior, as in training, and with z = mu, as users decode it.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from narrows._util.devices import to_device
from narrows.data import Examples
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments
from narrows.model.vae import VAE, Posterior
from narrows.objective import Error, kl_elements, squared_error
from narrows.runs.records import Dimension

BATCH = 250
COST_DECODES = 40_000
"""Approximate number of decodings that measuring the costs of removal may take."""


@torch.no_grad()
def per_input(
    model: VAE, examples: Examples, index: np.ndarray, seed: int = 0, error: Error = squared_error
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each example of `index` with a sampled z, and with z = mu, (examples,) each.

    The noise is drawn from `seed`, so the same model has the same numbers.
    """
    # Allocated before the loop: a small tensor kept from each batch would fragment the memory that the batch frees.
    sampled, at_mean = torch.empty(2, len(index), dtype=torch.float64)
    for here, x, posterior, z in _encoded(model, examples, index, seed):
        sampled[here] = error(x, model.decode(z))
        at_mean[here] = error(x, model.decode(posterior.mean))
    return sampled.numpy(), at_mean.numpy()


@torch.no_grad()
def describe_dimensions(
    model: VAE,
    examples: Examples,
    index: np.ndarray,
    seed: int = 0,
    error: Error = squared_error,
    weights: np.ndarray | None = None,
) -> list[Dimension]:
    """Measure each dimension of a model on up to 2,000 evenly spaced examples, fewer if it has many dimensions."""
    costs, kl, codes = Moments(), Moments(), Moments()
    some = _some(model, index)
    for here, x, posterior, z in _encoded(model, examples, index[some], seed):
        weight = None if weights is None else weights[some][here]
        before = error(x, model.decode(z)).double()
        rises = torch.empty(len(x), model.n, dtype=torch.float64)
        for j in range(model.n):
            without = z.clone()
            without[:, j] = 0
            rises[:, j] = error(x, model.decode(without)).double() - before
        costs.add(rises, weight)
        kl.add(kl_elements(*posterior).cpu(), weight)
        codes.add(z.cpu(), weight)
    measured = (part.tolist() for part in (costs.mean, kl.mean, codes.mean, codes.std))
    return [Dimension(*row) for row in zip(model.kept, *measured, strict=True)]


@torch.no_grad()
def costs_by_value(
    model: VAE,
    examples: Examples,
    index: np.ndarray,
    seed: int,
    of_values: Error,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return how much each value's error rises without each dimension, `(*shape, n)`, on as many examples as above.

    The sum over the values is the dimension's cost of removal. `of_values` returns errors before they are summed.
    """
    some, rises = _some(model, index), Moments()
    for here, x, _, z in _encoded(model, examples, index[some], seed):
        before = of_values(x, model.decode(z)).double()
        found = torch.empty(*before.shape, model.n, dtype=torch.float64)
        for j in range(model.n):
            without = z.clone()
            without[:, j] = 0
            found[..., j] = of_values(x, model.decode(without)).double() - before
        rises.add(found, None if weights is None else weights[some][here])
    return rises.mean


@torch.no_grad()
def errors_of_first(
    model: VAE,
    examples: Examples,
    index: np.ndarray,
    seed: int = 0,
    error: Error = squared_error,
    weights: np.ndarray | None = None,
) -> list[float]:
    """Measure the error of decoding only the first k dimensions, for k = 0 to n, on as many examples as above."""
    errors, some = Moments(), _some(model, index)
    for here, x, _, z in _encoded(model, examples, index[some], seed):
        of_first = torch.empty(len(x), model.n + 1, dtype=torch.float64)
        for k in range(model.n, -1, -1):
            z[:, k:] = 0
            of_first[:, k] = error(x, model.decode(z)).double()
        errors.add(of_first, None if weights is None else weights[some][here])
    return [float(value) for value in errors.mean]


def _some(model: VAE, index: np.ndarray) -> slice:
    """Return evenly spaced places, as many as can be decoded once per dimension in little time."""
    count = max(BATCH, min(2_000, COST_DECODES // max(model.n, 1)))
    return slice(None, None, max(1, len(index) // count))


def _encoded(
    model: VAE, examples: Examples, index: np.ndarray, seed: int
) -> Iterator[tuple[slice, Tensor, Posterior, Tensor]]:
    """Yield each batch's place in `index`, its examples, their posterior and a sample of it, in evaluation mode."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    places = torch.tensor(model.kept).argsort().argsort()  # a dimension has the same noise wherever it stands
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    for here, batch in in_batches(examples, index, BATCH):
        x = to_device(batch, device)
        posterior = model.encode(x)
        noise = torch.randn(posterior.mean.shape, generator=generator, dtype=posterior.mean.dtype)
        yield here, x, posterior, posterior.draw(to_device(noise[:, places], device))
    for module, training in modes:
        module.training = training
