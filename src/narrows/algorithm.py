"""7. Algorithm 1: one step, in the paper's order.

`Narrowing` holds the model and the constraint; its forward pass takes a batch and its noise and returns the loss and
a record of what happened, so that one module can be wrapped for several processes or another precision. Given its
inputs it is deterministic: all randomness comes in as `Noise`. docs/algorithm.md has every line beside the paper's.
"""

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from narrows.constraint import Geco
from narrows.gates import Estimator, GatePair, check_estimator, draw_uniform
from narrows.layers import Statistics
from narrows.model import GatedVAE
from narrows.objective import Error, gated_kl, kl_elements, per_example, squared_error
from narrows.own import Model, OwnVAE
from narrows.processes import mean_over_processes


class Trainable(Protocol):
    """An objective with a model and its bounds."""

    @property
    def model(self) -> GatedVAE | OwnVAE:
        """What is trained."""

    @property
    def constraint(self) -> nn.Module:
        """What holds the multipliers."""


class Noise(NamedTuple):
    """One step's randomness: eps for z, `(batch, *latent)`, and u for the gates, (batch, n) or (1, n) if shared."""

    eps: Tensor
    u: Tensor


class StepRecord(NamedTuple):
    """What one batch did, each a scalar without gradient."""

    error: Tensor
    """E2 averaged over the batch: the bounded error, with sampled gates."""
    hits: Tensor
    """Fraction of the batch that meets every bound."""
    kl: Tensor
    """KL averaged over open gates and batch."""
    loss: Tensor
    """The loss as the paper writes it (without the estimator's term, whose value is 0)."""


def draw_noise(
    batch: int,
    latent: int | Sequence[int],
    generator: torch.Generator,
    share: Literal["example", "batch"] = "example",
    dtype: torch.dtype = torch.float32,
) -> Noise:
    """Draw one step's noise for latent vectors, n, or maps, (n, height, width).

    `share` says whether each example gets its own u or the batch one (decision D1); `dtype` is the model's.
    """
    shape = (latent,) if isinstance(latent, int) else tuple(latent)
    eps = torch.randn(batch, *shape, generator=generator, device=generator.device, dtype=dtype)
    return Noise(eps, draw_uniform(batch if share == "example" else 1, shape[0], generator, dtype))


class Narrowing(nn.Module, Generic[Model]):
    """The training objective of a gated VAE under a constraint. Call it once a batch, then step its optimiser."""

    def __init__(
        self, model: Model, constraint: Geco, estimator: Estimator = "arm", error: Error = squared_error
    ) -> None:
        super().__init__()
        self.model, self.constraint = model, constraint
        self.estimator: Estimator = check_estimator(estimator)
        self.error = error
        self.hit: Tensor
        self.register_buffer("hit", torch.tensor(False))

    def forward(self, x: Tensor, noise: Noise) -> tuple[Tensor, StepRecord]:
        """One evaluation of lines 3 to 29: the loss to differentiate, and the record."""
        gates = self.model.gates
        hit = bool(self.hit)
        if hit:
            pair = gates.pair(noise.u)  # lines 4 to 6
        else:
            ones = torch.ones_like(noise.u)
            pair = GatePair(noise.u, ones, ones)  # lines 8 and 9

        posterior = self.model.encode(x)
        z = posterior.draw(noise.eps)  # line 11
        statistics: Statistics = []
        error = self._errors(x, self.model.decode(z, pair.second, record=statistics))  # line 13: E2
        term = self.constraint(error)  # lines 14 to 21

        kl = gated_kl(kl_elements(*posterior), pair.second.expand(len(z), -1)).mean()
        meets = (term.violation.detach() <= 0).all(1).to(kl.dtype).mean()
        loss = term.loss + kl  # line 22
        if not hit:
            self._remember_hit(term.violation)
        loss = loss + (meets if hit else meets * self.hit) * gates.probability().sum()  # lines 23 to 26
        record = StepRecord(error.detach()[:, 0].mean(), meets, kl.detach(), loss.detach())

        if hit:  # lines 12 and 29: E1, and the estimated gradient of lambda' E
            other = self._second_errors(x, z.detach(), pair, error.detach(), statistics)
            difference = (self.constraint.in_units(other - error.detach()) * term.multiplier).sum(1)
            loss = loss + gates.surrogate(gates.gradient(difference, pair, self.estimator))
        return loss, record

    def _errors(self, x: Tensor, reconstruction: Tensor) -> Tensor:
        return per_example(self.error(x, reconstruction), len(x))

    @torch.no_grad()
    def _remember_hit(self, violation: Tensor) -> None:
        self.hit.copy_((mean_over_processes(violation.mean(0)) <= 0).all())

    @torch.no_grad()
    def _second_errors(self, x: Tensor, z: Tensor, pair: GatePair, error: Tensor, statistics: Statistics) -> Tensor:
        """E1. Where the two gate vectors agree it is E2, so only the other examples are decoded again.

        A decoder that is not ours and normalises by the batch has them all again, with that pass's own statistics.
        """
        differs = (pair.first != pair.second).any(1).expand(len(x))
        rows = differs.nonzero().flatten()
        if not len(rows):
            return error
        if not self.model.rows_alone:
            rows = torch.arange(len(x), device=rows.device)
        with torch.inference_mode():
            first = pair.first.expand(len(z), -1).index_select(0, rows)
            again = self.model.decode(z.index_select(0, rows), first, reuse=statistics)
            errors = self._errors(x.index_select(0, rows), again)
        return error.index_copy(0, rows, errors)


def make_optimiser(narrowing: Trainable, learning_rate: float = 1e-3) -> torch.optim.Adam:
    """Adam: networks and gates descend, the multiplier, where it is learned, ascends (decision D5)."""
    descends = [p for p in narrowing.model.parameters() if p.requires_grad]
    ascends = list(narrowing.constraint.parameters())
    groups: list[dict[str, Any]] = [{"params": descends}, {"params": ascends, "maximize": True}]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=learning_rate, fused=True)
