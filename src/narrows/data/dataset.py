"""`Data`: a set of examples and what is known about it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from narrows.data.examples import Examples
from narrows.data.factors import Factors

Values = Literal["unit", "any"]
"""unit: every value lies in [0, 1], as pixels do; any: any finite numbers."""


@dataclass(frozen=True, eq=False)
class Data:
    """A named set, checked and ready to be split and served."""

    name: str
    """What errors and run folders call it."""
    examples: Examples
    """Batches by index."""
    values: Values
    """unit: every value lies in [0, 1]; any: any finite numbers."""
    test: np.ndarray | None = None
    """Indices of the official test split, when the set has one."""
    note: str = ""
    """One line for the user: where the examples came from."""
    origin: Literal["", "drawn", "official"] = ""
    """Which of the two a named set is."""
    factors: Factors | None = None
    """Of labelled sets."""
    columns: tuple[str, ...] = ()
    """Names of a table's columns."""

    @property
    def is_image(self) -> bool:
        """True for images (C, H, W), false for vectors (D,)."""
        return len(self.examples.shape) == 3
