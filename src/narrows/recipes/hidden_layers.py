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

from narrows._util.checks import Rule, argument, instance_of
from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.constraint import Geco
from narrows.gates.l0 import Estimator, GatePair, L0Gates, draw_uniform
from narrows.gates.layer import gates_in
from narrows.networks.batchnorm import keep_running_averages
from narrows.networks.joined_batch import joined_batch
from narrows.objective import per_example
from narrows.recipes.base import StepRecord
from narrows.recipes.paper import Algorithm1, FirstPass

NetworkError = Callable[..., Tensor]
"""(network, *batch) -> (batch,), or (batch, m) for m bounds."""

NETWORK = instance_of(nn.Module, "a torch.nn.Module with gates")
ERROR = Rule("a function of the network and the batch that returns one number per example", callable)


class HiddenNarrowing(Algorithm1):
    """The training objective of a network with gates under a constraint: call it once per batch, then step.

    Arguments:
        model: A network that contains `Gate` modules.
        constraint: The bounds on the error.
        error: The bounded error: a function of the network and the batch that returns (batch,), or (batch, m) for m
            bounds.
        estimator: The estimator of the gates' gradient, "arm" or "disarm".

    Raises:
        NarrowsError: If an argument is of another type, or the network has no gates.
    """

    def __init__(
        self, model: nn.Module, constraint: Geco, error: NetworkError, estimator: Estimator = "disarm"
    ) -> None:
        super().__init__(argument("model", model, NETWORK), constraint, estimator)
        self.error: NetworkError = argument("error", error, ERROR)
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
        try:
            return self.step(batch, None, u)
        except Exception:
            self._check_step(batch, u)
            raise

    def _check_step(self, batch: Any, u: Any) -> None:
        """Raise if the arguments of a step are not what it takes: called when the step has failed."""
        total = sum(gates.n for gates in self.all_gates)
        if not isinstance(u, Tensor) or u.ndim != 2 or u.shape[1] != total:
            found = tuple(u.shape) if isinstance(u, Tensor) else brief(u)
            raise NarrowsError(f"u must be a tensor of shape (batch, {total}), as draw returns it; it is {found}")
        if not isinstance(batch, Sequence):
            raise NarrowsError(f"batch must be the arguments of error, such as (x, y); it is {brief(batch)}")

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
            with joined_batch(self.model):
                error = self.error(self.model, *batch)
        finally:
            for place in self.places:
                place.choose(None)
        return per_example(error, len(error) if isinstance(error, Tensor) and error.ndim else len(gates[0]))
