"""6. GECO: a bound on the error, kept by a multiplier that learns how hard to push.

Rezende and Viola, "Taming VAEs", 2018. For errors E and tolerances tau (lines 14 to 22 of Algorithm 1):

    C     = E - tau                                 per example, or (E - tau) * scale / tau: see below
    C_ma <- alpha C_ma + (1 - alpha) mean(C)        moving average; the first batch sets it
    C'    = mean(C) + stop_gradient(C_ma - mean(C)) the average's value with the batch's gradient
    lambda' = softplus(lambda)^2                    the multiplier, kept in [1e-5, 5]
    loss  = sum of lambda' C'                       networks descend on it, lambda ascends: it grows while C_ma > 0

Two decisions. D4: a clipped lambda' has no gradient at its bound and would stay there for ever, so lambda itself is
projected, after each step, onto the interval whose image is [1e-5, 5]. D12: those bounds silently assume errors of
10 to 300, so any other data use the relative constraint, C * scale / tau.

Any number of bounds: tolerances (m,), errors (batch, m), one multiplier each. What an error is, is not known here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.errors import NarrowsError
from narrows.processes import mean_over_processes


@dataclass(frozen=True)
class GecoConfig:
    """The constraint's settings; the values are the paper's."""

    decay: float = 0.99
    """alpha, of the moving average."""
    start: float = 1.0
    """lambda before the first step; the multiplier is softplus(lambda)^2."""
    lowest: float = 1e-5
    """The multiplier's lower bound."""
    highest: float = 5.0
    """The multiplier's upper bound."""
    relative_scale: float | None = None
    """None: C = E - tau. A number s: C = s (E - tau) / tau, free of the error's unit (decision D12)."""

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise NarrowsError(f"decay must be at least 0 and below 1; it is {self.decay}")
        if not 0 < self.lowest <= self.highest:
            raise NarrowsError(f"lowest must be above 0 and at most highest; they are {self.lowest} and {self.highest}")


class ConstraintTerm(NamedTuple):
    """What one batch says: violation C (batch, m), multiplier lambda' (m,), loss term (scalar)."""

    violation: Tensor
    multiplier: Tensor
    loss: Tensor


class Geco(nn.Module):
    """m bounds with one multiplier each. All its state is in its state_dict."""

    def __init__(self, tolerance: float | Sequence[float], config: GecoConfig | None = None) -> None:
        super().__init__()
        config = config or GecoConfig()
        self.decay, self.relative_scale = config.decay, config.relative_scale
        self.lowest, self.highest = inverse_multiplier(config.lowest), inverse_multiplier(config.highest)
        self.tolerance: Tensor
        self.average: Tensor
        self.started: Tensor
        bounds = _numbers(tolerance)
        if (bounds < 0).any() or (config.relative_scale and (bounds == 0).any()):
            raise NarrowsError(f"tolerances must be numbers of at least 0 (above 0 if relative); they are {tolerance}")
        self.register_buffer("tolerance", bounds)
        self.register_buffer("average", torch.zeros_like(bounds))
        self.register_buffer("started", torch.tensor(False))
        self.raw = nn.Parameter(torch.full_like(bounds, config.start))
        """lambda, before softplus and square. Its optimiser must ascend (`maximize=True`)."""

    def multiplier(self) -> Tensor:
        """lambda', (m,)."""
        return F.softplus(self.raw).square()

    def in_units(self, error: Tensor) -> Tensor:
        """Return differences of errors, (..., m), as the constraint weighs them: as they are, or times scale / tau."""
        return error if self.relative_scale is None else error * (self.relative_scale / self.tolerance)

    def forward(self, error: Tensor) -> ConstraintTerm:
        """Take the batch's errors, (batch,) or (batch, m); in training also move the average."""
        violation = self.in_units(_columns(error, self.tolerance) - self.tolerance)
        mean = violation.mean(0)
        if self.training:
            self._observe(mean_over_processes(mean.detach()))
        value = mean + (self.average - mean.detach())
        multiplier = self.multiplier()
        return ConstraintTerm(violation, multiplier.detach(), (multiplier * value).sum())

    @torch.no_grad()
    def _observe(self, mean: Tensor) -> None:
        mean = mean.to(self.average.dtype)
        moved = torch.lerp(mean, self.average, self.decay)
        self.average.copy_(torch.where(self.started, moved, mean))
        self.started.fill_(True)

    @torch.no_grad()
    def project(self) -> None:
        """Bring lambda back into its interval: call it after each optimiser step (decision D4)."""
        self.raw.clamp_(self.lowest, self.highest)


class SteeredBound(nn.Module):
    """The fast recipe's bounds: relative, E / tau, with multipliers that are held and later steered, not learned.

    Adam moves lambda at a fixed crawl whatever the violation. Steering moves 1 / lambda in proportion to the slack:

        1 / lambda <- 1 / lambda + rate * clip(1 - E / target, -1, 1),          lambda at most where it started.

    Why 1 / lambda: by rate-distortion the posterior's noise makes an error of tau / (2 lambda), whatever the data and
    their unit (docs/algorithm.md). So the error is a straight line in 1 / lambda, and one rate suits all data; in
    log lambda the same rate is too slow for one and swings for ever with another. `start` is far above where lambda
    ends, so that while it is held, training is after the error and the KL term only keeps the latent space in shape.

    Without a tolerance (None) the error is weighed against its own moving average: a plain VAE that wants the smallest
    error it can have.
    """

    def __init__(self, tolerance: float | Sequence[float] | None, start: float = 20.0) -> None:
        super().__init__()
        self.bounded = tolerance is not None
        bounds = _numbers(1.0 if tolerance is None else tolerance)
        if (bounds <= 0).any():
            raise NarrowsError(f"tolerances must be numbers above 0; they are {tolerance}")
        self.start = start
        self.tolerance: Tensor
        self.inverse: Tensor
        self.started: Tensor
        self.register_buffer("tolerance", bounds)
        self.register_buffer("inverse", torch.full_like(bounds, 1 / start))
        self.register_buffer("started", torch.tensor(self.bounded))

    def multiplier(self) -> Tensor:
        """Lambda, (m,)."""
        return 1 / self.inverse

    def forward(self, error: Tensor) -> ConstraintTerm:
        """Take the batch's errors, (batch,) or (batch, m)."""
        error = _columns(error, self.tolerance)
        if not self.bounded and self.training:
            self._follow(mean_over_processes(error.detach().mean(0)))
        violation = error / self.tolerance - 1
        multiplier = self.multiplier()
        return ConstraintTerm(violation, multiplier, (multiplier * violation.mean(0)).sum())

    @torch.no_grad()
    def _follow(self, mean: Tensor) -> None:
        mean = mean.to(self.tolerance.dtype)
        moved = torch.where(self.started, torch.lerp(mean, self.tolerance, 0.99), mean)
        self.tolerance.copy_(moved.clamp(min=1e-30))
        self.started.fill_(True)

    @torch.no_grad()
    def steer(self, violation: Tensor, rate: float = 0.005) -> None:
        """Move each multiplier by its own relative violation, (m,)."""
        self.inverse.sub_(rate * violation.clamp(-1, 1)).clamp_(1 / self.start, 1e5)


def _numbers(tolerance: float | Sequence[float]) -> Tensor:
    """Return tolerances as a vector of their own."""
    try:
        bounds = torch.as_tensor(tolerance, dtype=torch.float32).reshape(-1).clone()
    except (TypeError, ValueError, RuntimeError):
        bounds = torch.empty(0)
    if len(bounds) == 0 or not torch.isfinite(bounds).all():
        raise NarrowsError(f"tolerances must be finite numbers, one or more; they are {tolerance!r:.100}")
    return bounds


def _columns(error: Tensor, tolerance: Tensor) -> Tensor:
    """Return errors as (batch, m)."""
    columns = error.view(len(error), -1)
    if columns.shape[1] != len(tolerance):
        raise NarrowsError(
            f"the error has {columns.shape[1]} numbers an example and there are {len(tolerance)} tolerances: "
            f"it must return (batch,) for one, (batch, m) for m of them"
        )
    return columns


def inverse_multiplier(value: float) -> float:
    """Return the lambda for which softplus(lambda)^2 is this value."""
    return math.log(math.expm1(math.sqrt(value)))
