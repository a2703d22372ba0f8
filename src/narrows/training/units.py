"""A table's columns, each in its own unit: trained in standard deviations (or ranges), answered in the table's units.

A column in metres and one in millimetres must weigh the same, so every column is shifted and divided by its own unit,
measured on the training rows alone. Errors and tau then count in those units: standardised, a tau of 0.05 D is 5% of
the variance of D columns. The saved model has the way there and back inside.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from narrows.data import ArrayExamples, Data
from narrows.data.arrays import check_range
from narrows.data.mapping import release
from narrows.errors import NarrowsError

ColumnScaling = Literal["none", "standard", "minmax"]
_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class Units:
    """What stands for zero and for one in each column, in the user's units: both (D,) float64."""

    shift: np.ndarray
    unit: np.ndarray


def measure_units(array: np.ndarray, index: np.ndarray, scaling: ColumnScaling) -> Units:
    """Measure the columns of `array` on the rows of `index`; a constant column keeps a unit of 1."""
    columns = array.shape[1]
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    origin = array[index[0]].astype(np.float64)  # near the data, so that squares stay exact
    total, squares = np.zeros(columns), np.zeros(columns)
    for start in range(0, len(index), _ROWS):
        rows = array[index[start : start + _ROWS]].astype(np.float64)
        release(array)
        low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        rows -= origin
        total += rows.sum(0)
        squares += np.square(rows).sum(0)
    if scaling == "minmax":
        shift, unit = low, high - low
    else:
        mean = total / len(index)
        shift, unit = origin + mean, np.sqrt(np.maximum(squares / len(index) - np.square(mean), 0))
    return Units(shift, np.where((unit > 0) & (high > low), unit, 1.0))


def in_own_units(data: Data, index: np.ndarray, scaling: ColumnScaling) -> tuple[Data, Units | None]:
    """Return the data with every column in its own unit, measured on the rows of `index`, and those units."""
    examples = data.examples
    if scaling == "none":
        if data.columns and isinstance(examples, ArrayExamples):
            check_range(examples.array, data.name)
        return data, None
    if data.is_image or not isinstance(examples, ArrayExamples):
        raise NarrowsError(f"--scaling {scaling} is for vectors; {data.name} holds images: leave it out")
    stored = measure_units(examples.array, index, scaling)
    served = dataclasses.replace(examples, shift=stored.shift, scale=1 / stored.unit)
    users = Units(stored.shift * examples.scale, stored.unit * examples.scale)  # bytes count as 0 to 1
    return dataclasses.replace(data, examples=served, values="any"), users
