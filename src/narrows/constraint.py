"""GECO: a bound on the error, kept by a multiplier that learns how hard to push.

Rezende and Viola, "Taming VAEs", 2018. For errors E and tolerances tau (lines 14 to 22 of Algorithm 1):

    C     = E - tau                                 per example, or (E - tau) * scale / tau: see below
    C_ma <- alpha C_ma + (1 - alpha) mean(C)        moving average; the first batch sets it
    C'    = mean(C) + stop_gradient(C_ma - mean(C)) the average's value with the batch's gradient
    lambda' = softplus(lambda)^2                    the multiplier, kept in [1e-5, 5]
    loss  = sum of lambda' C'                       networks descend on it, lambda ascends: it grows while C_ma > 0

Two decisions. D4: a clipped lambda' has no gradient at its bound and would stay there for ever, so lambda itself is
projected, after each step, onto the interval whose image is [1e-5, 5]. D12: those bounds silently assume errors of
10 to 300, so any other data use the relative constraint, C * scale / tau.

Any number of bounds is possible: tolerances (m,), errors (batch, m), one multiplier each. Nothing here depends on which
error it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows._util.checks import ABOVE_ZERO, NUMBER, Rule, argument, instance_of
from narrows._util.errors import NarrowsError
from narrows._util.processes import mean_over_processes
from narrows._util.text import brief

DECAY = Rule("at least 0 and below 1", lambda value: NUMBER.holds(value) and 0 <= value < 1)


@dataclass(frozen=True)
class GecoConfig:
    """The constraint's settings; the defaults are the paper's values.

    Raises:
        NarrowsError: A setting is not a number, or out of its range.
    """

    decay: float = 0.99
    """alpha of the moving average."""
    start: float = 1.0
    """lambda before the first step; the multiplier is softplus(lambda)^2."""
    lowest: float = 1e-5
    """Lower bound of the multiplier."""
    highest: float = 5.0
    """Upper bound of the multiplier."""
    relative_scale: float | None = None
    """None for C = E - tau; a number s for C = s (E - tau) / tau, which has no unit (decision D12)."""

    def __post_init__(self) -> None:
        argument("decay", self.decay, DECAY)
        argument("start", self.start, NUMBER)
        argument("lowest", self.lowest, ABOVE_ZERO)
        argument("highest", self.highest, ABOVE_ZERO)
        argument("relative_scale", self.relative_scale, ABOVE_ZERO, or_none=True)
        if not self.lowest <= self.highest:
            raise NarrowsError(f"lowest must be above 0 and at most highest; they are {self.lowest} and {self.highest}")


CONFIG = instance_of(GecoConfig, "a GecoConfig")


class ConstraintTerm(NamedTuple):
    """What the constraint makes of one batch."""

    violation: Tensor
    """C, (batch, m)."""
    multiplier: Tensor
    """lambda', (m,)."""
    loss: Tensor
    """The term of the loss, a scalar."""


class _Bounds(nn.Module):
    """Tolerances, and whether the first batch has been seen."""

    def __init__(self, tolerance: float | Sequence[float], started: bool) -> None:
        super().__init__()
        try:
            given = torch.as_tensor(tolerance).detach()
        except (TypeError, ValueError, RuntimeError, OverflowError):
            given = torch.empty(0)
        usable = given.ndim < 2 and given.dtype != torch.bool and not given.is_complex()
        bounds = given.to(torch.float32).reshape(-1).clone() if usable else torch.empty(0)
        if len(bounds) == 0 or not torch.isfinite(bounds).all():
            raise NarrowsError(f"tolerances must be finite numbers, one or more; they are {brief(tolerance)}")
        self.tolerance: Tensor
        self.started: Tensor
        self.register_buffer("tolerance", bounds)
        self.register_buffer("started", torch.tensor(started))

    def _columns(self, error: Tensor) -> Tensor:
        """Return errors as (batch, m)."""
        if not isinstance(error, Tensor) or error.ndim == 0:
            raise NarrowsError(f"error must be a tensor, (batch,) or (batch, m) for m tolerances; it is {brief(error)}")
        columns = error.reshape(len(error), -1)
        if columns.shape[1] != len(self.tolerance):
            raise NarrowsError(
                f"the error returns {columns.shape[1]} numbers per example for {len(self.tolerance)} tolerances; it "
                f"must return (batch,) for one and (batch, m) for m of them"
            )
        return columns

    @torch.no_grad()
    def _average(self, average: Tensor, mean: Tensor, decay: float) -> Tensor:
        """Return the moving average after one more batch; the first batch sets it."""
        mean = mean_over_processes(mean).to(average.dtype)
        moved = torch.where(self.started, torch.lerp(mean, average, decay), mean)
        self.started.fill_(True)
        return moved


class Geco(_Bounds):
    """m bounds with one learned multiplier each; its whole state is in its state_dict.

    Arguments:
        tolerance: tau, one number per bound, in the unit of the error.
        config: The settings; by default the paper's.

    Raises:
        NarrowsError: If a tolerance is not a number of at least 0 (above 0 for a relative constraint), or `config` is
            not a `GecoConfig`.
    """

    def __init__(self, tolerance: float | Sequence[float], config: GecoConfig | None = None) -> None:
        super().__init__(tolerance, started=False)
        config = argument("config", config, CONFIG, or_none=True) or GecoConfig()
        self.decay, self.relative_scale = config.decay, config.relative_scale
        self.lowest, self.highest = inverse_multiplier(config.lowest), inverse_multiplier(config.highest)
        if (self.tolerance < 0).any() or (config.relative_scale and (self.tolerance == 0).any()):
            raise NarrowsError(f"tolerances must be at least 0 (above 0 if relative); they are {brief(tolerance)}")
        self.average: Tensor
        self.register_buffer("average", torch.zeros_like(self.tolerance))
        self.raw = nn.Parameter(torch.full_like(self.tolerance, config.start))
        """lambda, before softplus and square, (m,). Its optimiser must ascend (`maximize=True`)."""

    def multiplier(self) -> Tensor:
        """Return lambda', (m,)."""
        return F.softplus(self.raw).square()

    def in_units(self, error: Tensor) -> Tensor:
        """Return differences of errors, (..., m), as the constraint weighs them: unchanged, or times scale / tau."""
        return error if self.relative_scale is None else error * (self.relative_scale / self.tolerance)

    def forward(self, error: Tensor) -> ConstraintTerm:
        """Evaluate lines 14 to 22; in training, also move the average.

        Arguments:
            error: The errors of a batch, (batch,) or (batch, m).

        Returns:
            Violation, multiplier and term of the loss.
        """
        violation = self.in_units(self._columns(error) - self.tolerance)
        mean = violation.mean(0)
        if self.training:
            self.average.copy_(self._average(self.average, mean.detach(), self.decay))
        value = mean + (self.average - mean.detach())
        multiplier = self.multiplier()
        return ConstraintTerm(violation, multiplier.detach(), (multiplier * value).sum())

    @torch.no_grad()
    def project(self) -> None:
        """Bring lambda back into its interval; call it after each optimiser step (decision D4)."""
        self.raw.clamp_(self.lowest, self.highest)


class SteeredBound(_Bounds):
    """The fast recipe's bounds: relative, E / tau, with multipliers that are held and later steered, not learned.

    Adam moves lambda by about the same amount per step whatever the violation. Steering moves 1 / lambda by the slack
    s = 1 - E / target, and by the change of the slack, which it then need not wait to add up (a PI controller, as nuPI
    by Sohrabi et al., 2024):

        1 / lambda <- 1 / lambda + rate * s + lead * (s - s before),          lambda at most where it started.

    Why 1 / lambda: by rate-distortion theory the posterior's noise makes an error of tau / (2 lambda), whatever the
    data and their unit (docs/algorithm.md). So the error is linear in 1 / lambda, and one rate suits all data; in
    log lambda the same rate is too slow for some data and oscillates for others. `start` is far above lambda's final
    value, so that while lambda is held, training reduces the error and the KL term only keeps the latent space in
    shape.

    Without a tolerance the error is compared with its own moving average: a plain VAE with the smallest error it can
    reach.

    Arguments:
        tolerance: tau, one number per bound, in the unit of the error, or None.
        start: The multiplier that is held.

    Raises:
        NarrowsError: If a tolerance, or `start`, is not a number above 0.
    """

    def __init__(self, tolerance: float | Sequence[float] | None, start: float = 60.0) -> None:
        super().__init__(1.0 if tolerance is None else tolerance, started=tolerance is not None)
        if (self.tolerance <= 0).any():
            raise NarrowsError(f"tolerances must be numbers above 0; they are {brief(tolerance)}")
        self.bounded, self.start = tolerance is not None, argument("start", start, ABOVE_ZERO)
        self.inverse: Tensor
        self.before: Tensor
        self.register_buffer("inverse", torch.full_like(self.tolerance, 1 / start))
        self.register_buffer("before", torch.full_like(self.tolerance, math.nan))

    def multiplier(self) -> Tensor:
        """Return lambda, (m,)."""
        return 1 / self.inverse

    def forward(self, error: Tensor) -> ConstraintTerm:
        """Return violation, multiplier and term of the loss for the errors of a batch, (batch,) or (batch, m)."""
        error = self._columns(error)
        if not self.bounded and self.training:
            average = self._average(self.tolerance, error.detach().mean(0), 0.99)
            self.tolerance.copy_(average.clamp(min=1e-30))
        violation = error / self.tolerance - 1
        multiplier = self.multiplier()
        return ConstraintTerm(violation, multiplier, (multiplier * violation.mean(0)).sum())

    @torch.no_grad()
    def expect(self, noise: Tensor) -> None:
        """Move each multiplier to where the posterior's noise makes this error, (m,): tau / (2 lambda)."""
        self.inverse.copy_(2 * noise / self.tolerance).clamp_(1 / self.start, 1e5)

    @torch.no_grad()
    def steer(self, violation: Tensor, rate: float = 0.01, lead: float = 1.0) -> None:
        """Move each multiplier by its relative violation, (m,), and by the change of that since the last call."""
        change = torch.nan_to_num(violation - self.before).clamp(-0.05, 0.05)
        self.before.copy_(violation)
        self.inverse.sub_(rate * violation.clamp(-1, 1) + lead * change).clamp_(1 / self.start, 1e5)


def inverse_multiplier(value: float) -> float:
    """Return the lambda for which softplus(lambda)^2 is this value."""
    root = math.sqrt(value)
    return math.log(math.expm1(root)) if root < 100 else root  # the exponential would overflow, and -1 is lost
