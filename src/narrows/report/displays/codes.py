"""Two dimensions of the codes as a scatter plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from narrows._util.checks import several, whole_below
from narrows._util.errors import NarrowsError, did_you_mean
from narrows._util.text import brief, printable
from narrows.data import Data
from narrows.report.displays.drawing import axes_for, name_lines, name_of
from narrows.report.displays.fitted import fitted
from narrows.report.displays.runs import AnyRun, OpenedRun, opened
from narrows.report.figures.figure_files import PALETTE, plain
from narrows.report.figures.specification import BLUE, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

MOST_LEVELS = 20
"""Categories that can be told apart by their colours."""
MISSING = "missing"


class CodesDisplay:
    """Two dimensions of the codes, one point per example, coloured by a label.

    Texts, booleans and up to 20 different whole numbers are categories, each with a colour and an entry in the legend.
    Other numbers get a colour bar: pass `y.astype(float)` if whole numbers are amounts. Make it with `from_estimator`
    or `from_run`.

    Parameters
    ----------
    codes : array (N, 2)
        The codes, posterior means.
    dimensions : (int, int)
        Which dimensions they are, counted from 0 in the order of their cost of removal.
    y : array (N,), optional
        The labels.
    label : str
        What the labels are.

    Attributes
    ----------
    levels : list of str or None
        The categories in the order of the legend; None for amounts and without labels.
    ax_ : Axes
    figure_ : Figure
    scatters_ : list of PathCollection
        One per category; one in all for amounts and without labels, before a last one for missing labels.
    legend_ : Legend or None
    colorbar_ : Colorbar or None
    """

    ax_: "Axes"
    figure_: "Figure"
    scatters_: "list[PathCollection]"
    legend_: "Legend | None"
    colorbar_: "Colorbar | None"

    def __init__(self, *, codes: Any, dimensions: tuple[int, int] = (0, 1), y: Any = None, label: str = "y") -> None:
        self.codes = np.asarray(codes)
        self.dimensions = dimensions
        self.y = None if y is None else np.asarray(y)
        self.label = printable(label)
        self.levels: list[str] | None = None
        self._numbers: np.ndarray | None = None
        if self.y is not None:
            self.levels, self._numbers = _levels(self.y)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        dimensions: Sequence[int] = (0, 1),
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the codes of examples.

        Parameters
        ----------
        estimator : NarrowVAE
            A fitted one.
        X : array or data frame
            Examples.
        y : array (N,), optional
            A label per example.
        dimensions : (int, int)
            Two dimensions, counted from 0.
        ax : Axes, optional
            See `plot`.
        **kwargs
            Passed to matplotlib's `scatter`.
        """
        found = fitted(estimator)
        pair = _pair(found.model_.n, dimensions)
        codes = found.transform(X)
        labels = None if y is None else _labels(y, len(codes), "X")
        name = getattr(y, "name", None)
        display = cls(codes=codes[:, pair], dimensions=pair, y=labels, label="y" if name is None else str(name))
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_run(
        cls,
        folder: AnyRun,
        y: Any = None,
        *,
        dimensions: Sequence[int] = (0, 1),
        data: Data | None = None,
        trust_data: bool = False,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the codes of test inputs, up to 1,000 of them, evenly spaced.

        Parameters
        ----------
        folder : path or RunFolder
            The run's folder.
        y : array or str, optional
            A label for every example of the data, or the name of a factor of a named set or of a column of a table.
        dimensions : (int, int)
            Two dimensions, counted from 0.
        data : Data, optional
            The data that the run was trained on; read again by default.
        trust_data : bool
            Read the data that the run names even if its model has no fingerprint of them.
        ax : Axes, optional
            See `plot`.
        **kwargs
            Passed to matplotlib's `scatter`.
        """
        run = opened(folder, data, trust_data)
        assert run.data is not None
        assert run.heldout is not None
        pair = _pair(run.trained.model.n, dimensions)
        name = y if isinstance(y, str) else getattr(y, "name", None)
        labels = None
        if isinstance(y, str):
            labels = _named(run, y)
        elif y is not None:
            labels = _labels(y, len(run.data.examples), run.data.name)[run.heldout.index]
        codes = run.heldout.codes[:, pair]
        display = cls(codes=codes, dimensions=pair, y=labels, label="y" if name is None else str(name))
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the points and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default in a new figure.
        **kwargs
            Passed to matplotlib's `scatter`.
        """
        self.figure_, (self.ax_,) = axes_for(ax, 1, 1, (6, 4.4))
        self.legend_ = self.colorbar_ = None
        style = {"s": 14, "alpha": 0.8, "linewidths": 0, **kwargs}
        first, second = self.codes.T
        if self._numbers is None:
            self.scatters_ = [self.ax_.scatter(first, second, **{"color": PALETTE[BLUE], **style})]
        elif self.levels is None:
            self._plot_amounts(first, second, self._numbers, style)
        else:
            self._plot_levels(first, second, self._numbers, self.levels, style)
        self.ax_.set_xlabel(f"dimension {self.dimensions[0] + 1}")
        self.ax_.set_ylabel(f"dimension {self.dimensions[1] + 1}")
        plain(self.ax_)
        self.ax_.set_axisbelow(True)
        return self

    def _plot_amounts(self, first: Any, second: Any, amounts: np.ndarray, style: dict[str, Any]) -> None:
        known = np.isfinite(amounts)
        points = self.ax_.scatter(first[known], second[known], **{"c": amounts[known], "cmap": "viridis", **style})
        self.scatters_ = [points]
        if not known.all():
            self.scatters_.append(self.ax_.scatter(first[~known], second[~known], color=PALETTE[GREY], **style))
        self.colorbar_ = self.figure_.colorbar(points, ax=self.ax_)
        self.colorbar_.set_label(self.label, parse_math=False)

    def _plot_levels(
        self, first: Any, second: Any, places: np.ndarray, levels: list[str], style: dict[str, Any]
    ) -> None:
        colours = _colours(levels)
        self.scatters_ = [
            self.ax_.scatter(first[places == i], second[places == i], **{"color": colours[i], **style})
            for i in range(len(levels))
        ]
        names = list(map(name_of, levels))
        columns = 1 if len(levels) <= 12 else 2
        self.legend_ = name_lines(
            self.ax_,
            self.scatters_,
            names,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            ncols=columns,
            markerscale=1.6,
        )
        self.legend_.set_title(name_of(self.label))
        self.legend_.get_title().set_parse_math(False)


def _levels(y: np.ndarray) -> tuple[list[str] | None, np.ndarray]:
    """Return categories and each label's place among them; or None and the labels as amounts."""
    if (y.dtype.kind in "iu" and len(np.unique(y)) > MOST_LEVELS) or y.dtype.kind == "f":
        return None, y.astype(np.float64)
    missing = np.array([_is_missing(one) for one in y.tolist()])
    known = y[~missing]
    if y.dtype.kind not in "biu":
        known = known.astype(str)
    found, places = np.unique(known, return_inverse=True)
    if len(found) > MOST_LEVELS:
        raise NarrowsError(
            f"y has {len(found):,} different labels, and at most {MOST_LEVELS} colours can be told apart; group them, "
            f"or give numbers"
        )
    levels = [printable(one) for one in found.tolist()]
    numbers = np.full(len(y), len(levels))
    numbers[~missing] = places
    return ([*levels, MISSING] if missing.any() else levels), numbers


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def _colours(levels: Sequence[str]) -> list[Any]:
    """Return a colour per level: those of the charts, or more of matplotlib's; what is missing is grey."""
    count = len(levels) - (levels[-1] == MISSING)
    few = [colour for place, colour in enumerate(PALETTE) if place != GREY]
    if count > len(few):
        from matplotlib import colormaps

        wide = 10 if count <= 10 else 20
        return [*(colormaps[f"tab{wide}"](place) for place in range(count)), PALETTE[GREY]]
    return [*few[:count], PALETTE[GREY]]


def _pair(n: int, dimensions: Sequence[int]) -> tuple[int, int]:
    """Return the two dimensions; raise if there are none such."""
    if n < 2:
        raise NarrowsError(f"codes are drawn in two dimensions, and the model has {n}; use a smaller tau")
    words = f"two different whole numbers below {n}"
    found = several("dimensions", dimensions, whole_below(n), words, lengths=(2,))
    if found[0] == found[1]:
        raise NarrowsError(f"dimensions must be {words}; it is {brief(dimensions)}")
    return found[0], found[1]


def _labels(y: Any, count: int, of: str) -> np.ndarray:
    """Return labels as an array; raise if there is not one per example."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != count:
        raise NarrowsError(f"y must have one label per example of {of}, {count:,}; its shape is {labels.shape}")
    return labels


def _named(run: OpenedRun, name: str) -> np.ndarray:
    """Return the labels of the test inputs by name: a factor of a named set, or a column of a table."""
    assert run.data is not None
    assert run.heldout is not None
    factors, index = run.data.factors, run.heldout.index
    if factors is not None and name in factors.names:
        place = factors.names.index(name)
        factor = factors.factors[place]
        if factor.value_names:
            return np.asarray(factor.value_names)[factors.of(index)[:, place]]
        return factors.values_of(index)[:, place]
    if name in run.data.columns:
        return run.data.exact.batch(index)[:, run.data.columns.index(name)].double().numpy()
    known = [*(factors.names if factors is not None else ()), *run.data.columns]
    has = f"it has {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}" if known else "it has none"
    raise NarrowsError(
        f"y must be labels, or the name of a factor or column of {run.data.name}; {has}, and not {brief(name)}"
        f"{did_you_mean(name, known)}"
    )
