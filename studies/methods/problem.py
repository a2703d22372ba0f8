"""What every method is given, and the rules by which each judges a size.

A method sees the training and the validation split, never the test split. A size counts as enough when its validation
error is within the *target*: tau less the margin that the certificate will need, by the formula of narrows' own search
for the size (`Fast.target`). So every method aims at the same certificate and none is beaten by aiming too high.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from narrows.data import Data
from narrows.data.examples import Examples, in_batches
from narrows.model.vae import VAE, GatedVAE
from narrows.networks import NetworkConfig
from narrows.objective import Error
from narrows.recipes.base import Draw
from narrows.recipes.controller import ControllerConfig
from narrows.recipes.fast import ALLOWANCE, FEW_LAST, MOST_MARGIN
from narrows.runs.certificate import forecast
from narrows.training.build import make_model
from narrows.training.config import TrainConfig
from narrows.training.setup import FEW_ROWS, Plan, make_plan
from narrows.training.validation import per_input

LIMIT = 200_000
"""Batches that a method may spend, searches included."""


@dataclass(frozen=True)
class Answer:
    """What a method returns."""

    model: VAE
    """The model, with as many latent dimensions as the method says."""
    batches: int
    """Batches of all training that led to it, searches included."""
    setting: str = ""
    """The setting of the method's knob that the model was made with."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One set, one seed and one bound."""

    plan: Plan
    """Data, splits, the error and the terms of the certificate, as a run of narrows has them."""
    network: NetworkConfig
    """The networks of the widest model; every method uses them, with fewer dimensions where it wants fewer."""
    name: str = ""
    """The set."""
    limit: int = LIMIT
    """Batches that a method may spend."""

    @property
    def config(self) -> TrainConfig:
        """The settings that all methods share."""
        return self.plan.config

    @property
    def n(self) -> int:
        """The widest size."""
        return self.network.n

    @property
    def tau(self) -> float:
        """The bound."""
        return self.plan.tau

    @property
    def seed(self) -> int:
        """Of initial weights, noise and the order of batches."""
        return self.config.seed

    @property
    def examples(self) -> Examples:
        """All examples."""
        return self.plan.data.examples

    @property
    def error(self) -> Error:
        """The promised error."""
        return self.plan.error

    @property
    def learning_rate(self) -> float:
        """Of every method that is trained."""
        assert self.config.learning_rate != "auto"
        return self.config.learning_rate

    @property
    def least_last(self) -> int:
        """Batches of a last phase, at least; fewer where rows are few, as narrows decides."""
        return FEW_LAST if len(self.examples) < FEW_ROWS else ControllerConfig.least_last

    def model(self, n: int) -> GatedVAE:
        """Return an untrained model with n dimensions, all open."""
        return make_model(replace(self.config, n=n), self.plan.data, self.plan.moments, self.network)

    def draw(self, part: str) -> Draw:
        """Return a function that draws examples of a split."""
        return partial(_draw, self.examples, getattr(self.plan.splits, part))

    def target(self, errors: np.ndarray) -> float:
        """Return the validation error at which a model with these errors is expected to be certified."""
        spread, terms = float(errors.std()), self.plan.terms
        skewness = float((((errors - errors.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0
        margin = terms.margin(spread, *self.plan.split_sizes, ALLOWANCE, skewness)
        least = terms.room(0.0, self.plan.split_sizes[1])
        return self.tau - min(margin, least + MOST_MARGIN * max(0.0, self.tau - least))

    def is_enough(self, model: VAE) -> bool:
        """Return whether a model's validation error is within its target."""
        errors = per_input(model, self.examples, self.plan.splits.validation, self.seed, self.error)[0]
        return bool(errors.mean() <= self.target(errors))

    def expected(self, model: VAE) -> float:
        """Return the upper end to expect on the test split, by the validation split."""
        errors = per_input(model, self.examples, self.plan.splits.validation, self.seed, self.error)
        return forecast(*errors, self.plan.terms, len(self.plan.splits.test)).high


@dataclass(frozen=True)
class Method:
    """One method: how it is run, and its knob."""

    run: Callable[[Problem, str], Answer]
    """Returns the answer for a setting of the knob."""
    setting: Callable[[str], str] = lambda name: ""
    """Returns the setting for a set by default: its authors', where they give one."""
    knob: str = ""
    """What the knob is, for the usage."""


def make_problem(
    data: Data, n: int, seed: int, tau: float | None, name: str = "", limit: int = LIMIT, **settings: Any
) -> Problem:
    """Return the problem for a set; without a tau it can only say how the widest model is trained.

    Arguments:
        data: The set.
        n: The widest size.
        seed: Of initial weights, noise and the order of batches.
        tau: The bound.
        name: What the set is called.
        limit: Batches that a method may spend.
        settings: Further settings of `TrainConfig`, such as `width`.
    """
    config = TrainConfig(
        data=name or "memory",
        n=n,
        seed=seed,
        tau=tau,
        recipe="plain",
        threads=1,
        device="cpu",
        values=data.values,
        **settings,
    ).checked()
    plan = make_plan(config, data)
    network = make_model(plan.config, plan.data, plan.moments).network
    assert network is not None
    return Problem(plan, network, name, limit)


def smallest(most: int, is_enough: Callable[[int], bool]) -> int:
    """Return the smallest size from 1 to `most` that is enough, by halving; `most` counts as enough without a try."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def codes_of(model: VAE, problem: Problem, index: np.ndarray) -> Tensor:
    """Return the posterior means of the examples at `index`, (len(index), n) float64."""
    codes = torch.empty(len(index), model.n, dtype=torch.float64)
    with torch.no_grad():
        for here, x in in_batches(problem.examples, index, 250):
            codes[here] = model.encode(x).mean.double()
    return codes


def _draw(examples: Examples, index: np.ndarray, count: int, generator: torch.Generator) -> Tensor:
    return examples.batch(index[torch.randint(len(index), (count,), generator=generator).numpy()])
