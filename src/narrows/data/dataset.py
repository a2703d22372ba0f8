"""`Data`: a set of examples and what is known about it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from narrows.data.examples import Examples
from narrows.data.factors import Factors

# "unit": every value lies in [0, 1], as pixels do. "any": any finite numbers.
Values = Literal["unit", "any"]


@dataclass(frozen=True, eq=False)
class Data:
    """A named set, checked and ready to be split and served."""

    name: str
    examples: Examples
    values: Values
    test: np.ndarray | None = None  # indices of the official test split, when the set has one
    note: str = ""  # one line for the user: where the examples came from
    origin: Literal["", "drawn", "official"] = ""  # which of the two a named set is
    factors: Factors | None = None  # of labelled sets
    columns: tuple[str, ...] = ()  # names of a table's columns

    @property
    def is_image(self) -> bool:
        """True for images (C, H, W), false for vectors (D,)."""
        return len(self.examples.shape) == 3
