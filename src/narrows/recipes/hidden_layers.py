"""Algorithm 1 for gates on hidden layers: as few units as a bound on the network's error allows.

    objective = HiddenNarrowing(network, Geco(tolerance), error=lambda network, x, y: ...)     # one number per example
    loss, record = objective((x, y), objective.draw(len(x), generator))
    loss.backward(); ...; objective.constraint.project()

The network may be anything that contains `Gate`s (narrows.gates.layer). All its gates form one long vector, of which
each example has one antithetic pair: the error is evaluated with the one, and again, without gradients, with the
other. The loss has no KL term.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError
from narrows.constraint import Geco
from narrows.gates.l0 import Estimator, GatePair, L0Gates, draw_uniform
from narrows.gates.layer import gates_in
from narrows.networks.batchnorm import keep_running_averages
from narrows.recipes.base import StepRecord
from narrows.recipes.paper import Algorithm1, FirstPass

NetworkError = Callable[..., Tensor]
"""(network, *batch) -> (batch,), or (batch, m) for m bounds."""


class HiddenNarrowing(Algorithm1):
    """The training objective of a network with gates under a constraint: call it once per batch, then step.

    Arguments:
        model: A network that contains `Gate` modules.
        constraint: The bounds on the error.
        error: The bounded error: a function of the network and the batch that returns (batch,), or (batch, m) for m
            bounds.
        estimator: The estimator of the gates' gradient, "arm" or "disarm".

    Raises:
        NarrowsError: If the network has no gates.
    """

    def __init__(
        self, model: nn.Module, constraint: Geco, error: NetworkError, estimator: Estimator = "disarm"
    ) -> None:
        super().__init__(model, constraint, estimator)
        self.error = error
        self.places = gates_in(model)
        if not self.places:
            raise NarrowsError("the network has no gates; put them behind its layers with narrows.gate(layer)")

    @property
    def all_gates(self) -> list[L0Gates]:
        """The gates of each gated layer."""
        return [place.gates for place in self.places]

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw u for all gates, (rows, number of gates), from Unif(0, 1)."""
        total = sum(gates.n for gates in self.all_gates)
        return draw_uniform(rows, total, generator, self.all_gates[0].logits.dtype)

    def forward(self, batch: Sequence[Any], u: Tensor) -> tuple[Tensor, StepRecord]:
        """Return the loss to differentiate, and the record.

        Arguments:
            batch: The arguments of `error` after the network, such as (x, y).
            u: The randomness of the step (`draw`), (batch, number of gates).
        """
        return self.step(batch, None, u)

    def first_pass(self, batch: Sequence[Any], noise: None, pairs: list[GatePair]) -> FirstPass:
        """Evaluate E2 (line 13)."""
        error = self._errors(batch, [pair.second for pair in pairs])
        return FirstPass(error, error.new_zeros(()))

    @torch.no_grad()
    def second_errors(self, batch: Sequence[Any], first: FirstPass, pairs: list[GatePair]) -> Tensor:
        """Evaluate E1 (line 12); running averages of BatchNorm stay, because it is the same batch."""
        with keep_running_averages(self.model):
            return self._errors(batch, [pair.first for pair in pairs])

    def _errors(self, batch: Sequence[Any], gates: Sequence[Tensor]) -> Tensor:
        """Evaluate the error with these gates; afterwards the network has its hard ones again."""
        try:
            for place, own in zip(self.places, gates, strict=True):
                place.choose(own)
            error = self.error(self.model, *batch)
        finally:
            for place in self.places:
                place.choose(None)
        return error.view(len(error), -1)
