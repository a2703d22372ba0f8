"""Which models a run keeps for its certificate: the smallest that meets tau on the validation split, and safer ones.

Every pass over the validation split makes the present model a candidate. It meets tau when a test split with the same
errors would keep the promise (`certificate.forecast`). The best has the fewest dimensions; among equals it is the one
from the end of the last phase, if the recipe has one, or else the one with the smallest error. Others are only of use
if they are safer than every better one, with a lower upper end: they are what the run falls back on if the best does
not keep the promise on the test split.

Sizes that were good for a moment only, because the next gates closed soon, are remembered without a pass over the
validation split. They are validated at the end, if there is nothing else to fall back on.
"""

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from narrows.data import Examples
from narrows.data.counting import PLAIN, Counting
from narrows.model.vae import VAE, GatedVAE
from narrows.objective import Error, squared_error
from narrows.runs import certificate
from narrows.runs.certificate import Terms
from narrows.runs.records import HeldOut
from narrows.training.validation import per_input

VALIDATION_SEED = 1
"""Seed of the posterior samples in validation; fixed, so that candidates can be compared."""
MOST = 4
"""Most candidates that are kept."""


@dataclass(frozen=True)
class Candidate:
    """A model with its error on the validation split."""

    kept: list[int]
    """Indices of its open gates."""
    step: int
    """Batches after which it was taken."""
    validation: HeldOut
    state: dict[str, Tensor]
    """state_dict of the whole gated model; narrowing it to `kept` gives the model."""
    final: bool = False
    """Whether it comes from the end of a last phase."""

    def beats(self, other: "Candidate | None") -> bool:
        """Return whether this candidate is kept in place of the other; both met tau."""
        return other is None or self.rank() < other.rank()

    def rank(self) -> tuple[int, bool, float]:
        """Return what candidates that met tau are sorted by, the best first."""
        return len(self.kept), not self.final, self.validation.error

    def narrowed(self, like: GatedVAE) -> VAE:
        """Return the model itself; `like` is the model it was copied from, whatever it has become."""
        model = copy.deepcopy(like)
        model.load_state_dict(self.state)
        return model.narrow(self.kept).eval()

    def state_dict(self) -> dict[str, Any]:
        """Return the candidate as plain data for a checkpoint."""
        return {**vars(self), "validation": asdict(self.validation)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Candidate":
        """Restore a candidate that `state_dict` returned."""
        return cls(**{**state, "validation": HeldOut(**state["validation"])})


@dataclass(frozen=True)
class Passed:
    """A model as it was when it was left for a smaller one."""

    kept: list[int]
    """Indices of its open gates."""
    step: int
    """Batches after which it was taken."""
    state: dict[str, Tensor]
    """state_dict of the whole gated model."""


class Selection:
    """Validates models and keeps the best candidates that meet tau.

    A run may end between two regular validations, and the candidate of its end is kept apart. So a run that continues
    from there has the same regular candidates as one that never ended, and still loses nothing.

    Arguments:
        examples: The data.
        index: The validation split.
        tau: The promise; infinite without one.
        terms: The terms of the certificate.
        test: Number of inputs in the test split.
        error: The promised error.
        counting: How the examples of the validation split count.
    """

    def __init__(
        self,
        examples: Examples,
        index: np.ndarray,
        tau: float,
        terms: Terms,
        test: int,
        error: Error = squared_error,
        counting: Counting = PLAIN,
    ) -> None:
        self.examples, self.index, self.tau, self.terms, self.test = examples, index, tau, terms, test
        self.error, self.counting = error, counting
        self.regular: list[Candidate] = []
        self.at_end: list[Candidate] = []
        """The candidate of the run's end, or none."""
        self.passed: list[Passed] = []
        """The smallest sizes that were left without a look at the validation split."""
        self.best_error, self.best_dims = math.inf, 0

    def consider(self, model: GatedVAE, step: int, regular: bool, final: bool = False) -> Candidate:
        """Validate the model as it is now, and keep it if it is of use."""
        sampled, at_mean = per_input(model, self.examples, self.index, VALIDATION_SEED, self.error)
        errors = self.counting.independent(sampled), self.counting.independent(at_mean)
        measured = certificate.forecast(*errors, self.terms, self.test)
        candidate = Candidate(model.gates.kept(), step, measured, _copy(model), final)
        if measured.error < self.best_error:
            self.best_error, self.best_dims = measured.error, len(candidate.kept)
        if measured.high <= self.tau:
            if regular:
                self.regular = useful([*self.regular, candidate])
            elif candidate.beats(next(iter(self.at_end), None)):
                self.at_end = [candidate]
        return candidate

    def remember(self, model: GatedVAE, step: int) -> None:
        """Keep the model as it is now, to be validated at the end if need be."""
        passed = {len(one.kept): one for one in [*self.passed, Passed(model.gates.kept(), step, _copy(model))]}
        self.passed = [passed[size] for size in sorted(passed)[:MOST]]

    def complete(self, like: GatedVAE) -> None:
        """Validate what was passed, from the smallest on, until there is something to fall back on."""
        for one in self.passed:
            if len(self.candidates()) > 1:
                break
            model = copy.deepcopy(like)
            model.load_state_dict(one.state)
            self.consider(model, one.step, regular=True)
        self.passed = []

    def candidates(self) -> list[Candidate]:
        """Return the candidates that meet tau, the best first, each safer than those before it."""
        return useful([*self.regular, *self.at_end])

    def best(self) -> Candidate | None:
        """Return the best candidate that meets tau, or None."""
        return next(iter(self.candidates()), None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data for a checkpoint."""
        found = {when: [one.state_dict() for one in getattr(self, when)] for when in ("regular", "at_end")}
        passed = [vars(one) for one in self.passed]
        return {**found, "passed": passed, "best": (self.best_error, self.best_dims)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.regular, self.at_end = (
            [Candidate.from_state_dict(one) for one in state[when]] for when in ("regular", "at_end")
        )
        self.passed = [Passed(**one) for one in state["passed"]]
        self.best_error, self.best_dims = state["best"]


def _copy(model: GatedVAE) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def useful(candidates: list[Candidate]) -> list[Candidate]:
    """Return the best candidates, the best first, without those that are no safer than a better one."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=Candidate.rank):
        if not kept or one.validation.high < kept[-1].validation.high:
            kept.append(one)
    return kept[:MOST]
