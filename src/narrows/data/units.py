"""Units: examples are trained around 0 and near 1, and every answer comes back in the user's units.

Training sees (x - shift) / unit, both measured on the data, and the saved model contains the way there and back:

- A table's columns get one shift and one unit each (`scale_columns`), because a column in metres and one in
  millimetres must weigh the same. The unit is the column's standard deviation or its range over the training rows.
  Errors and tau count in these units: after standardising, tau = 0.05 D is 5% of the variance of D columns.
- The estimator's arrays get one common unit (`common_units`). Values near 1e8 that vary by 1 lose their digits in
  single precision, and squares of 1e-20 or 1e20 overflow or vanish there. The unit is a power of two, so neither
  direction rounds anything, and errors come back multiplied by the square of the unit. Vectors are shifted by the mean
  of each column, images by one number, as in `Scaling`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import steps
from narrows.data.arrays import check_floats
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples, Rows, release
from narrows.data.mixed import MixedExamples, stored_order
from narrows.data.sparse import SparseRows
from narrows.data.statistics import Moments

ColumnScaling = Literal["none", "standard", "minmax"]
SMALLEST_SPREAD, LARGEST_VALUE = 1e-100, 1e100
"""Double precision can square and sum values within these limits."""
SMALLEST_RELATIVE_SPREAD = 1e-4
"""Pixels must vary by at least this share of the distance between their means; training has the same rule for runs."""
_ROWS, _VALUES = 65_536, 1 << 20  # read at a time: rows of a table, values of an array


@dataclass(frozen=True, eq=False)
class AffineUnits:
    """What counts as 0 and as 1, in the user's units: training sees (x - shift) / unit."""

    shift: np.ndarray
    """Float64: (D,) for the columns of vectors, () for images."""
    unit: np.ndarray
    """Float64: (D,) for columns with one unit each, () for one common unit."""

    @property
    def square(self) -> float:
        """A squared error of 1 in training, expressed in the user's common unit."""
        return float(self.unit**2)

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Return x, (N, ...), as it is trained: float32."""
        out = np.empty(x.shape, np.float32)
        for part in steps(len(x), max(1, _VALUES * len(x) // x.size)):
            out[part] = np.subtract(x[part], self.shift, dtype=np.float64) / self.unit
        return out

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Return shift and unit as float64 tensors, for `Scaling.in_units`."""
        return torch.tensor(self.shift), torch.tensor(self.unit)


def column_units(
    array: Rows, index: np.ndarray, scaling: ColumnScaling, missing: bool = False, weights: np.ndarray | None = None
) -> AffineUnits:
    """Measure the columns of `array`, (N, D), on the rows of `index`.

    A constant column gets a unit of 1, and one without any value a shift of NaN.
    """
    columns = Moments(missing=missing)
    for part in steps(len(index), _ROWS):
        columns.add(array[index[part]], None if weights is None else weights[index[part]])
        release(array)
    shift, unit = (columns.low, columns.high - columns.low) if scaling == "minmax" else (columns.mean, columns.std)
    shift = np.where(np.isnan(columns.low), np.nan, shift)
    return AffineUnits(shift, np.where((unit > 0) & (columns.high > columns.low), unit, 1.0))


def _measured_units(data: Data, array: Rows, index: np.ndarray, scaling: ColumnScaling) -> AffineUnits:
    """Measure the columns of `data`, stored in `array`; raise if one has no value to measure."""
    units = column_units(array, index, scaling, data.missing > 0, data.counting.weights)
    unknown = np.isnan(units.shift)
    if unknown.any():
        place = int(unknown.argmax())
        name = repr(data.table[stored_order(data.table)[place]].name) if data.table else str(place)
        raise NarrowsError(f"{data.name}: column {name} has no value in the training split; leave it out")
    return units


def scale_columns(data: Data, index: np.ndarray, scaling: ColumnScaling) -> tuple[Data, AffineUnits | None]:
    """Return data whose columns have one unit each.

    Arguments:
        data: Vectors in the user's units.
        index: The rows to measure the units on: the training split.
        scaling: "standard" for standard deviations, "minmax" for ranges, "none" to change nothing.

    Returns:
        The data as they are trained, and the units, None for "none".

    Raises:
        NarrowsError: The data are images, or "none" leaves values that single precision cannot square and sum.
    """
    examples = data.examples
    if scaling == "none":
        if (
            data.columns and isinstance(examples, ArrayExamples) and data.stream is None
        ):  # whose values are checked later
            check_floats(examples.array, "any", data.name, missing="mask" if data.missing else "refuse")
        return data, None
    if isinstance(examples, MixedExamples):
        return _scale_numbers(data, examples, index, scaling)
    if data.is_image or not isinstance(examples, ArrayExamples):
        raise NarrowsError(f"{setting('scaling', scaling)} is for vectors, and {data.name} holds images; leave it out")
    stored = _measured_units(data, examples.array, index, scaling)
    served = dataclasses.replace(examples, shift=stored.shift, scale=1 / stored.unit)
    users = AffineUnits(stored.shift * examples.scale, stored.unit * examples.scale)  # bytes count as 0 to 1
    return dataclasses.replace(data, examples=served, values="any"), users


def _scale_numbers(
    data: Data, examples: MixedExamples, index: np.ndarray, scaling: ColumnScaling
) -> tuple[Data, AffineUnits]:
    """Scale the numbers of a table with categories; its blocks are values of 0 and 1 and stay as they are."""
    stored, wide = examples.stored, len(examples.widths)
    units = _measured_units(data, stored.array, index, scaling)
    numbers = len(units.shift) - wide
    shift = np.where(np.arange(len(units.shift)) < numbers, units.shift, 0.0)
    unit = np.where(np.arange(len(units.shift)) < numbers, units.unit, 1.0)
    served = MixedExamples(dataclasses.replace(stored, shift=shift, scale=1 / unit), examples.widths)
    blocks = np.zeros(sum(examples.widths))
    users = AffineUnits(np.append(shift[:numbers], blocks), np.append(unit[:numbers], blocks + 1))
    return dataclasses.replace(data, examples=served, values="any"), users


def common_units(
    x: np.ndarray | SparseRows,
    tau: float | None,
    limits: tuple[float, float],
    weights: np.ndarray | None = None,
) -> tuple[AffineUnits, np.ndarray]:
    """Measure the common unit of an array.

    Arguments:
        x: Examples of an estimator, (N, D) or (N, H, W[, C]), float32 or float64, or sparse ones.
        tau: The bound on the error in x's unit, or None for a share of the variance.
        limits: The smallest and the largest tau that training takes, in its own units.
        weights: How much each example counts, (N,); by default all count the same.

    Returns:
        The units, and the mean of each value, `x.shape[1:]` float64.

    Raises:
        NarrowsError: The values, their spread or tau cannot be represented after scaling.
    """
    if isinstance(x, SparseRows):
        missing, (low, high) = False, x.range()
    else:
        missing, low, high = bool(np.isnan(x.min())), float(np.nanmin(x)), float(np.nanmax(x))
    largest = max(-low, high)
    if largest > LARGEST_VALUE:
        raise NarrowsError(
            f"X has values up to {largest:.3g}, and double precision cannot sum squares above {LARGEST_VALUE:g}; "
            f"divide X by a large number first"
        )
    values = Moments(missing=missing)
    for part in steps(len(x), max(1, _VALUES * len(x) // x.size)):
        values.add(x[part], None if weights is None else weights[part])
    mean, std = values.mean, values.std
    spread = float(np.sqrt(np.square(std).mean()))
    varies = bool((std > np.finfo(x.dtype.type).eps * np.maximum(-values.low, values.high)).any())
    if not varies and tau is None:
        raise NarrowsError(
            f"X: all examples are (nearly) the same, so there is no variance to explain; give {setting('tau')}"
        )
    if varies and spread < SMALLEST_SPREAD:
        raise NarrowsError(
            f"X varies by {spread:.3g}, and double precision cannot square values below {SMALLEST_SPREAD:g}; "
            f"multiply X by a large number first"
        )
    shift = mean if x.ndim == 2 else mean.mean()
    distance = float(np.abs(mean - shift).max())
    if varies and spread < SMALLEST_RELATIVE_SPREAD * distance:
        raise NarrowsError(
            f"X: pixels that vary by {spread:.2g} around means that differ by {distance:.4g} lose too many digits in "
            f"single precision; subtract each pixel's mean first"
        )
    scale = spread if varies else min(max((tau or 1.0) ** 0.5, spread, SMALLEST_SPREAD), LARGEST_VALUE)
    units = AffineUnits(np.asarray(shift), np.asarray(2.0 ** int(np.frexp(scale)[1])))
    low, high = (limit * units.square for limit in limits)
    if tau is not None and not low <= tau <= high:
        raise NarrowsError(
            f"{setting('tau')} must be between {low:.3g} and {high:.3g} for an X that varies by {spread:.3g}; "
            f"it is {tau:g}"
        )
    return units, mean
