"""Which model a run keeps: the smallest that met tau on the validation split.

A model is a candidate each time the validation split is looked at. It met tau when the upper end of its error's 95%
interval is within tau. Of two that met, the one with fewer dimensions is kept, and at equal dimensions the one with
the smaller error; one that did not meet tau is never kept.
"""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from narrows.model import GatedVAE
from narrows.runs import HeldOut


@dataclass(frozen=True)
class Kept:
    """A model worth keeping, with what the validation split said of it."""

    kept: list[int]
    step: int
    validation: HeldOut
    state: dict[str, Tensor]
    """state_dict of the whole gated model; narrowing it to `kept` gives the model."""

    @classmethod
    def of(cls, model: GatedVAE, step: int, validation: HeldOut) -> "Kept":
        """Copy the model as it is now."""
        state = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        return cls(model.gates.kept(), step, validation, state)

    def beats(self, other: "Kept | None") -> bool:
        """Tell whether this one is to be kept in place of the other (both met tau)."""
        return other is None or self._rank() < other._rank()

    def _rank(self) -> tuple[int, float]:
        return len(self.kept), self.validation.error

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "kept": self.kept,
            "step": self.step,
            "validation": asdict(self.validation),
            "state": self.state,
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Kept":
        """Undo `state_dict`."""
        return cls(state["kept"], state["step"], HeldOut(**state["validation"]), state["state"])
