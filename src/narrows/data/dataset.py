"""`Data`: a set of examples with its name, its test split, its factors and its columns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from narrows._util.checks import TEXT, Rule, argument, instance_of, one_of
from narrows._util.text import printable
from narrows.data.counting import PLAIN, Counting
from narrows.data.examples import ArrayExamples, ExactRows, Examples
from narrows.data.factors import Factors
from narrows.data.mixed import Column, MixedExamples

if TYPE_CHECKING:
    from narrows.data.splits import Splits

Missing = Literal["refuse", "mask"]
"""What a NaN among the values means: an error, or a value that was not observed."""
Categories = Literal["refuse", "auto"]
"""What a column of texts means: an error, or a category. Columns that say so themselves are always categories."""
Values = Literal["unit", "any"]
"""unit: every value lies in [0, 1], as pixels do; any: any finite numbers."""

SERVES = Rule(
    "an object that serves examples by index (shape, len, batch), as narrows.from_array makes it",
    lambda value: callable(getattr(value, "batch", None)) and hasattr(value, "shape") and hasattr(value, "__len__"),
)


class StreamOf(Protocol):
    """What a set that is streamed knows about itself (streams/stream.py)."""

    @property
    def digest(self) -> str:
        """Names, sizes and counts of its shards."""
        ...

    def split(self, seed: int) -> "Splits":
        """Divide it, and bring what is held out to the local disk."""
        ...


@dataclass(frozen=True, eq=False)
class Data:
    """A set of examples, checked and ready to be split and served: the result of `load` and `from_array`."""

    name: str
    """What errors, pages and run folders call the set; names of files are made printable."""
    examples: Examples
    """Serves batches by index."""
    values: Values
    """unit: every value lies in [0, 1]; any: any finite numbers."""
    test: np.ndarray | None = None
    """Indices of the official test split, if the set has one."""
    note: str = ""
    """One line for the user: where the examples come from."""
    source: Literal["", "drawn", "official"] = ""
    """Named sets that can be drawn: whether this is the drawn set or the official file."""
    factors: Factors | None = None
    """The factors or labels of the examples, if known."""
    columns: tuple[str, ...] = ()
    """The names of a vector's values, for tables: its columns, and a name for each level of a category."""
    stream: StreamOf | None = None
    """How the set is divided and ordered, if it is read while it is used."""
    table: tuple[Column, ...] = ()
    """A table's columns as they were read, in its order; `columns` names the values of a vector."""
    missing: int = 0
    """How many values were not observed; they are served as NaN."""
    counting: Counting = PLAIN
    """Weights of the examples, and groups of examples that belong together."""
    batches: int = 0
    """How many batches rows of counts are from: as many last values of a row say which, 1 for its own and else 0."""

    def __post_init__(self) -> None:
        argument("name", self.name, TEXT)
        for name in ("name", "note"):  # they come from paths and from files, and go to terminals, pages and cards
            object.__setattr__(self, name, printable(getattr(self, name), longest=None))
        argument("examples", self.examples, SERVES)
        argument("values", self.values, one_of(("unit", "any")))

    @property
    def is_image(self) -> bool:
        """Whether the examples are images (C, H, W), not vectors (D,)."""
        return len(self.examples.shape) == 3

    @property
    def exact(self) -> Examples:
        """The examples as a saved model takes them: in the user's units, and double precision where those need it.

        A saved model shifts a column of timestamps near 1.7e9 by itself, and single precision would round each of them
        by up to 64 seconds before it could. So tables, and vectors stored in float64, are served in float64.
        """
        rows = self.examples
        if isinstance(rows, MixedExamples):
            return MixedExamples(ExactRows(rows.stored.array), rows.widths)
        if isinstance(rows, ArrayExamples) and not self.is_image and (self.columns or rows.array.dtype == np.float64):
            return ExactRows(rows.array)
        return rows


DATA = instance_of(Data, "Data, as narrows.load and narrows.from_array return them")
