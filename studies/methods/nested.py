"""Nested dropout: Rippel, Gelbart and Adams, "Learning ordered representations with nested dropout" (ICML 2014), in the
form of the information-ordered bottleneck: Ho, Zhao and Wandelt, "Information-ordered bottlenecks for adaptive semantic
compression" (2023).

One autoencoder, without noise, is trained to decode its first k codes alone, for all k at once: each example of a batch
draws its own k. The first codes then carry most, and any first k are a model.

Choices of ours
1. k is uniform from 1 to n, the *linear* bottleneck of Ho and others. `--setting 0.1` makes it geometric, as in Rippel
   and others, with that probability to stop at each dimension, and n for all that is beyond n.
2. The answer is the smallest k, by bisection, whose error on the validation split is within the target. Nothing is
   trained afterwards.
3. Rippel and others freeze dimensions one after another when they have converged; Ho and others do not, nor do we.
4. Optimiser, rate and the end of training are those of all rivals (fit.py); what has to settle is the mean error over
   the truncations.
"""

import math

import torch
from torch import Tensor

from methods.fit import Rival, fit
from methods.latent import folded
from methods.problem import Answer, Method, Problem, codes_of, smallest
from narrows.data import thinned
from narrows.model.vae import VAE, GatedVAE

CODES = 16_384


class Nested(Rival):
    """An autoencoder whose first codes are worth most."""

    def __init__(self, model: GatedVAE, problem: Problem, stop: float | None) -> None:
        super().__init__(model)
        self.error, self.stop = problem.error, stop

    def sizes(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw how many codes each example keeps, from 1 to n, (count,)."""
        u, n = torch.rand(count, generator=generator), self.model.n
        if self.stop is None:
            return (u * n).floor().clamp(max=n - 1) + 1
        return (torch.log1p(-u) / math.log1p(-self.stop)).floor().clamp(max=n - 1) + 1

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the mean error over examples and truncations."""
        return self.errors(x, generator).mean()

    def errors(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the error of each example with as many codes as it keeps."""
        z = self.model.encode(x).mean
        kept = torch.arange(self.model.n) < self.sizes(len(x), generator)[:, None]
        return self.error(x, self.model.decode(z * kept))


def first(model: GatedVAE, codes: Tensor, k: int) -> VAE:
    """Return the model of the first k codes, all in one unit, in which the codes have a mean variance of 1."""
    unit = codes.var(0).mean().sqrt().clamp(min=1e-15)
    rows = torch.eye(model.n, dtype=codes.dtype)[:k]
    return folded(model, rows / unit, torch.zeros(k), rows.T * unit, torch.zeros(model.n))


def run(problem: Problem, setting: str) -> Answer:
    """Train once, and take the first codes that the bound needs."""
    rival = Nested(problem.model(problem.n), problem, None if setting == "linear" else float(setting))
    batches = fit(rival, problem, problem.limit)
    codes = codes_of(rival.model, problem, thinned(problem.plan.splits.train, CODES))
    k = smallest(problem.n, lambda k: problem.is_enough(first(rival.model, codes, k)))
    return Answer(first(rival.model, codes, k), batches, setting)


METHOD = Method(run, setting=lambda name: "linear", knob="`linear`, or the probability of a geometric distribution")
