"""What a model loses: inputs beside their reconstructions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from narrows._util.checks import argument, one_of
from narrows.data import Data
from narrows.inference.inspect import Which, by_error, evenly_spaced
from narrows.report import images
from narrows.report.displays.drawing import axes_for, name_below, name_of, show_mosaic
from narrows.report.displays.fitted import as_pictures, columns_of, errors_of, fitted, unit_of
from narrows.report.displays.runs import AnyRun, opened
from narrows.report.figures.figure_files import PALETTE, plain
from narrows.report.figures.specification import BLUE, ORANGE
from narrows.report.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D

BESIDE = 3
"""Vectors shown beside each other."""
MOST_COLUMNS = 15
"""Columns of a table that are shown: those that differ most."""
PROFILE = 30
"""Vectors without names that are longer are drawn as profiles."""


class ReconstructionDisplay:
    """Inputs beside their reconstructions from the mean of their codes.

    Images come in three rows: inputs, outputs, and their differences, orange where the output is too bright and blue
    where it is too dark. Of vectors the columns that differ most are shown, with their names. Make it with
    `from_estimator` or `from_run`.

    Parameters
    ----------
    inputs, outputs : arrays (k, ...)
        Examples and their reconstructions.
    errors : array (k,)
        The error of each, counted as the promise counts it.
    columns : list of str
        The names of a vector's values; empty for images and vectors without names.
    shift, unit : arrays or floats
        Values of vectors are shown as (value - shift) / unit.
    which : "best", "median" or "worst"
        Which inputs they are, by their error.

    Attributes
    ----------
    axes_ : list of Axes
        One for images, one per input for vectors, of which the first three are shown.
    figure_ : Figure
    image_ : AxesImage
        For images: all of them, in three rows.
    lines_ : list of lists of Line2D
        For vectors: the input and the output in each of `axes_`.
    places_ : array
        For vectors: the places of the columns that are shown.
    """

    axes_: "list[Axes]"
    figure_: "Figure"
    image_: "AxesImage"
    lines_: "list[list[Line2D]]"
    places_: np.ndarray

    def __init__(
        self,
        *,
        inputs: Any,
        outputs: Any,
        errors: Sequence[float],
        columns: Sequence[str] = (),
        shift: Any = 0.0,
        unit: Any = 1.0,
        which: Which = "median",
    ) -> None:
        self.inputs, self.outputs = np.asarray(inputs), np.asarray(outputs)
        self.errors = np.asarray(errors, np.float64)
        self.columns = list(columns)
        self.shift, self.unit = shift, unit
        self.which = which

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        which: Which = "median",
        image_shape: tuple[int, ...] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw what a fitted `NarrowVAE` makes of examples.

        Parameters
        ----------
        estimator : NarrowVAE
            A fitted one.
        X : array or data frame
            Examples. Of more than 1,000, that many are looked at, evenly spaced.
        which : "best", "median" or "worst"
            The six examples to show, by their error.
        image_shape : tuple, optional
            For vectors of pixels: the shape to show them in, such as (8, 8).
        ax : Axes or 3 of them, optional
            See `plot`.
        """
        argument("which", which, one_of(get_args(Which)))
        found = fitted(estimator)
        x = found._examples(X)
        x = x[evenly_spaced(np.arange(len(x)), x.shape[1:])]
        decoded = found._decoded(found._codes(x))
        errors = errors_of(found, x, decoded)
        chosen = by_error(errors)[which]
        display = cls(
            inputs=as_pictures(x[chosen], image_shape),
            outputs=as_pictures(decoded[chosen], image_shape),
            errors=errors[chosen],
            columns=columns_of(found) if image_shape is None else (),
            shift=found.mean_ if found.table_ else 0.0,
            unit=unit_of(found),
            which=which,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_run(
        cls,
        folder: AnyRun,
        *,
        which: Which = "median",
        image_shape: tuple[int, ...] | None = None,
        data: Data | None = None,
        trust_data: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw what a run's model makes of test inputs.

        Parameters
        ----------
        folder : path or RunFolder
            The run's folder.
        which : "best", "median" or "worst"
            The six test inputs to show, by their error.
        image_shape : tuple, optional
            For vectors of pixels: the shape to show them in, such as (8, 8).
        data : Data, optional
            The data that the run was trained on; read again by default.
        trust_data : bool
            Read the data that the run names even if its model has no fingerprint of them.
        ax : Axes or 3 of them, optional
            See `plot`.
        """
        argument("which", which, one_of(get_args(Which)))
        run = opened(folder, data, trust_data)
        assert run.heldout is not None
        picked, unit = getattr(run.heldout, which), run.heldout.unit
        display = cls(
            inputs=as_pictures(picked.inputs, image_shape),
            outputs=as_pictures(picked.outputs, image_shape),
            errors=picked.errors,
            columns=run.trained.columns if image_shape is None else (),
            shift=0.0 if isinstance(unit, float) else run.trained.model.scaling.shift.double().numpy(),
            unit=unit,
            which=which,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw inputs and reconstructions and return the display.

        Parameters
        ----------
        ax : Axes or several, optional
            Where to draw. Images need one; vectors need three, or one that is divided. By default in a new figure.
        """
        return self._plot_images(ax) if self.inputs.ndim > 2 else self._plot_vectors(ax)

    def _plot_images(self, ax: Any) -> Self:
        low, high = images.levels([self.inputs])
        full = float(np.nanmax(np.abs(self.outputs - self.inputs)))
        rows = [images.as_bytes(one, low, high) for one in (self.inputs, self.outputs)]
        rows.append(images.differences(self.inputs, self.outputs, full))
        height, width = self.inputs.shape[1:3]
        size = (1.2 + 1.0 * len(self.inputs), 0.6 + 3.1 * height / width)
        self.figure_, self.axes_ = axes_for(ax, 1, 1, size)
        below = [number(float(f"{error:.3g}")) for error in self.errors]
        self.image_ = show_mosaic(self.axes_[0], rows, ["input", "output", "difference"], below)
        self.axes_[0].set_xlabel(
            f"error ({self.which} of these inputs); differences are full at {full:.2g}", fontsize=9
        )
        return self

    def _plot_vectors(self, ax: Any) -> Self:
        count = min(BESIDE, len(self.inputs))
        x, y = ((part[:count] - self.shift) / self.unit for part in (self.inputs, self.outputs))
        profile = not self.columns and x.shape[1] > PROFILE
        shown = x.shape[1] if profile else min(MOST_COLUMNS, x.shape[1])
        size = (3.3 * count, 2.8) if profile else (1.2 + 2.8 * count, 1.2 + 0.27 * shown)
        self.figure_, self.axes_ = axes_for(ax, count, count, size, sharey=True)
        self.places_ = np.arange(shown) if profile else self._most_apart(x, y)[:shown]
        self.lines_ = []
        for axes, one, other, error in zip(self.axes_, x, y, self.errors, strict=False):
            draw = self._draw_profile if profile else self._draw_columns
            self.lines_.append(draw(axes, one[self.places_], other[self.places_]))
            axes.set_title(f"error {number(float(f'{error:.3g}'))}", fontsize=10)
            plain(axes)
            axes.set_axisbelow(True)
        for axes in self.axes_[1:]:
            axes.tick_params(labelleft=False)
        self.axes_[0].set_ylabel("value" if profile else "")
        name_below(self.axes_[0], self.lines_[0], ["input", "reconstruction"], ncols=2)
        return self

    @staticmethod
    def _most_apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.argsort(-np.nan_to_num(np.abs(y - x)).mean(0), kind="stable")

    def _draw_columns(self, axes: "Axes", x: np.ndarray, y: np.ndarray) -> "list[Line2D]":
        """Draw one row per column, with a line from the input to the reconstruction."""
        down = np.arange(len(x))
        axes.hlines(down, np.fmin(x, y), np.fmax(x, y), color="#bbbbbb", linewidth=1.5, zorder=1)
        (given,) = axes.plot(x, down, "o", color=PALETTE[BLUE], markersize=5)
        (made,) = axes.plot(y, down, "o", color=PALETTE[ORANGE], markerfacecolor="white", markersize=5)
        names = [name_of(self.columns[place]) if self.columns else str(place) for place in self.places_]
        axes.set_yticks(down, names, parse_math=False)
        axes.set_ylim(len(x) - 0.5, -0.5)
        axes.set_xlabel("value" if np.ndim(self.unit) == 0 else "deviations from the mean")
        return [given, made]

    @staticmethod
    def _draw_profile(axes: "Axes", x: np.ndarray, y: np.ndarray) -> "list[Line2D]":
        places = np.arange(len(x))
        (given,) = axes.plot(places, x, color=PALETTE[BLUE], linewidth=1.4)
        (made,) = axes.plot(places, y, color=PALETTE[ORANGE], linewidth=1.1)
        axes.set_xlabel("place of the value")
        return [given, made]
