"""Turn the latent space of a model in training: the model itself, its average and the optimiser's moments together."""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from narrows.model.vae import Posterior
from narrows.networks.latent_layer import Coordinates
from narrows.recipes.monitor import Monitor
from narrows.recipes.rotation import find_directions, joint_costs, pull_back

TURNED = 256
"""Examples that show directions and their costs."""


class Turning:
    """Finds other coordinates for the averaged model, and gives them to all that share its latent space.

    Arguments:
        monitor: Has the model in training, its average, and the held-out examples that show directions.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.found: Coordinates | None = None
        """Coordinates in which the gates of the decision at hand are directions."""

    @property
    def possible(self) -> bool:
        """Whether the networks' latent layers can take other coordinates."""
        return self.monitor.model.mixable

    @property
    def positions(self) -> int:
        """How many positions a latent map has: each is an example, and adds its own noise. 1 for a latent vector."""
        return math.prod(self.monitor.model.latent_shape[1:])

    def parts(self, count: int) -> int:
        """Return how many draws of `TURNED` examples show about `count` codes."""
        return max(1, count // (TURNED * self.positions))

    def find(self, count: int) -> tuple[Coordinates, Tensor, Tensor]:
        """Return the averaged model's directions, and the last of the examples that showed them, with their z."""
        monitor, averaged = self.monitor, self.monitor.averaged
        seen: list[tuple[Tensor, ...]] = []
        for _ in range(self.parts(count)):
            x, posterior, z = monitor.draw(TURNED, monitor.generator)
            draw = partial(monitor.normal, count=TURNED, generator=monitor.generator)
            seen.append((*posterior, pull_back(averaged, z, x, monitor.error, draw)))
        mean, log_std, pulled = (torch.cat(parts) for parts in zip(*seen, strict=True))
        return find_directions(averaged, Posterior(mean, log_std), pulled), x, z

    def costs(self) -> Iterator[tuple[int, Tensor]]:
        """Find directions; yield them from the cheapest on, with the cost of removing each and all before it."""
        self.found, x, z = self.find(TURNED)
        yield from joint_costs(self.monitor.averaged, self.found, z, x, self.monitor.error)

    def apply(self, new: Coordinates | None, optimiser: torch.optim.Optimizer) -> None:
        """Take these coordinates, or stay as it is for None."""
        if new is not None:
            self.monitor.model.latent_layer.change(new)
            self.monitor.model.latent_layer.change_moments(new, optimiser)
            self.monitor.averaged.latent_layer.change(new)
        self.found = None
