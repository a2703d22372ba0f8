"""FONDUE: Bonheme and Grzes, "FONDUE: an algorithm to find the optimal dimensionality of the latent representations of
variational autoencoders" (2022).

Dimensions that a VAE does not use are noise in its samples and nearly constant in its means. So after a short training
the intrinsic dimension of samples exceeds that of means as soon as there are unused dimensions. FONDUE looks for the
largest size at which the difference is at most a threshold: it begins at the intrinsic dimension of the data, doubles
while the difference is within the threshold, and then bisects. It knows no bound on the error: whether the VAE of that
size keeps tau is chance.

Choices of ours
1. The estimator is the authors': maximum likelihood (Levina and Bickel, 2004), 20 neighbours; 5,000 examples.
2. The threshold is 20% of the data's intrinsic dimension; that share is the knob.
3. A short training is two passes over the training data, and at least 1,000 batches, since two passes over a table are
   a few dozen. The authors take few passes too, by the set.
4. The VAE is an ordinary one: E D / (2 tau) + KL, the likelihood of noise whose size is tau, for D values per input,
   because a weight of 1 would depend on the unit of the data. Doubling ends at n, the widest size.
5. The answer's model is a plain VAE of that size, trained towards tau as in bisection.py.
"""

import math

import numpy as np
import torch
from alternatives import mle
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from methods.bisection import Attempt
from methods.fit import Objective
from methods.problem import Answer, Method, Problem
from narrows.data import Batches, thinned
from narrows.model.vae import VAE
from narrows.objective import kl_elements
from narrows.recipes.controller import ControllerConfig
from narrows.recipes.optimiser import make_optimiser

EXAMPLES, NEIGHBOURS = 5_000, 20
PASSES, LEAST = 2, 1_000


def intrinsic(points: np.ndarray) -> float:
    """Return the intrinsic dimension of points, (N, values), without those that occur before."""
    points = np.unique(np.asarray(points, np.float64), axis=0)
    k = min(NEIGHBOURS, len(points) - 1)
    if points.shape[1] == 0 or k < 2:
        return 0.0
    return mle(NearestNeighbors(n_neighbors=k).fit(points).kneighbors()[0].clip(min=1e-12), k)


def excess(problem: Problem, n: int, limit: int) -> tuple[float, int]:
    """Train a VAE with n dimensions for a while; return how far samples exceed means in dimension, and the batches."""
    model, splits = problem.model(n), problem.plan.splits
    optimiser = make_optimiser(Objective(model), problem.learning_rate)
    batches = Batches(splits.training, problem.config.batch, problem.seed)
    noise = torch.Generator().manual_seed(problem.seed)
    weight = math.prod(problem.examples.shape) / (2 * problem.tau)
    steps = min(limit, max(LEAST, PASSES * batches.per_epoch))
    model.train()
    for _ in range(steps):
        x = problem.examples.batch(batches.next())
        posterior = model.encode(x)
        z = posterior.draw(torch.randn(posterior.mean.shape, generator=noise))
        loss = (weight * problem.error(x, model.decode(z)) + kl_elements(*posterior).sum(1)).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    model.eval()
    means, samples = _codes(problem, model, noise)
    return intrinsic(samples.numpy()) - intrinsic(means.numpy()), steps


def search(problem: Problem, share: float) -> tuple[int, int]:
    """Return the largest size whose excess is within this share of the data's intrinsic dimension, and the batches."""
    index = thinned(problem.plan.splits.train, EXAMPLES)
    dimension = intrinsic(problem.examples.batch(index).flatten(1).numpy())
    spent, low, high, size = 0, 0, 2 * problem.n, min(problem.n, max(1, round(dimension)))
    while size != low and spent < problem.limit:
        difference, batches = excess(problem, size, problem.limit - spent)
        spent += batches
        if difference <= share * dimension:
            low, size = size, min(2 * size, problem.n, (size + high) // 2)
        else:
            high = size
            size = (low + high) // 2
    return max(1, low), spent


def run(problem: Problem, setting: str) -> Answer:
    """Find the size, and train a plain VAE of it."""
    size, spent = search(problem, float(setting))
    attempt = Attempt(problem, size, ControllerConfig.fit_patience)
    attempt.search(max(1, problem.limit - spent))
    model = attempt.finish()
    return Answer(model, spent + attempt.spent, setting)


def _codes(problem: Problem, model: VAE, noise: torch.Generator) -> tuple[Tensor, Tensor]:
    x = problem.examples.batch(thinned(problem.plan.splits.train, EXAMPLES))
    with torch.no_grad():
        parts = [model.encode(part) for part in torch.split(x, 250)]
        means = torch.cat([part.mean for part in parts])
        samples = torch.cat([part.draw(torch.randn(part.mean.shape, generator=noise)) for part in parts])
    return means, samples


METHOD = Method(run, setting=lambda name: "0.2", knob="threshold, as a share of the data's intrinsic dimension")
