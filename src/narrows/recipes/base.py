"""What a recipe is: the objective of one batch, and everything that follows an optimiser step.

The trainer runs every recipe in the same way and knows no other difference between them:

    loss, record = recipe.objective(x, recipe.noise(len(x), generator))
    loss.backward(); optimiser.step(); optimiser.zero_grad()
    recipe.update(optimiser)                     # multipliers, averages, measurements
    decision = recipe.decide()                   # close gates, undo it, begin the last phase, end; or None
    ...                                          # the trainer validates and records
    recipe.act(decision, optimiser)

`registry.py` lists the recipes with the traits that settings and reports need.
"""

import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from narrows._util.checks import Rule, argument, instance_of
from narrows._util.errors import NarrowsError
from narrows._util.schema import Schema
from narrows._util.text import brief
from narrows.gates.l0 import Estimator
from narrows.model.vae import GatedVAE
from narrows.objective import Error
from narrows.recipes.controller import Decision
from narrows.recipes.registry import RECIPES, Effort
from narrows.runs.certificate import Terms

Draw = Callable[[int, torch.Generator], Tensor]
"""Draws that many examples of a split at random, with this generator; each process gets its part."""
Share = Callable[[Any], Any]
"""Returns this process's rows of a tensor or array that was drawn for all processes."""


def all_rows(rows: Any) -> Any:
    """Return all rows: the share of a single process."""
    return rows


class Noise(NamedTuple):
    """The randomness of one step."""

    eps: Tensor
    """For z, `(batch, *latent)`, from N(0, 1)."""
    u: Tensor
    """For the gates, (batch, n), or (1, n) if shared, from Unif(0, 1)."""


MODEL = instance_of(GatedVAE, "a GatedVAE, such as GatedVAE(encoder, decoder, latent=16)")
ERROR = Rule("a function of x and its reconstruction that returns one number per example", callable)
DRAW = Rule("a function of (count, generator) that returns that many examples", callable)


def weighted(error: Tensor, tolerance: Tensor, weight: Tensor | None) -> Tensor:
    """Return errors, (batch, m), whose distances from the tolerance, (m,), are multiplied by each example's weight.

    Everything that a constraint makes of errors is linear in these distances. So with weights whose mean is 1, losses
    and gradients are those of a set in which an example of weight 2 stands twice.
    """
    return error if weight is None else tolerance + weight[:, None] * (error - tolerance)


def hits(violation: Tensor, weight: Tensor | None) -> Tensor:
    """Return the share of a batch's examples that are within all bounds, whose violation is (batch, m)."""
    within = (violation.detach() <= 0).all(1).to(violation.dtype)
    return (within if weight is None else weight * within).mean()


def check_step(model: GatedVAE, x: Any, noise: Any) -> None:
    """Raise if the noise of a step does not fit its examples: called when the step has failed."""
    argument("noise", noise, instance_of(Noise, "a Noise, as draw_noise or Fast.noise returns it"))
    if not isinstance(x, Tensor):
        raise NarrowsError(f"x must be a tensor of examples, (batch, ...); it is {brief(x)}")
    expected = (len(x), *model.latent_shape)
    if tuple(noise.eps.shape) != expected:
        raise NarrowsError(f"noise.eps must have the shape {expected} for this batch; it has {tuple(noise.eps.shape)}")


class StepRecord(NamedTuple):
    """What one batch did; each entry is a scalar without gradient."""

    error: Tensor
    """E2 averaged over the batch: the bounded error, with sampled gates."""
    hits: Tensor
    """Fraction of the batch that meets every bound."""
    kl: Tensor
    """KL averaged over open gates and batch; 0 for gates on hidden layers."""
    loss: Tensor
    """The loss as the paper writes it, without the estimator's term, whose value is 0."""


@dataclass(frozen=True)
class RecipeInputs:
    """What a recipe is built from; each takes what it needs."""

    model: GatedVAE
    error: Error
    """The error that is promised."""
    tau: float | None
    """The promise; None for a plain VAE without one."""
    aim: float | None
    """Share of tau to aim at; None where the recipe measures how far below tau it must be."""
    steps: int | None
    """Batches in all, at most; None for as many as it takes."""
    seed: int
    effort: Effort
    relative: bool
    """Whether the constraint is (E - tau) / tau instead of E - tau."""
    estimator: Estimator
    share_gates: bool
    """Whether a batch shares one draw of the gates."""
    held_out: Draw
    split_sizes: tuple[int, int]
    """Number of examples in the validation and in the test split."""
    terms: Terms = field(default_factory=Terms)
    """The terms of the certificate, which say how far below tau to aim."""
    share: Share = all_rows
    few_rows: bool = False
    """Whether the set is so small that its errors settle soon."""
    training_examples: Draw | None = None
    """Draws training examples as `held_out` draws validation examples; None for a recipe that needs none."""


class Recipe(ABC):
    """One way to train: see the module's text for the order of the calls."""

    @classmethod
    @abstractmethod
    def build(cls, inputs: RecipeInputs) -> "Recipe":
        """Return the recipe around an untrained model."""

    @property
    @abstractmethod
    def objective(self) -> nn.Module:
        """The module that maps a batch and its noise to the loss and a `StepRecord`."""

    @property
    @abstractmethod
    def candidate(self) -> GatedVAE:
        """The model as it would be saved now."""

    @abstractmethod
    def noise(self, count: int, generator: torch.Generator) -> Noise:
        """Draw one batch's noise."""

    @abstractmethod
    def update(self, optimiser: torch.optim.Optimizer) -> None:
        """Do what follows every optimiser step."""

    @property
    def done(self) -> bool:
        """Whether the run has ended by itself."""
        return False

    def decide(self) -> Decision | None:
        """Return what to do now, or None; nothing changes before `act`."""
        return None

    def act(self, decision: Decision, optimiser: torch.optim.Optimizer) -> None:
        """Carry out a decision."""
        raise AssertionError(f"this recipe makes no decisions: {decision}")

    def decided_at(self) -> float:
        """Return the error at the last decision, as a share of its target; nan where there are no decisions."""
        return math.nan

    def heldout_error(self) -> float:
        """Return the held-out error as measured while training; nan where it is not."""
        return math.nan

    def costs(self) -> list[float] | None:
        """Return each gate's cost of removal, nan where it is closed or unknown; None where costs are not measured."""
        return None

    def restart(self) -> None:
        """Take note that the model was given other weights before the first batch."""
        return None

    def continue_from(self, state: dict[str, Any]) -> None:
        """Begin where another run had found its size; `state` is that run's `recipe_state`."""
        raise AssertionError("this recipe does not know when a size is found")

    def recipe_state(self) -> dict[str, Any]:
        """Return the state that is not in the objective's `state_dict`."""
        return {}

    def describe_state(self) -> Schema:
        """Return what `recipe_state` must look like, before any of it is restored."""
        return {}

    def load_recipe_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `recipe_state` returned."""
        return None


def build_recipe(name: str, inputs: RecipeInputs) -> Recipe:
    """Import the recipe of this name and build it."""
    built: Recipe = pkgutil.resolve_name(RECIPES[name].home).build(inputs)
    return built
