"""3. L0 gates: one learned switch a latent dimension, and two estimators of its gradient.

Gate j is open with probability pi_j = sigmoid(k gamma_j). gamma is global, not per input; k (7) makes the sigmoid
steep. A binary gate has no gradient, so gamma's is estimated from two evaluations of the loss F that share one
uniform vector u (line numbers are those of Algorithm 1 in docs/algorithm.md):

    nu1 = [u > sigmoid(-k gamma)]      nu2 = [u < sigmoid(k gamma)]                                    lines 4 to 6
    ARM      dF/d(k gamma_j) ~ (F(nu1) - F(nu2)) (u_j - 1/2)                                    Yin and Zhou, 2019
    DisARM   dF/d(k gamma_j) ~ (F(nu1) - F(nu2)) 1/2 (-1)^nu2_j [nu1_j != nu2_j] sigmoid(|k gamma_j|)
                                                                                     Dong, Mnih and Tucker, 2020

Both are unbiased. DisARM is ARM with u integrated out given the pair, so its variance is never larger; a gate on
which the pair agrees gets exactly zero. Each vector of the pair alone is a fair draw of Bernoulli(pi).

Randomness comes in by argument: nothing here draws a number except `draw_uniform`, from the generator it is given.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from narrows.errors import NarrowsError

Estimator = Literal["arm", "disarm"]
SURE = 10.0
"""A logit whose gate is open with a probability that rounds to 1."""


def check_estimator(estimator: Estimator) -> Estimator:
    """Refuse an estimator that there is not."""
    if estimator not in get_args(Estimator):
        raise NarrowsError(f"estimator must be one of {', '.join(get_args(Estimator))}; it is {estimator!r}")
    return estimator


class GatePair(NamedTuple):
    """The antithetic pair that one u gives: all (rows, n), gates as 0. and 1."""

    u: Tensor
    first: Tensor
    second: Tensor


def draw_uniform(rows: int, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw u, (rows, n): one row an example, or a single row to share among a batch."""
    return torch.rand(rows, n, generator=generator, device=generator.device, dtype=dtype)


class L0Gates(nn.Module):
    """n gates with logits gamma. At inference a gate is open when its probability is above one half."""

    def __init__(self, n: int, steepness: float = 7.0, start: float = 0.42) -> None:
        super().__init__()
        if n < 0:
            raise NarrowsError(f"there cannot be {n} gates; n must be at least 0")
        self.steepness = steepness
        self.logits = nn.Parameter(torch.full((n,), start))

    @property
    def n(self) -> int:
        """How many gates there are, open or closed."""
        return self.logits.numel()

    def probability(self) -> Tensor:
        """pi, (n,): differentiable; its sum is the L0 term (line 24)."""
        return torch.sigmoid(self.steepness * self.logits)

    def hard(self) -> Tensor:
        """Return the gates as used at inference, (n,): 1. where pi > 1/2, else 0."""
        return (self.logits.detach() > 0).to(self.logits.dtype)

    def kept(self) -> list[int]:
        """Return the indices of the open gates."""
        return self.hard().nonzero().flatten().tolist()

    @torch.no_grad()
    def close(self, gates: Sequence[int]) -> None:
        """Close these gates for sure (pi = 0): the fast recipe decides, nothing is learned."""
        self.logits[list(gates)] = -SURE

    @torch.no_grad()
    def open(self, gates: Sequence[int]) -> None:
        """Open these gates for sure (pi = 1)."""
        self.logits[list(gates)] = SURE

    def pair(self, u: Tensor) -> GatePair:
        """Return both gate vectors of u, (rows, n)."""
        k_gamma = self.steepness * self.logits.detach()
        first = (u > torch.sigmoid(-k_gamma)).to(u.dtype)
        second = (u < torch.sigmoid(k_gamma)).to(u.dtype)
        return GatePair(u, first, second)

    def gradient(self, difference: Tensor, pair: GatePair, estimator: Estimator = "arm") -> Tensor:
        """Estimate dF/dgamma, (n,), from difference = F(nu1) - F(nu2), (batch,), averaged over the batch (line 29).

        With a single shared u the pair has one row and stands for the whole batch.
        """
        if estimator == "arm":
            factor = pair.u - 0.5
        else:
            differs = (pair.first != pair.second).to(pair.u.dtype)
            k_gamma = self.steepness * self.logits.detach()
            factor = 0.5 * (1 - 2 * pair.second) * differs * torch.sigmoid(k_gamma.abs())
        return self.steepness * (difference.detach().unsqueeze(1) * factor).mean(0)

    def surrogate(self, gradient: Tensor) -> Tensor:
        """Return a term of the loss whose value is 0 and whose gradient with respect to gamma is `gradient`.

        So the estimate reaches gamma by ordinary backpropagation: sharding, mixed precision and gradient clipping
        treat it like any other.
        """
        inner = (gradient.detach() * self.logits).sum()
        return inner - inner.detach()
