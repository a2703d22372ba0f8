"""An array of any offset and scale: trained around 0 and near 1, answered in its own unit.

Values around 1e8 that vary by 1 lose their digits in single precision, and squares of 1e-20 or 1e20 have no room there.
So examples are shifted and divided by one unit for all values, in double precision, and errors come back times the
unit's square. The unit is a power of two, so that neither way rounds anything. Vectors are shifted by each column's
mean, images by one number, as in `Scaling`.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from narrows.errors import NarrowsError
from narrows.networks import Scaling
from narrows.runs import HeldOut, MetricRow, Result
from narrows.training.config import LARGEST, SMALLEST

LEAST, MOST = 1e-100, 1e100
"""Values whose squares double precision can sum."""
DIGITS = 1e-4
"""Of what their means differ by, pixels must vary by this much: `resolve` has the same rule for runs."""
_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class CommonUnit:
    """What stands for 0 and for 1."""

    mean: np.ndarray
    """Of each value, one example's shape, float64."""
    shift: np.ndarray
    """(D,) for vectors, () for images."""
    unit: float

    @property
    def square(self) -> float:
        """What a squared error of 1 is in the user's unit."""
        return self.unit**2

    def inward(self, x: np.ndarray) -> np.ndarray:
        """Return x, (N, ...), as it is trained: float32."""
        out = np.empty(x.shape, np.float32)
        for part, rows in _parts(x):
            out[part] = (rows - self.shift) / self.unit
        return out

    def outward(self, scaling: Scaling) -> Scaling:
        """Return the scaling of a model that takes and gives the user's values."""
        return scaling.in_units(torch.tensor(self.shift), torch.tensor(self.unit, dtype=torch.float64))


def measure_unit(x: np.ndarray, tau: float | None) -> CommonUnit:
    """Measure x, (N, D) or (N, H, W[, C]), and refuse what has no room in double precision; `tau` is in x's unit."""
    top = max(-float(x.min()), float(x.max()))
    if top > MOST:
        raise NarrowsError(
            f"X has values up to {top:.3g}; above {MOST:g} sums of squares have no room in double precision; divide X "
            f"by a large number first"
        )
    mean = x[0] + sum(rows.sum(0) for _, rows in _parts(x, x[0])) / len(x)  # so the mean of equal rows is that row
    deviation = np.sqrt(sum(np.square(rows).sum(0) for _, rows in _parts(x, mean)) / len(x))
    spread = float(np.sqrt(np.square(deviation).mean()))
    varies = bool((deviation > np.finfo(x.dtype).eps * np.maximum(-x.min(0), x.max(0))).any())
    if not varies and tau is None:
        raise NarrowsError(
            "X: all examples are (nearly) the same, up to rounding: there is no variance to keep a share of; give tau"
        )
    if varies and spread < LEAST:
        raise NarrowsError(
            f"X varies by {spread:.3g}; below {LEAST:g} squares have no room in double precision; multiply X by a "
            f"large number first"
        )
    shift = mean if x.ndim == 2 else mean.mean()
    apart = float(np.abs(mean - shift).max())
    if varies and spread < DIGITS * apart:
        raise NarrowsError(
            f"X: pixels that vary by {spread:.2g} around means that differ by {apart:.4g} lose too many digits in "
            f"single precision; subtract each pixel's mean first"
        )
    scale = spread if varies else min(max((tau or 1.0) ** 0.5, spread, LEAST), MOST)
    unit = CommonUnit(mean, np.asarray(shift), 2.0 ** int(np.frexp(scale)[1]))
    low, high = SMALLEST * unit.square, LARGEST * unit.square
    if tau is not None and not low <= tau <= high:
        raise NarrowsError(
            f"tau must be between {low:.3g} and {high:.3g} for an X that varies by {spread:.3g}; it is {tau:g}"
        )
    return unit


def result_times(result: Result, square: float) -> Result:
    """Return an answer with its errors in another unit."""

    def held(measured: HeldOut) -> HeldOut:
        numbers = {name: getattr(measured, name) * square for name in ("error", "low", "high", "error_at_mean")}
        return dataclasses.replace(measured, **numbers)

    return dataclasses.replace(
        result,
        tau=None if result.tau is None else result.tau * square,
        variance=None if result.variance is None else result.variance * square,
        heldout=held(result.heldout),
        validation=held(result.validation),
        best_error=result.best_error * square,
        dimensions=[dataclasses.replace(one, cost=one.cost * square) for one in result.dimensions],
    )


def row_times(row: MetricRow, square: float) -> MetricRow:
    """Return a row of metrics with its errors in another unit; the loss counts them in tau and has none."""
    return dataclasses.replace(row, error=row.error * square, watched=row.watched * square)


def _parts(x: np.ndarray, less: np.ndarray | float = 0.0) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield x less something, in double precision, some rows at a time."""
    rows = max(1, _VALUES * len(x) // x.size)
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        yield part, np.subtract(x[part], less, dtype=np.float64)
