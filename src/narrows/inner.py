"""7b. Algorithm 1 for gates anywhere in a network: as few units as a bound on its error allows.

    objective = InnerNarrowing(network, Geco(tolerance), error=lambda network, x, y: ...)      # one number an example
    loss, record = objective((x, y), objective.draw(len(x), generator))
    loss.backward(); ...; objective.constraint.project()

The network may be anything with `Gate`s in it (gating.py). All its gates make one long vector, of which each example
has one antithetic pair: the error is taken with the one, and again, without gradients, with the other. There is no KL
term.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from narrows.algorithm import StepRecord
from narrows.constraint import Geco
from narrows.errors import NarrowsError
from narrows.gates import Estimator, GatePair, check_estimator, draw_uniform
from narrows.gating import gates_in
from narrows.layers import keep_running_averages
from narrows.processes import mean_over_processes

ErrorOf = Callable[..., Tensor]
"""(network, *batch) -> (batch,), or (batch, m) for m bounds."""


class InnerNarrowing(nn.Module):
    """The training objective of a network with gates under a constraint. Call it once a batch, then step."""

    def __init__(self, model: nn.Module, constraint: Geco, error: ErrorOf, estimator: Estimator = "disarm") -> None:
        super().__init__()
        self.model, self.constraint, self.error = model, constraint, error
        self.estimator: Estimator = check_estimator(estimator)
        self.places = gates_in(model)
        if not self.places:
            raise NarrowsError("the network has no gates; put them in with narrows.gate(layer)")
        self.hit: Tensor
        self.register_buffer("hit", torch.tensor(False))

    @property
    def sizes(self) -> list[int]:
        """Gates of each place."""
        return [place.gates.n for place in self.places]

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw u for all gates, (rows, sum of sizes)."""
        return draw_uniform(rows, sum(self.sizes), generator, self.places[0].gates.logits.dtype)

    def forward(self, batch: Sequence[Any], u: Tensor) -> tuple[Tensor, StepRecord]:
        """Return the loss to differentiate, and the record; line numbers as in algorithm.py."""
        hit = bool(self.hit)
        pairs = [
            place.gates.pair(own) if hit else GatePair(own, torch.ones_like(own), torch.ones_like(own))
            for place, own in zip(self.places, torch.split(u, self.sizes, dim=1), strict=True)
        ]
        error = self._errors(batch, [pair.second for pair in pairs])  # line 13: E2
        term = self.constraint(error)  # lines 14 to 21
        meets = (term.violation.detach() <= 0).all(1).to(error.dtype).mean()
        self._remember_hit(term.violation)
        open_gates = torch.stack([place.gates.probability().sum() for place in self.places]).sum()
        loss = term.loss + (meets * self.hit) * open_gates  # lines 22 to 26
        record = StepRecord(error.detach()[:, 0].mean(), meets, torch.zeros_like(meets), loss.detach())
        if hit:  # lines 12 and 29: E1, and the estimated gradient of lambda' E
            with torch.no_grad(), keep_running_averages(self.model):
                other = self._errors(batch, [pair.first for pair in pairs])
            difference = (self.constraint.in_units(other - error.detach()) * term.multiplier).sum(1)
            for place, pair in zip(self.places, pairs, strict=True):
                loss = loss + place.gates.surrogate(place.gates.gradient(difference, pair, self.estimator))
        return loss, record

    def _errors(self, batch: Sequence[Any], gates: Sequence[Tensor]) -> Tensor:
        """Take the error with these gates; afterwards the network has its hard ones again."""
        try:
            for place, own in zip(self.places, gates, strict=True):
                place.choose(own)
            error = self.error(self.model, *batch)
        finally:
            for place in self.places:
                place.choose(None)
        return error.view(len(error), -1)

    @torch.no_grad()
    def _remember_hit(self, violation: Tensor) -> None:
        if not self.hit:
            self.hit.copy_((mean_over_processes(violation.mean(0)) <= 0).all())
