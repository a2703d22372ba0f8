"""Tables with categories: each becomes one value per level, of which exactly one is 1.

A vector has the numbers first and then the blocks, one per category, in the order of the table. The array holds codes
(0, 1, ... for the levels, NaN for a missing value), and a batch is expanded when it is read, so that a column of 200
levels takes no more memory than a number does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
import torch

from narrows.data.examples import ArrayExamples

Kind = Literal["number", "whole", "flag", "category"]


@dataclass(frozen=True)
class Column:
    """A column of a table as it was read."""

    name: str
    kind: Kind = "number"
    """number, whole (a whole number), flag (true or false, trained on as 1 or 0), or category."""
    levels: tuple[str, ...] = ()
    """What a category can be."""


def widths_of(columns: Sequence[Column]) -> tuple[int, ...]:
    """Return the number of levels of each category."""
    return tuple(len(column.levels) for column in columns if column.kind == "category")


def value_names(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the names of a vector's values: those of the numbers, then colour=red, colour=green, ..."""
    numbers = [column.name for column in columns if column.kind != "category"]
    blocks = [f"{column.name}={level}" for column in columns for level in column.levels]
    return (*numbers, *blocks)


def stored_order(columns: Sequence[Column]) -> list[int]:
    """Return the places of the columns in the order in which an array stores them: categories last."""
    return sorted(range(len(columns)), key=lambda place: columns[place].kind == "category")


@dataclass(frozen=True, eq=False)
class MixedExamples:
    """Rows of numbers and codes, served with a block of values for each code."""

    stored: ArrayExamples
    """(N, numbers + categories); shift and scale leave the codes as they are."""
    widths: tuple[int, ...]
    """Levels of each category."""

    @property
    def shape(self) -> tuple[int, ...]:
        """One example as the networks see it."""
        return (self.stored.array.shape[1] - len(self.widths) + sum(self.widths),)

    def __len__(self) -> int:
        return len(self.stored)

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the examples at `index`, see `Examples.batch`."""
        return expand(self.stored.batch(index), self.widths)


def expand(rows: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """Return rows of numbers and codes, (N, numbers + categories), with a block for each code; NaN fills its block."""
    if not widths:
        return rows
    numbers, codes = rows.tensor_split([rows.shape[1] - len(widths)], dim=1)
    wide = torch.tensor(widths)
    gaps = torch.isnan(codes)
    places = torch.where(gaps, 0.0, codes).long() + (wide.cumsum(0) - wide)
    blocks = rows.new_zeros(len(rows), int(wide.sum())).scatter_(1, places, 1.0)
    blocks.masked_fill_(gaps.repeat_interleave(wide, dim=1), torch.nan)
    return torch.cat([numbers, blocks], 1)


def starts_of(values: int, widths: Sequence[int]) -> list[int]:
    """Return where each number and each block begins in a vector of so many values."""
    numbers = values - sum(widths)
    return [*range(numbers), *(numbers + end - width for end, width in zip(accumulate(widths), widths, strict=True))]


def column_of_values(columns: Sequence[Column]) -> list[int]:
    """Return the column that each of a vector's values belongs to, as its place in the table."""
    widths = [max(1, len(columns[place].levels)) for place in stored_order(columns)]
    return [place for place, width in zip(stored_order(columns), widths, strict=True) for _ in range(width)]


def by_column(values: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Return what belongs to values, `(values, ...)`, as sums over columns in the order of the table."""
    widths = widths_of(columns)
    if not widths:
        return values
    stored = np.add.reduceat(values, starts_of(len(values), widths), axis=0)
    return stored[np.argsort(stored_order(columns), kind="stable")]


def collapse(values: np.ndarray, widths: Sequence[int]) -> np.ndarray:
    """Return vectors, (N, values), as rows of numbers and codes: the level with the largest value of each block."""
    if not widths:
        return values
    numbers = values.shape[1] - sum(widths)
    codes = [block.argmax(1)[:, None] for block in np.split(values[:, numbers:], np.cumsum(widths)[:-1], axis=1)]
    return np.concatenate([values[:, :numbers], *codes], axis=1)
