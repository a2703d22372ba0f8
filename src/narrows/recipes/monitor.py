"""Running estimates of held-out error and removal cost, on averaged weights.

Weights that are trained at a constant rate jitter around something better, which a lower rate would find. The mean of
the weights over the last part of training finds it at once, without disturbing training (Polyak and Juditsky, 1992).
Its window is a quarter of the batches since the last change, at most `window`.

Every few batches some held-out examples go through the averaged network twice: with the gates as they are, and with one
randomly chosen open gate closed per example. The first pass gives the error that the promise is about. The difference
is an unbiased estimate of that gate's cost of removal: what users of PCA know as a component's explained variance, in
the unit of the error.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from narrows._util.processes import mean_over_processes
from narrows.model.vae import GatedVAE, standard_normal
from narrows.objective import Error, per_example
from narrows.recipes.base import Share, all_rows

MEMORY = 25
"""Memory of the estimates, in measurements; longer where many gates would otherwise be tried too seldom."""
ENOUGH = 5.0
"""How often a gate must have been tried before its cost counts as known."""


class Monitor:
    """The averaged model, and running estimates of its error, the error's spread and the costs of removal.

    Arguments:
        model: The model that is trained.
        error: The promised error.
        bounds: How many numbers `error` returns per example.
        seed: Seed of the noise and of the gates that are tried.
        share: With several processes, returns this one's rows of what was drawn for all.
    """

    def __init__(self, model: GatedVAE, error: Error, bounds: int, seed: int = 0, share: Share = all_rows) -> None:
        self.model, self.error, self.share = model, error, share
        self.averaged = copy.deepcopy(model)
        self.averaged.requires_grad_(False).eval()
        device = next(model.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.sums = torch.zeros(model.gates.n, bounds, dtype=torch.float64, device=device)
        """Sum of the rises in error when each gate was closed, (n, bounds)."""
        self.counts = torch.zeros(model.gates.n, 1, dtype=torch.float64, device=device)
        self.spread = torch.zeros(bounds, dtype=torch.float64, device=device)
        """Standard deviation of one example's error, (bounds,)."""
        self.measured = 0
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
    def measure(self, x: Tensor, count: int | None = None) -> Tensor:
        """Measure the averaged model on held-out examples, and return the mean error, (bounds,).

        Arguments:
            x: This process's examples, `(rows, *shape)`.
            count: Number of examples of all processes together.
        """
        count = len(x) if count is None else count
        hard = self.averaged.gates.hard()
        posterior = self.averaged.encode(x)
        like = posterior.mean.new_empty(count, *posterior.mean.shape[1:])
        z = posterior.draw(self.share(standard_normal(like, self.generator)))
        error = per_example(self.error(x, self.averaged.decode(z, hard)), len(x)).double()
        mean = mean_over_processes(error.mean(0))
        variance = mean_over_processes((error - mean).square().mean(0))
        keep = self.forget if self.measured else 0.0
        self.spread = (keep * self.spread.square() + (1 - keep) * variance).sqrt()
        self.measured += 1
        self.sums *= self.forget
        self.counts *= self.forget
        kept = hard.nonzero().flatten()
        if len(kept):
            closed = self.share(kept[torch.randint(len(kept), (count,), generator=self.generator, device=x.device)])
            gates = hard.expand(len(x), -1).scatter(1, closed[:, None], 0.0)
            rise = self.error(x, self.averaged.decode(z, gates)).view(len(x), -1).double() - error
            sums, counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)
            sums.index_add_(0, closed, rise)
            counts.index_add_(0, closed, torch.ones_like(rise[:, :1]))
            self.sums += mean_over_processes(sums) * (count / len(x))
            self.counts += mean_over_processes(counts) * (count / len(x))
        return mean

    def costs(self) -> Tensor:
        """Return each dimension's cost of removal, (n, bounds), infinite where it has not been tried often enough."""
        return torch.where(self.counts >= ENOUGH, self.sums / self.counts, math.inf)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        names = ("sums", "counts", "spread")
        return {
            **{name: getattr(self, name) for name in names},
            "averaged": self.averaged.state_dict(),
            "generator": self.generator.get_state(),
            "measured": self.measured,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.averaged.load_state_dict(state["averaged"])
        self.generator.set_state(state["generator"])
        for name in ("sums", "counts", "spread"):
            getattr(self, name).copy_(state[name])
        self.measured = state["measured"]
