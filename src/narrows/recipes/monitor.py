"""Running estimates of held-out error and removal cost, on averaged weights.

Weights that are trained at a constant rate jitter around something better, which a lower rate would find. The mean of
the weights over the last part of training finds it at once, without disturbing training (Polyak and Juditsky, 1992).
Its window is a quarter of the batches since the last change, at most `window`.

Every few batches the same held-out examples, with the same noise, go through the averaged network: the panel. Other
examples each time would bury what training wins in the differences between examples; the panel's curve is smooth, and
can be extrapolated. A panel is small, though, and may be easier or harder than all held-out data. So its error counts
times a ratio, which `calibrate` measures on many more examples before anything is decided by it.

The panel passes a second time with one randomly chosen open gate closed per example. The difference is an unbiased
estimate of that gate's cost of removal: what users of PCA know as a component's explained variance, in the unit of the
error.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows._util.processes import mean_over_processes
from narrows._util.schema import Schema
from narrows._util.tensors import generator_state, like, like_all
from narrows._util.text import brief
from narrows.model.vae import GatedVAE, Posterior, standard_normal
from narrows.objective import Error, per_example
from narrows.recipes.base import Draw, Share, all_rows
from narrows.recipes.rotation import with_noise

PANEL = 256
"""Held-out examples in the panel."""
MANY, MOST = 2_048, 8_192
"""Held-out examples that the panel is compared with, and at the end of training."""
PART = 256
"""How many of them pass at a time."""
MEMORY = 25
"""Memory of the costs, in measurements; longer where many gates would otherwise be tried too seldom."""
STATE = ("sums", "counts", "spread", "skewness", "panel", "ratio")
"""The estimates that a checkpoint holds."""
ENOUGH = 5.0
"""How often a gate must have been tried before its cost counts as known."""


class Monitor:
    """The averaged model, and running estimates of its error, the error's spread and the costs of removal.

    Arguments:
        model: The model that is trained.
        error: The promised error.
        bounds: How many numbers `error` returns per example.
        held_out: Draws that many validation examples with the given generator.
        seed: Seed of the examples, the noise and the gates that are tried.
        share: With several processes, returns this one's rows of what was drawn for all.
    """

    def __init__(
        self,
        model: GatedVAE,
        error: Error,
        bounds: int,
        held_out: Draw,
        seed: int = 0,
        share: Share = all_rows,
    ) -> None:
        self.model, self.error, self.held_out, self.seed, self.share = model, error, held_out, seed, share
        self.averaged = copy.deepcopy(model)
        self.averaged.requires_grad_(False).eval()
        device = next(model.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.sums = torch.zeros(model.gates.n, bounds, dtype=torch.float64, device=device)
        """Sum of the rises in error when each gate was closed, (n, bounds)."""
        self.counts = torch.zeros(model.gates.n, 1, dtype=torch.float64, device=device)
        self.spread = torch.zeros(bounds, dtype=torch.float64)
        """Standard deviation of one example's error, (bounds,), on the CPU: the target is computed from it often."""
        self.skewness = torch.zeros(bounds, dtype=torch.float64)
        """Skewness of one example's error, (bounds,), on the CPU."""
        self.panel = torch.ones(bounds, dtype=torch.float64, device=device)
        """The panel's mean error when it was last measured, (bounds,)."""
        self.ratio = torch.ones(bounds, dtype=torch.float64, device=device)
        """The mean error of all held-out data / the panel's, (bounds,)."""
        self.forget = 1 - 1 / max(MEMORY, model.gates.n / 3)
        self._followers = self._pairs()

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """Pair the averaged floating-point tensors with those they follow."""
        averaged, trained = self.averaged.state_dict(keep_vars=True), self.model.state_dict(keep_vars=True)
        names = [name for name, tensor in averaged.items() if tensor.is_floating_point()]
        return [averaged[name].detach() for name in names], [trained[name] for name in names]

    @torch.no_grad()
    def follow(self, since: int, window: int) -> None:
        """Move the average towards the trained weights; `since` is the number of batches since the last change."""
        weight = max(1 / (1 + since / 4), 1 / window)
        averaged, trained = self._followers
        torch._foreach_lerp_(averaged, [tensor.detach() for tensor in trained], weight)
        self.averaged.gates.logits.copy_(self.model.gates.logits)

    @torch.no_grad()
    def restart(self) -> None:
        """Begin the average again with the weights as they are."""
        for averaged, trained in zip(*self._followers, strict=True):
            averaged.copy_(trained)

    @torch.no_grad()
    def measure(self) -> Tensor:
        """Measure the averaged model on the panel, and return the mean error of held-out data, (bounds,)."""
        hard = self.averaged.gates.hard()
        x, _, z = self.draw(PANEL, self._again(0))
        error = self._errors(x, z, hard)
        self.panel = mean_over_processes(error.mean(0))
        self.sums *= self.forget
        self.counts *= self.forget
        kept = hard.nonzero().flatten()
        if len(kept):
            closed = self.share(kept[torch.randint(len(kept), (PANEL,), generator=self.generator, device=x.device)])
            rise = self._errors(x, z, hard.expand(len(x), -1).scatter(1, closed[:, None], 0.0)) - error
            sums, counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)
            sums.index_add_(0, closed, rise)
            counts.index_add_(0, closed, torch.ones_like(rise[:, :1]))
            self.sums += mean_over_processes(sums) * (PANEL / len(x))
            self.counts += mean_over_processes(counts) * (PANEL / len(x))
        return self.panel * self.ratio

    @torch.no_grad()
    def calibrate(self, count: int = MANY) -> Tensor:
        """Compare the panel with many more examples, and return the factor by which estimates change."""
        self.panel = self.error_with(1.0)[0] / self.ratio  # the model may have changed since it was last measured
        total, squares, cubes = (torch.zeros_like(self.panel) for _ in range(3))
        for part in range(count // PART):
            x, _, z = self.draw(PART, self._again(1 + part))
            error = self._errors(x, z, self.averaged.gates.hard())
            total += mean_over_processes(error.mean(0)) * PART / count
            squares += mean_over_processes(error.square().mean(0)) * PART / count
            cubes += mean_over_processes(error.pow(3).mean(0)) * PART / count
        spread = (squares - total.square()).clamp(min=0).sqrt()
        third = cubes - 3 * total * squares + 2 * total.pow(3)
        skewness = torch.where(spread > 0, third / spread.clamp(min=1e-300).pow(3), 0.0)
        self.spread, self.skewness = torch.stack([spread, skewness]).cpu()
        known = (self.panel > 0) & (total > 0)  # an error of 0 says nothing about the ratio
        before, self.ratio = self.ratio, torch.where(known, total / self.panel.clamp(min=1e-300), 1.0)
        return self.ratio / before

    @torch.no_grad()
    def error_with(self, noise: float) -> tuple[Tensor, Tensor]:
        """Return the error of held-out data if the posterior's variance were `noise` times as large.

        Returns:
            The mean, (bounds,), and the standard deviation of one example, (bounds,).
        """
        x, posterior, z = self.draw(PANEL, self._again(0))
        eps = (z - posterior.mean) / posterior.log_std.exp()
        error = self._errors(x, with_noise(posterior, noise).draw(eps), self.averaged.gates.hard()) * self.ratio
        mean, square = (mean_over_processes(part.mean(0)) for part in (error, error.square()))
        return mean, (square - mean.square()).clamp(min=0).sqrt()

    @torch.no_grad()
    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Posterior, Tensor]:
        """Draw `count` held-out examples for all processes, and return this one's x, posterior and sampled z."""
        x = self.held_out(count, generator)
        if not isinstance(x, Tensor):
            raise NarrowsError(f"held_out must return a tensor of examples, ({count}, ...); it returned {brief(x)}")
        posterior = self.averaged.encode(x)
        noise = self.normal(posterior.mean, count, generator)
        if len(noise) != len(x):
            raise NarrowsError(
                f"held_out must return as many examples as it is asked for; of {count} it returned {len(x)}: draw with "
                f"repetition, x[torch.randint(len(x), (count,), generator=generator)]"
            )
        return x, posterior, posterior.draw(noise)

    def normal(self, like: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw N(0, 1) in the shape of `like` for `count` rows of all processes, and return this one's rows."""
        return self.share(standard_normal(like.new_empty(count, *like.shape[1:]), generator))

    def _errors(self, x: Tensor, z: Tensor, gates: Tensor) -> Tensor:
        return per_example(self.error(x, self.averaged.decode(z, gates)), len(x)).double()

    def _again(self, number: int) -> torch.Generator:
        """Return a generator that draws the same examples and noise whenever it is asked for by this number."""
        return torch.Generator(self.sums.device).manual_seed((self.seed * 1_000 + number) % 2**63)

    def forget_costs(self) -> None:
        """Begin the costs anew, because the gates stand for other directions now."""
        self.sums.zero_()
        self.counts.zero_()

    def costs(self) -> Tensor:
        """Return each dimension's cost of removal, (n, bounds), infinite where it has not been tried often enough."""
        return torch.where(self.counts >= ENOUGH, self.sums / self.counts, math.inf)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            **{name: getattr(self, name) for name in STATE},
            "averaged": self.averaged.state_dict(),
            "generator": self.generator.get_state(),
        }

    def describe_state(self) -> Schema:
        """Return what `state_dict` must look like."""
        return {
            **{name: like(getattr(self, name)) for name in STATE},
            "averaged": like_all(self.averaged.state_dict()),
            "generator": generator_state(self.generator),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.averaged.load_state_dict(state["averaged"])
        self.generator.set_state(state["generator"])
        for name in STATE:
            getattr(self, name).copy_(state[name])
