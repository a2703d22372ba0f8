"""Which model a run keeps: the smallest that met tau on the validation split.

Every pass over the validation split makes the present model a candidate. It met tau when the promise is kept there
(runs/certificate.py). Of two candidates that met tau, the one with fewer dimensions is kept; with equally many, the one
from the end of the last phase, if the recipe has one, or else the one with the smaller error. A candidate that did not
meet tau is never kept.
"""

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from narrows.data import Examples
from narrows.model.vae import VAE, GatedVAE
from narrows.objective import Error, squared_error
from narrows.runs import certificate
from narrows.runs.records import HeldOut
from narrows.training.validation import evaluate

VALIDATION_SEED = 1
"""Seed of the posterior samples in validation; fixed, so that candidates can be compared."""


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
        return other is None or self._rank() < other._rank()

    def _rank(self) -> tuple[int, bool, float]:
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


class Selection:
    """Validates models and keeps the best candidate that met tau.

    A run may end between two regular validations, and the candidate of its end is kept apart. So a run that continues
    from there has the same regular candidates as one that never ended, and still loses nothing.

    Arguments:
        examples: The data.
        index: The validation split.
        tau: The promise; infinite without one.
        error: The promised error.
    """

    def __init__(self, examples: Examples, index: np.ndarray, tau: float, error: Error = squared_error) -> None:
        self.examples, self.index, self.tau, self.error = examples, index, tau, error
        self.found: dict[str, Candidate | None] = {"regular": None, "at_end": None}
        self.best_error, self.best_dims = math.inf, 0

    def consider(self, model: GatedVAE, step: int, regular: bool, final: bool = False) -> Candidate:
        """Validate the model as it is now, and keep it if it is the best so far that met tau."""
        measured = evaluate(model, self.examples, self.index, VALIDATION_SEED, self.error)
        state = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        candidate = Candidate(model.gates.kept(), step, measured, state, final)
        if measured.error < self.best_error:
            self.best_error, self.best_dims = measured.error, len(candidate.kept)
        when = "regular" if regular else "at_end"
        if certificate.is_kept(measured, self.tau) and candidate.beats(self.found[when]):
            self.found[when] = candidate
        return candidate

    def best(self) -> Candidate | None:
        """Return the best candidate that met tau, or None."""
        regular, at_end = self.found["regular"], self.found["at_end"]
        return at_end if at_end is not None and at_end.beats(regular) else regular

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data for a checkpoint."""
        found = {when: candidate and candidate.state_dict() for when, candidate in self.found.items()}
        return {**found, "best": (self.best_error, self.best_dims)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.found = {when: state[when] and Candidate.from_state_dict(state[when]) for when in self.found}
        self.best_error, self.best_dims = state["best"]
