"""Dimensions against tau."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from narrows._util.checks import path_argument
from narrows._util.errors import NarrowsError
from narrows.report.displays.drawing import axes_for
from narrows.report.displays.fitted import known
from narrows.report.figures.charts import levels_chart
from narrows.report.figures.figure_files import draw_chart
from narrows.runs.folder import resuming
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class FrontDisplay:
    """The number of dimensions against tau, one point per model; hollow points are not certified.

    Make it with `from_estimator` or `from_front`.

    Parameters
    ----------
    taus : array (k,)
        The promises, in rising order.
    dims : array (k,)
        The dimensions of each model.
    errors : array (k,)
        The error of each model on test inputs.
    met : array (k,)
        Whether each promise is certified.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    line_ : Line2D
    """

    ax_: "Axes"
    figure_: "Figure"
    line_: "Line2D"

    def __init__(
        self, *, taus: Sequence[float], dims: Sequence[int], errors: Sequence[float], met: Sequence[bool]
    ) -> None:
        self.taus = np.asarray(taus, np.float64)
        self.dims = np.asarray(dims, np.int64)
        self.errors = np.asarray(errors, np.float64)
        self.met = np.asarray(met, bool)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the front that `NarrowVAE.front` has found.

        Parameters
        ----------
        estimator : NarrowVAE
            One whose `front` was called.
        ax : Axes, optional
            See `plot`.
        """
        from sklearn.exceptions import NotFittedError

        known(estimator)
        if not hasattr(estimator, "front_"):
            raise NotFittedError("this NarrowVAE has no front_ yet; call its front(X, taus) first")
        return cls._of([one.result_ for one in estimator.front_.values()]).plot(ax=ax)

    @classmethod
    def from_front(cls, folder: FrontFolder | str | os.PathLike[str], *, ax: Any = None) -> Self:
        """Draw the front in a folder, as far as it has come.

        Parameters
        ----------
        folder : path or FrontFolder
            What `narrows front` or `narrows.train_front` has made.
        ax : Axes, optional
            See `plot`.
        """
        found = folder if isinstance(folder, FrontFolder) else FrontFolder(path_argument("folder", folder))
        results = found.read_results()
        if not results:
            raise NarrowsError(f"{found.path} has no answer yet; continue it with `{resuming(found.path)}`")
        return cls._of(results).plot(ax=ax)

    @classmethod
    def _of(cls, results: Sequence[Result]) -> Self:
        return cls(
            taus=[result.tau or 0.0 for result in results],
            dims=[result.dims for result in results],
            errors=[result.heldout.error for result in results],
            met=[result.met for result in results],
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the points and return the display.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default in a new figure.
        """
        chart = levels_chart(self.taus.tolist(), self.dims.tolist(), self.errors.tolist(), self.met.tolist())
        self.figure_, (self.ax_,) = axes_for(ax, 1, 1, (6, 3.8))
        (self.line_,) = draw_chart(self.ax_, chart)
        if not self.met.all():
            self.ax_.set_title("filled: τ is met on test data; hollow: it is not", fontsize=9)
        return self
