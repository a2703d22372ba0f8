"""Which model a run keeps: the smallest that met tau on the validation split.

A model is a candidate each time the validation split is looked at. It met tau when the upper end of its error's 95%
interval is within tau. Of two that met, the one with fewer dimensions is kept, and at equal dimensions the one of a
run's last phase, where the recipe has one, or the one with the smaller error; one that did not meet tau is never kept.
"""

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from narrows.data import Examples
from narrows.model import VAE, GatedVAE
from narrows.objective import Error, squared_error
from narrows.runs import HeldOut
from narrows.training.evaluate import evaluate

VALIDATION_NOISE = 1
"""Seed of the posterior samples at a look; fixed, so that looks can be compared."""


@dataclass(frozen=True)
class Kept:
    """A model worth keeping, with what the validation split said of it."""

    kept: list[int]
    step: int
    validation: HeldOut
    state: dict[str, Tensor]
    """state_dict of the whole gated model; narrowing it to `kept` gives the model."""
    final: bool = False
    """Whether a last phase has made it what it was meant to be."""

    @classmethod
    def of(cls, model: GatedVAE, step: int, validation: HeldOut, final: bool = False) -> "Kept":
        """Copy the model as it is now."""
        state = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        return cls(model.gates.kept(), step, validation, state, final)

    def beats(self, other: "Kept | None") -> bool:
        """Tell whether this one is to be kept in place of the other (both met tau)."""
        return other is None or self._rank() < other._rank()

    def _rank(self) -> tuple[int, bool, float]:
        return len(self.kept), not self.final, self.validation.error

    def narrowed(self, like: GatedVAE) -> VAE:
        """Return the kept model itself; `like` is the model it was copied from, whatever it has become."""
        model = copy.deepcopy(like)
        model.load_state_dict(self.state)
        return model.narrow(self.kept).eval()

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "kept": self.kept,
            "step": self.step,
            "validation": asdict(self.validation),
            "state": self.state,
            "final": self.final,
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Kept":
        """Undo `state_dict`."""
        return cls(state["kept"], state["step"], HeldOut(**state["validation"]), state["state"], state["final"])


class Keeper:
    """Looks at the validation split and keeps the best model that met tau.

    A look at a run's end may come between two regular ones. What it finds is kept apart, so that a run that goes on
    from there has the same regular looks as one that never ended, and still loses nothing.
    """

    def __init__(self, examples: Examples, index: np.ndarray, tau: float, error: Error = squared_error) -> None:
        self.examples, self.index, self.tau, self.error = examples, index, tau, error
        self.regular: Kept | None = None
        self.at_end: Kept | None = None
        self.best_error, self.best_dims = math.inf, 0

    def look(self, model: GatedVAE, step: int, regular: bool, final: bool = False) -> Kept:
        """Measure the model as it is now, and keep it if it is the best so far that met tau."""
        seen = evaluate(model, self.examples, self.index, VALIDATION_NOISE, self.error)
        candidate = Kept.of(model, step, seen, final)
        if seen.error < self.best_error:
            self.best_error, self.best_dims = seen.error, len(candidate.kept)
        if seen.meets(self.tau):
            if regular and candidate.beats(self.regular):
                self.regular = candidate
            if not regular and candidate.beats(self.at_end):
                self.at_end = candidate
        return candidate

    def best(self) -> Kept | None:
        """Return the best model that met tau, None if none did."""
        if self.regular is None or (self.at_end is not None and self.at_end.beats(self.regular)):
            return self.at_end
        return self.regular

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "regular": self.regular.state_dict() if self.regular else None,
            "at_end": self.at_end.state_dict() if self.at_end else None,
            "best": (self.best_error, self.best_dims),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Undo `state_dict`."""
        self.regular = Kept.from_state_dict(state["regular"]) if state["regular"] else None
        self.at_end = Kept.from_state_dict(state["at_end"]) if state["at_end"] else None
        self.best_error, self.best_dims = state["best"]
