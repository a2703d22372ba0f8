"""The last phase: the KL term takes the slack under the target, and the learning rate falls.

While lambda is held, the KL term is too weak to settle the latent space's scale. So the last phase begins in the
coordinates of rotation.py, uncorrelated, with variance 1, the most expensive first, and with as much noise in the
posterior as the slack allows: the KL term reaches its minimum over coordinates and noise in one move, and no decoded
mean changes. Steering lambda then has little left to do. At the end the codes, which training has moved a little, are
made uncorrelated once more, and the noise brings the error exactly to its target.
"""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor

from narrows.constraint import SteeredBound
from narrows.model.vae import Posterior
from narrows.recipes.base import Draw
from narrows.recipes.rotation import settle
from narrows.recipes.turning import TURNED, Turning

TURNED_AT_LAST, SETTLED = 2_048, 16_384
"""Examples that show the coordinates with which the last phase begins, and the final ones."""
NOISE_STEPS, MOST_NOISE = 4, 1e4
"""Steps in which the factor of the posterior's variance is found, its largest value, and 1 / its smallest."""
HALVINGS, NEAR = 10, 0.03
"""Steps where those do not come within the second of the target."""
MOST_RISE = 1.5
"""How far the error may rise above its target, as a factor, when codes are settled."""
LOWEST_RATE = 0.01
"""Share of the learning rate at the end."""


Target = Callable[..., Tensor]
"""Returns the target of the held-out error, (m,); it may be given the standard deviation of one example's error."""


class LastPhase:
    """What is done at the beginning of the last phase, in it, and at its end.

    Arguments:
        turning: Turns the latent space.
        constraint: The bounds, whose multipliers move.
        target: The target of the held-out error.
        training_examples: Draws examples for the final coordinates.
    """

    def __init__(self, turning: Turning, constraint: SteeredBound, target: Target, training_examples: Draw) -> None:
        self.turning, self.constraint, self.target = turning, constraint, target
        self.training_examples = training_examples
        self.monitor = turning.monitor

    def take_better(self) -> None:
        """Go on from the averaged weights, or from the trained ones where these are ahead, as in a run cut short."""
        monitor = self.monitor
        averaged = {name: tensor.clone() for name, tensor in monitor.averaged.state_dict().items()}
        of_averaged = monitor.error_with(1.0)[0]
        monitor.restart()
        if ((of_averaged - monitor.error_with(1.0)[0]) / self.target()).max() <= 0:
            monitor.model.load_state_dict(averaged)
            monitor.restart()

    def settle(self, optimiser: torch.optim.Optimizer, final: bool) -> None:
        """Bring the error to its target by the posterior's noise, with lambda, and uncorrelate the codes.

        To second order the noise's part of the error is in proportion to its variance, and at a given lambda the best
        signal-to-noise ratios of all dimensions have one factor in common. So the variances take one factor. Where the
        final error rises far beyond its target all the same, as in a model that is hardly trained, nothing changes.
        """
        noise = self.find_noise() if self.constraint.bounded else 1.0
        model, averaged, generator = self.monitor.model, self.monitor.averaged, self.monitor.generator
        parts = self.turning.parts(SETTLED if final else TURNED_AT_LAST)
        seen = [averaged.encode(self.training_examples(TURNED, generator)) for _ in range(parts)]
        mean, log_std = (torch.cat(parts) for parts in zip(*seen, strict=True))
        before, states = self.share_of_target(1.0), [copy.deepcopy(m.state_dict()) for m in (model, averaged)]
        codes = parts * TURNED * self.turning.positions
        self.turning.apply(settle(averaged, Posterior(mean, log_std), noise, codes), optimiser)
        if final and self.share_of_target(1.0) > MOST_RISE * max(1.0, before):
            model.load_state_dict(states[0])
            averaged.load_state_dict(states[1])

    def share_of_target(self, noise: float) -> float:
        """Return the error with this factor on the posterior's variance, as a share of its target."""
        error, spread = self.monitor.error_with(noise)
        return (error / self.target(spread)).max().item()

    def find_noise(self) -> float:
        """Return the factor of the posterior's variance at which the held-out error is at its target, and move lambda.

        A few steps assume that the error is linear in the variance. Where it is not, the factor is found by halving, in
        its logarithm, the interval in which the error crosses its target. The factor is 1 where the error misses its
        target even without noise.
        """
        at_mean, noise = self.monitor.error_with(0.0)[0], 1.0
        if self.share_of_target(0.0) >= 1:
            return 1.0
        for _ in range(NOISE_STEPS):
            error, spread = self.monitor.error_with(noise)
            room = self.target(spread) - at_mean
            room = torch.where(room > 0, room, 0.01 * at_mean)  # less noise, smaller spread, higher target
            factor = (room / (error - at_mean).clamp(min=1 / MOST_NOISE * room)).min().item()
            noise = min(max(factor * noise, 1 / MOST_NOISE), MOST_NOISE)
        self.constraint.expect(room / self.turning.positions)
        if abs(self.share_of_target(noise) - 1) <= NEAR or noise == MOST_NOISE:
            return noise
        low, high = 1 / MOST_NOISE, MOST_NOISE
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.share_of_target(middle) <= 1 else (low, middle)
        return low

    def steer(self, error: Tensor) -> None:
        """Steer lambda towards a held-out error, (m,), at its target."""
        if self.constraint.bounded:
            violation = (error / self.target() - 1) / self.turning.positions
            self.constraint.steer(violation.to(self.constraint.inverse.dtype))


def lower_rate(optimiser: torch.optim.Optimizer, fallen: float) -> None:
    """Set the learning rate: half a cosine from its first value, at 0, to `LOWEST_RATE` of it, at 1."""
    for group in optimiser.param_groups:
        group.setdefault("initial_lr", group["lr"])
        share = LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * fallen))
        group["lr"] = group["initial_lr"] * share
