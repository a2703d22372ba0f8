"""Algorithm 1: one step, in the paper's order.

An objective holds a network with gates and the constraint; its forward pass takes a batch and its noise and returns
the loss and a record of what happened, so that one module can be wrapped for several processes or another precision.
Given its inputs it is deterministic: all randomness comes in by argument. docs/algorithm.md has every line beside the
paper's.

`Algorithm1` is the step itself, for any network whose error depends on gates. `Narrowing` is the step for a gated VAE;
`HiddenNarrowing` (hidden_layers.py) is the step for gates on hidden layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from narrows._util.checks import argument, instance_of, one_of
from narrows._util.memory import within_memory
from narrows._util.processes import mean_over_processes, sum_over_processes
from narrows.constraint import Geco, GecoConfig
from narrows.gates.l0 import Estimator, GatePair, L0Gates, check_draw, check_estimator, draw_uniform
from narrows.model.checks import latent_shape
from narrows.model.vae import GatedVAE
from narrows.networks.batchnorm import Statistics
from narrows.networks.joined_batch import joined_batch
from narrows.objective import Error, gated_kl, kl_elements, per_example, squared_error
from narrows.recipes.base import ERROR, MODEL, Noise, Recipe, RecipeInputs, StepRecord, check_step, hits, weighted

RELATIVE = GecoConfig(relative_scale=1.0, highest=100.0)
"""The relative constraint (decision D12; measured by benchmarks/relative_scale.py)."""

GECO = instance_of(Geco, "a Geco, such as Geco(tau)")


class FirstPass(NamedTuple):
    """The evaluation with nu2."""

    error: Tensor
    """E2 of each example, (batch, m) for m bounds."""
    kl: Tensor
    """KL averaged over open gates and batch, a scalar."""
    state: Any = None
    """What the second pass needs of the first."""
    weight: Tensor | None = None
    """How much each example counts, (batch,), with mean 1 over the set; None where all count the same."""


def draw_noise(
    batch: int,
    latent: int | Sequence[int],
    generator: torch.Generator,
    share: Literal["example", "batch"] = "example",
    dtype: torch.dtype = torch.float32,
) -> Noise:
    """Draw the noise of one step.

    Arguments:
        batch: Number of examples.
        latent: Number of latent dimensions n, or (n, height, width) for latent maps.
        generator: The source of randomness; the noise is on its device.
        share: Whether each example has its own u or the whole batch shares one (decision D1).
        dtype: Precision of the model.

    Returns:
        eps, `(batch, *latent)`, and u, (batch, n) or (1, n).

    Raises:
        NarrowsError: An argument is of another type, or out of its range.
    """
    try:
        shape = (latent,) if type(latent) is int else latent_shape(latent)
        rows = {"example": batch, "batch": 1}[share]
        eps = torch.randn(batch, *shape, generator=generator, device=generator.device, dtype=dtype)
    except Exception:
        latent_shape(latent)
        argument("share", share, one_of(("example", "batch")))
        check_draw(batch, generator, dtype, "batch")
        with within_memory(f"the noise of {batch} examples", "use smaller batches"):
            raise
    return Noise(eps, draw_uniform(rows, shape[0], generator, dtype))


class Algorithm1(nn.Module, ABC):
    """One step of Algorithm 1 for any network whose error depends on gates.

    Arguments:
        model: The network.
        constraint: The bounds on the error.
        estimator: The estimator of the gates' gradient, "arm" or "disarm".

    Raises:
        NarrowsError: An argument is of another type.
    """

    def __init__(self, model: nn.Module, constraint: Geco, estimator: Estimator) -> None:
        super().__init__()
        self.model, self.constraint = model, argument("constraint", constraint, GECO)
        self.estimator: Estimator = check_estimator(estimator)
        self.hit: Tensor
        self.register_buffer("hit", torch.tensor(False))
        self._met: tuple[Tensor, int] | None = None
        """The buffer, and its version, in which `hit` was last read as True: no device need be asked for it again."""

    @property
    @abstractmethod
    def all_gates(self) -> list[L0Gates]:
        """The gates, in the order of the columns of u."""

    @abstractmethod
    def first_pass(self, batch: Any, noise: Any, pairs: list[GatePair]) -> FirstPass:
        """Return the errors with nu2, with gradients."""

    @abstractmethod
    def second_errors(self, batch: Any, first: FirstPass, pairs: list[GatePair]) -> Tensor:
        """Return the errors with nu1, (batch, m), without gradients, as the same function of the gates."""

    def step(self, batch: Any, noise: Any, u: Tensor) -> tuple[Tensor, StepRecord]:
        """Evaluate lines 3 to 30: return the loss to differentiate, and the record."""
        hit = self._has_hit()
        columns = torch.split(u, [gates.n for gates in self.all_gates], dim=1)
        if hit:
            pairs = [gates.pair(own) for gates, own in zip(self.all_gates, columns, strict=True)]  # lines 4 to 6
        else:
            pairs = [GatePair(own, torch.ones_like(own), torch.ones_like(own)) for own in columns]  # lines 8 and 9

        first = self.first_pass(batch, noise, pairs)  # lines 11 and 13: z and E2
        term = self.constraint(first.error)  # lines 14 to 21
        loss = term.loss + first.kl  # line 22

        meets = hits(term.violation, first.weight)
        if not hit:
            self._remember_hit(term.violation)
        open_gates = torch.stack([gates.probability().sum() for gates in self.all_gates]).sum()
        loss = loss + meets * self.hit * open_gates  # lines 23 to 26
        record = StepRecord(first.error.detach()[:, 0].mean(), meets, first.kl.detach(), loss.detach())

        if hit:  # lines 12 and 28 to 30: E1, and the estimated gradient of lambda' E
            rise = self.second_errors(batch, first, pairs) - first.error.detach()
            difference = (self.constraint.in_units(rise) * term.multiplier).sum(1)
            for gates, pair in zip(self.all_gates, pairs, strict=True):
                loss = loss + gates.surrogate(gates.gradient(difference, pair, self.estimator))
        return loss, record

    def _has_hit(self) -> bool:
        """Return whether tau was met before this step; the device is asked until it was."""
        if self._met is None or self._met[0] is not self.hit or self._met[1] != self.hit._version:
            self._met = (self.hit, self.hit._version) if self.hit else None
        return self._met is not None

    @torch.no_grad()
    def _remember_hit(self, violation: Tensor) -> None:
        self.hit.copy_((mean_over_processes(violation.mean(0)) <= 0).all())


class Narrowing(Algorithm1):
    """The training objective of a gated VAE under a constraint: call it once per batch, then step its optimiser.

    Arguments:
        model: The model, with all gates open.
        constraint: The bounds on the error.
        estimator: The estimator of the gates' gradient, "arm" (the paper's) or "disarm".
        error: The bounded error: a function of x and its reconstruction that returns (batch,), or (batch, m) for m
            bounds.

    Raises:
        NarrowsError: An argument is of another type.
    """

    model: GatedVAE

    def __init__(
        self, model: GatedVAE, constraint: Geco, estimator: Estimator = "arm", error: Error = squared_error
    ) -> None:
        super().__init__(argument("model", model, MODEL), constraint, estimator)
        self.error: Error = argument("error", error, ERROR)

    @property
    def all_gates(self) -> list[L0Gates]:
        """The latent gates."""
        return [self.model.gates]

    def forward(self, x: Tensor, noise: Noise, weight: Tensor | None = None) -> tuple[Tensor, StepRecord]:
        """Return the loss to differentiate, and the record.

        Arguments:
            x: Examples, `(batch, *shape)`.
            noise: The randomness of the step (`draw_noise`).
            weight: How much each example counts, (batch,), with mean 1 over the set; by default all count the same.
        """
        try:
            return self.step((x, weight), noise, noise.u)
        except Exception:
            check_step(self.model, x, noise)
            raise

    def first_pass(self, batch: tuple[Tensor, Tensor | None], noise: Noise, pairs: list[GatePair]) -> FirstPass:
        """Encode, sample z once and decode z nu2."""
        (x, weight), (pair,) = batch, pairs
        statistics: Statistics = []
        with joined_batch(self.model):
            posterior = self.model.encode(x)
            z = posterior.draw(noise.eps)  # line 11
            decoded = self.model.decode(z, pair.second, record=statistics)
        error = per_example(self.error(x, decoded), len(x))  # line 13: E2
        error = weighted(error, self.constraint.tolerance, weight)
        kl = gated_kl(kl_elements(*posterior), pair.second.expand(len(z), -1))
        return FirstPass(error, (kl if weight is None else weight * kl).mean(), (z.detach(), statistics), weight)

    @torch.no_grad()
    def second_errors(self, batch: tuple[Tensor, Tensor | None], first: FirstPass, pairs: list[GatePair]) -> Tensor:
        """Return E1 (line 12). Where nu1 = nu2 it is E2, so only the other examples are decoded again.

        A user's decoder that normalises by the batch decodes all of them again, with that pass's own statistics, on all
        processes if on one.
        """
        (x, weight), (pair,), (z, statistics), error = batch, pairs, first.state, first.error.detach()
        differs = (pair.first != pair.second).any(1).expand(len(x))
        if not self.model.independent_rows:
            differs = (sum_over_processes(differs.sum()) > 0).expand(len(x))
        rows = differs.nonzero().flatten()
        if not len(rows):
            return error
        with torch.inference_mode(), joined_batch(self.model.decoder):
            gates = pair.first.expand(len(z), -1).index_select(0, rows)
            again = self.model.decode(z.index_select(0, rows), gates, reuse=statistics)
            errors = per_example(self.error(x.index_select(0, rows), again), len(rows))
            errors = weighted(errors, self.constraint.tolerance, None if weight is None else weight[rows])
        return error.index_copy(0, rows, errors)


class PaperRecipe(Recipe):
    """Algorithm 1 as a recipe: the step of `Narrowing`, and lambda projected after each."""

    def __init__(self, inputs: RecipeInputs) -> None:
        assert inputs.tau is not None
        assert inputs.aim is not None
        self.inputs = inputs
        self.constraint = Geco(inputs.aim * inputs.tau, RELATIVE if inputs.relative else GecoConfig())
        self.narrowing = Narrowing(inputs.model, self.constraint, inputs.estimator, inputs.error)

    @classmethod
    def build(cls, inputs: RecipeInputs) -> "PaperRecipe":
        """Return the recipe around an untrained model."""
        return cls(inputs)

    @property
    def objective(self) -> nn.Module:
        """The step of Algorithm 1."""
        return self.narrowing

    @property
    def candidate(self) -> GatedVAE:
        """The model that is trained."""
        return self.inputs.model

    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one batch's noise for z and the gates, this process's rows of `count`."""
        shared, own = self.inputs.share_gates, self.inputs.share
        eps, u = draw_noise(count, self.inputs.model.n, generator, "batch" if shared else "example")
        return Noise(own(eps), u if shared else own(u))

    def update(self, optimiser: torch.optim.Optimizer) -> None:
        """Project lambda onto its interval (decision D4)."""
        self.constraint.project()
