"""L0 gates: one learned switch per latent dimension, and two estimators of its gradient.

Gate j is open with probability pi_j = sigmoid(k gamma_j). gamma is global, not per input; k (7) makes the sigmoid
steep. A binary gate has no gradient, so gamma's is estimated from two evaluations of the loss F that share one
uniform vector u (line numbers are those of Algorithm 1 in docs/algorithm.md):

    nu1 = [u > sigmoid(-k gamma)]      nu2 = [u < sigmoid(k gamma)]                                    lines 4 to 6
    ARM      dF/d(k gamma_j) ~ (F(nu1) - F(nu2)) (u_j - 1/2)                                    Yin and Zhou, 2019
    DisARM   dF/d(k gamma_j) ~ (F(nu1) - F(nu2)) 1/2 (-1)^nu2_j [nu1_j != nu2_j] sigmoid(|k gamma_j|)
                                                                                     Dong, Mnih and Tucker, 2020

Both are unbiased. DisARM is ARM with u integrated out given the pair, so its variance is never larger; a gate on
which the pair agrees gets exactly zero. Each vector of the pair alone is a fair draw of Bernoulli(pi).

Randomness comes in by argument: only `draw_uniform` draws numbers, from the generator it is given.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from narrows._util.checks import ABOVE_ZERO, COUNT, NUMBER, SIZE, WHOLE, Rule, argument, instance_of, one_of, several
from narrows._util.errors import NarrowsError
from narrows._util.memory import within_memory
from narrows._util.text import brief

Estimator = Literal["arm", "disarm"]
SURE = 10.0
"""Logit of a gate whose probability of being open rounds to 1."""
GENERATOR = instance_of(torch.Generator, "a torch.Generator, such as torch.Generator().manual_seed(0)")
PRECISION = Rule(
    "a floating-point torch.dtype", lambda value: isinstance(value, torch.dtype) and value.is_floating_point
)


class GatePair(NamedTuple):
    """The antithetic pair of gate vectors that one u gives; all are (rows, n), gates as 0. and 1."""

    u: Tensor
    first: Tensor
    """nu1 = [u > sigmoid(-k gamma)]."""
    second: Tensor
    """nu2 = [u < sigmoid(k gamma)]."""


def draw_uniform(rows: int, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw u from Unif(0, 1).

    Arguments:
        rows: One row per example, or 1 to share one u among a batch.
        n: Number of gates.
        generator: The source of randomness; u is on its device.
        dtype: Precision of the gates.

    Returns:
        u, (rows, n).
    """
    try:
        return torch.rand(rows, n, generator=generator, device=generator.device, dtype=dtype)
    except Exception:
        check_draw(rows, generator, dtype, "rows")
        argument("n", n, WHOLE)
        with within_memory(f"{rows} x {n} numbers", "draw fewer"):
            raise


def check_draw(count: object, generator: object, dtype: object = torch.float32, name: str = "count") -> None:
    """Raise if so many numbers cannot be drawn: called when drawing has failed."""
    argument(name, count, COUNT)
    argument("generator", generator, GENERATOR)
    argument("dtype", dtype, PRECISION)


def _arm(pair: GatePair, k_gamma: Tensor) -> Tensor:
    return pair.u - 0.5


def _disarm(pair: GatePair, k_gamma: Tensor) -> Tensor:
    differs = (pair.first != pair.second).to(pair.u.dtype)
    return 0.5 * (1 - 2 * pair.second) * differs * torch.sigmoid(k_gamma.abs())


ESTIMATORS = {"arm": _arm, "disarm": _disarm}
"""The factor of F(nu1) - F(nu2) in each estimate, (rows, n)."""


def check_estimator(estimator: Estimator) -> Estimator:
    """Raise if `estimator` is unknown."""
    checked: Estimator = argument("estimator", estimator, one_of(ESTIMATORS))
    return checked


class L0Gates(nn.Module):
    """n gates with logits gamma; at inference a gate is open if its probability is above one half.

    Arguments:
        n: Number of gates.
        steepness: k of the sigmoid, above 0.
        start: The logit that all gates start with; 0.42 makes them open with probability 0.95.

    Raises:
        NarrowsError: If an argument is out of its range.
    """

    def __init__(self, n: int, steepness: float = 7.0, start: float = 0.42) -> None:
        super().__init__()
        n, start = argument("n", n, SIZE), argument("start", start, NUMBER)
        self.steepness: float = argument("steepness", steepness, ABOVE_ZERO)
        self.logits = nn.Parameter(torch.full((n,), float(start)))

    @property
    def n(self) -> int:
        """Number of gates, open or closed."""
        return self.logits.numel()

    def probability(self) -> Tensor:
        """Return pi, (n,), with gradients; its sum is the L0 term (line 24)."""
        return torch.sigmoid(self.steepness * self.logits)

    def hard(self) -> Tensor:
        """Return the gates as used at inference, (n,): 1. where pi > 1/2, otherwise 0."""
        return (self.logits.detach() > 0).to(self.logits.dtype)

    def kept(self) -> list[int]:
        """Return the indices of the open gates."""
        return self.hard().nonzero().flatten().tolist()

    @torch.no_grad()
    def close(self, gates: Sequence[int]) -> None:
        """Close these gates with certainty (pi = 0); the fast recipe decides instead of learning."""
        self.logits[self._indices(gates)] = -SURE

    @torch.no_grad()
    def open(self, gates: Sequence[int]) -> None:
        """Open these gates with certainty (pi = 1)."""
        self.logits[self._indices(gates)] = SURE

    def _indices(self, gates: Sequence[int]) -> list[int]:
        here = Rule("", lambda gate: type(gate) is int and 0 <= gate < self.n)
        return several("gates", gates, here, f"a list of gates, numbers from 0 to {self.n - 1}")

    def pair(self, u: Tensor) -> GatePair:
        """Return both gate vectors of u, (rows, n), without gradients."""
        k_gamma = self.steepness * self.logits.detach()
        try:
            first = (u > torch.sigmoid(-k_gamma)).to(u.dtype)
            second = (u < torch.sigmoid(k_gamma)).to(u.dtype)
        except Exception:
            _check_shape("u", u, ("rows", self.n))
            raise
        return GatePair(u, first, second)

    def gradient(self, difference: Tensor, pair: GatePair, estimator: Estimator = "arm") -> Tensor:
        """Estimate dF/dgamma from two evaluations of F (line 29).

        Arguments:
            difference: F(nu1) - F(nu2) for each example, (batch,).
            pair: The gate vectors that F was evaluated with, (batch, n), or (1, n) for one shared u.
            estimator: "arm" or "disarm".

        Returns:
            The estimate averaged over the batch, (n,).
        """
        try:
            factor = ESTIMATORS[estimator](pair, self.steepness * self.logits.detach())
            return self.steepness * (difference.detach().unsqueeze(1) * factor).mean(0)
        except Exception:
            check_estimator(estimator)
            argument("pair", pair, instance_of(GatePair, "a GatePair, as `pair` returns it"))
            _check_shape("difference", difference, (len(pair.u),))
            raise

    def surrogate(self, gradient: Tensor) -> Tensor:
        """Return a term of the loss whose value is 0 and whose gradient with respect to gamma is `gradient`, (n,).

        So the estimate reaches gamma by ordinary backpropagation, and sharding, mixed precision and gradient clipping
        treat it like any other gradient.
        """
        try:
            product = (gradient.detach() * self.logits).sum()
        except Exception:
            _check_shape("gradient", gradient, (self.n,))
            raise
        return product - product.detach()


def _check_shape(name: str, value: object, shape: tuple[int | str, ...]) -> None:
    """Raise if a value is not a tensor of this shape, in which a text stands for any size."""
    sizes = value.shape if isinstance(value, Tensor) else ()
    fits = len(sizes) == len(shape) and all(want in (size, str(want)) for size, want in zip(sizes, shape, strict=True))
    if not isinstance(value, Tensor) or not fits:
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        found = f"it has shape {tuple(sizes)}" if isinstance(value, Tensor) else f"it is {brief(value)}"
        raise NarrowsError(f"{name} must be a tensor of shape ({wanted}); {found}")
