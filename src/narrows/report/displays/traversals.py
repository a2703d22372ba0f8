"""What each dimension changes."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from narrows._util.checks import indices_below, several, whole_below
from narrows._util.errors import NarrowsError
from narrows.data import Data
from narrows.inference.inspect import (
    TRAVERSED,
    Traversal,
    assumed_ranges,
    evenly_spaced,
    move,
    range_and_start,
    traverse,
)
from narrows.report import images
from narrows.report.displays.drawing import axes_for, name_below, name_of, show_mosaic
from narrows.report.displays.fitted import Fitted, as_pictures, columns_of, errors_of, fitted, unit_of
from narrows.report.displays.runs import AnyRun, opened
from narrows.report.figures.charts import traversal_chart
from narrows.report.figures.figure_files import draw_chart
from narrows.report.model_sections import telling_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D

SHOWN = 10
"""Dimensions shown by default: those with the largest cost of removal."""
ACROSS = 3
"""Charts beside each other."""


class TraversalDisplay:
    """What changes while one dimension moves and the others stay where they are.

    For images there is one row of images per dimension. For tables there is one chart per dimension, with the columns
    that it says most about (`NarrowVAE.feature_cost_`); for vectors without names, the values at both ends of its range
    and in the middle. Make it with `from_estimator` or `from_run`.

    Parameters
    ----------
    dimensions : array (k,)
        The dimensions, counted from 0 in the order of their cost of removal.
    positions : array (k, 9)
        The codes that each dimension passes.
    decoded : array (k, 9, ...)
        What they are decoded to.
    columns : list of str
        The names of a vector's values; empty for images and vectors without names.
    shown : list of k lists
        The places of the values that each dimension's chart shows, of vectors with names.
    unit : array or float
        The unit of each value: changes are divided by it.
    measured : bool
        Whether the positions go from the 1st to the 99th percentile of codes of real inputs; otherwise that range is
        computed from each dimension's mean and deviation.
    levels : (float, float), optional
        For images: the values that are black and white; by default from what is decoded.

    Attributes
    ----------
    axes_ : list of Axes
        One for images, one per dimension for vectors.
    figure_ : Figure
    image_ : AxesImage
        For images: all of them, one row per dimension.
    lines_ : list of lists of Line2D
        For vectors: the curves of each dimension.
    """

    axes_: "list[Axes]"
    figure_: "Figure"
    image_: "AxesImage"
    lines_: "list[list[Line2D]]"

    def __init__(
        self,
        *,
        dimensions: Sequence[int],
        positions: Any,
        decoded: Any,
        columns: Sequence[str] = (),
        shown: Sequence[Sequence[int]] = (),
        unit: Any = 1.0,
        measured: bool = True,
        levels: tuple[float, float] | None = None,
    ) -> None:
        self.dimensions = np.asarray(dimensions, np.int64)
        self.positions = np.asarray(positions)
        self.decoded = np.asarray(decoded)
        self.columns = list(columns)
        self.shown = [list(values) for values in shown]
        self.unit = unit
        self.measured = measured
        self.levels = levels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        dimensions: Sequence[int] | None = None,
        image_shape: tuple[int, ...] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw what the dimensions of a fitted `NarrowVAE` change.

        Parameters
        ----------
        estimator : NarrowVAE
            A fitted one.
        X : array or data frame, optional
            Examples, best those that it was not fitted to. Dimensions then move from the 1st to the 99th percentile of
            their codes, around the example with the median error; otherwise around the mean code.
        dimensions : list of int, optional
            Which dimensions, counted from 0; by default the first 10.
        image_shape : tuple, optional
            For vectors of pixels: the shape to show them in, such as (8, 8).
        ax : Axes or several, optional
            See `plot`.
        """
        found = fitted(estimator)
        chosen = _chosen(found.model_.n, dimensions)
        if X is None:
            low, high, start = assumed_ranges(found.model_.n, found.result_)
            levels = None
        else:
            (low, high), start, levels = _measured(found, X)
        moved = [move(found._decoded, j, low, high, start) for j in chosen]
        columns, unit = columns_of(found), unit_of(found)
        shown = [telling_values(one, unit, found.table_, found.result_) for one in moved] if columns else []
        return cls._of(moved, columns, shown, unit, X is not None, image_shape, levels).plot(ax=ax)

    @classmethod
    def from_run(
        cls,
        folder: AnyRun,
        *,
        dimensions: Sequence[int] | None = None,
        image_shape: tuple[int, ...] | None = None,
        data: Data | None = None,
        trust_data: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw what the dimensions of a run's model change.

        Without the data, dimensions move around the mean code, as they do in the report.

        Parameters
        ----------
        folder : path or RunFolder
            The run's folder.
        dimensions : list of int, optional
            Which dimensions, counted from 0; by default the first 10.
        image_shape : tuple, optional
            For vectors of pixels: the shape to show them in, such as (8, 8).
        data : Data, optional
            The data that the run was trained on; read again by default.
        trust_data : bool
            Read the data that the run names even if its model has no fingerprint of them.
        ax : Axes or several, optional
            See `plot`.
        """
        run = opened(folder, data, trust_data, needs_data=False)
        trained, result = run.trained, run.contents.result
        chosen = _chosen(min(trained.model.n, TRAVERSED), dimensions)
        every = traverse(trained, run.heldout, result)
        moved = [every[j] for j in chosen]
        unit = 1.0 if run.heldout is None else run.heldout.unit
        shown = [telling_values(one, unit, trained.table, result) for one in moved] if trained.columns else []
        return cls._of(moved, trained.columns, shown, unit, run.heldout is not None, image_shape).plot(ax=ax)

    @classmethod
    def _of(
        cls,
        moved: Sequence[Traversal],
        columns: Sequence[str],
        shown: Sequence[Sequence[int]],
        unit: np.ndarray | float,
        measured: bool,
        image_shape: Any,
        levels: tuple[float, float] | None = None,
    ) -> Self:
        decoded = np.stack([as_pictures(one.decoded, image_shape) for one in moved])
        return cls(
            dimensions=[one.dimension for one in moved],
            positions=np.stack([one.positions for one in moved]),
            decoded=decoded,
            columns=columns if decoded.ndim == 3 else (),
            shown=shown if decoded.ndim == 3 else (),
            unit=unit,
            measured=measured,
            levels=levels,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the images or the charts and return the display.

        Parameters
        ----------
        ax : Axes or several, optional
            Where to draw. Images need one; vectors need one per dimension, or one that is divided. By default in a new
            figure.
        """
        return self._plot_images(ax) if self.decoded.ndim > 3 else self._plot_charts(ax)

    def _plot_images(self, ax: Any) -> Self:
        low, high = images.levels(list(self.decoded)) if self.levels is None else self.levels
        rows = [images.as_bytes(row, low, high) for row in self.decoded]
        steps = self.positions.shape[1]
        width, height = self.decoded.shape[3], self.decoded.shape[2]
        size = (1.8 + 0.7 * steps, 0.9 + 0.7 * len(rows) * height / width)
        self.figure_, self.axes_ = axes_for(ax, 1, 1, size)
        names = [
            f"dimension {j + 1}\n{ends[0]:.2f} to {ends[-1]:.2f}"
            for j, ends in zip(self.dimensions, self.positions, strict=True)
        ]
        below = ["low", *[""] * (steps - 2), "high"]
        self.image_ = show_mosaic(self.axes_[0], rows, names, below)
        self.axes_[0].set_xlabel(f"code, {self._range()}")
        return self

    def _plot_charts(self, ax: Any) -> Self:
        count = len(self.dimensions)
        across = 2 if count == 4 else min(ACROSS, count)
        size = (3.6 * across, (3.4 if self.columns else 2.8) * math.ceil(count / across))
        self.figure_, self.axes_ = axes_for(ax, count, across, size)
        self.lines_ = []
        names = list(map(name_of, self.columns))
        for place, (j, axes) in enumerate(zip(self.dimensions, self.axes_, strict=True)):
            one = Traversal(int(j), self.positions[place], self.decoded[place])
            chart = traversal_chart(one, names, self.unit, self.shown[place] if self.shown else None)
            lines = draw_chart(axes, chart, legend=False)
            name_below(axes, lines, [series.name for series in chart.series], ncols=2 if names else 3)
            axes.set_title(chart.title, fontsize=10)
            self.lines_.append(lines)
        return self

    def _range(self) -> str:
        if self.measured:
            return "from the 1st to the 99th percentile of its codes"
        return "2.3 deviations around its mean"


def _chosen(n: int, dimensions: Sequence[int] | None) -> list[int]:
    """Return the dimensions to show; raise if there are none, or one of them is not among n."""
    if n == 0:
        raise NarrowsError("the model has 0 dimensions, so nothing can move; use a smaller tau")
    if dimensions is None:
        return list(range(min(n, SHOWN)))
    rule = indices_below(n)
    found: list[int] = several("dimensions", dimensions, whole_below(n), rule.words)
    if not found or len(set(found)) < len(found):
        raise NarrowsError(f"dimensions must be {rule.words}, at least one; it is {dimensions!r:.80}")
    return found


def _measured(estimator: Fitted, X: Any) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Return the range of each dimension's codes, the code of the example with the median error, and X's levels."""
    x = estimator._examples(X)
    x = x[evenly_spaced(np.arange(len(x)), x.shape[1:])]
    codes = estimator._codes(x)
    return *range_and_start(codes, errors_of(estimator, x, estimator._decoded(codes))), images.levels([x])
