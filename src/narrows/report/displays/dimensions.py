"""What each dimension is worth: a scree plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from narrows._util.errors import NarrowsError
from narrows.report.displays.drawing import axes_for
from narrows.report.displays.fitted import fitted
from narrows.report.displays.runs import AnyRun, answer_of, contents_of
from narrows.report.figures.charts import costs_chart, first_chart
from narrows.report.figures.figure_files import draw_chart
from narrows.runs.records import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class DimensionDisplay:
    """The error of decoding only the first k dimensions, with tau, beside the cost of removing each dimension.

    Make it with `from_estimator` or `from_run`. The errors are measured on test inputs, not added up.

    Parameters
    ----------
    errors_of_first : array (n_components + 1,)
        The error with the first k dimensions, for k from 0 on.
    cost : array (n_components,)
        How much the error rises when a dimension is removed; largest first.
    tau : float, optional
        The promise.

    Attributes
    ----------
    axes_ : list of 2 Axes
        The errors, and the costs.
    line_, cost_line_ : Line2D
        The errors, and the costs.
    tau_line_ : Line2D or None
    figure_ : Figure
    """

    axes_: "list[Axes]"
    figure_: "Figure"
    line_: "Line2D"
    cost_line_: "Line2D"
    tau_line_: "Line2D | None"

    def __init__(self, *, errors_of_first: Sequence[float], cost: Sequence[float], tau: float | None = None) -> None:
        self.errors_of_first = np.asarray(errors_of_first, np.float64)
        self.cost = np.asarray(cost, np.float64)
        self.tau = tau

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw what each dimension of a fitted `NarrowVAE` is worth.

        Parameters
        ----------
        estimator : NarrowVAE
            A fitted one.
        ax : Axes or 2 of them, optional
            See `plot`.
        """
        return cls._of(fitted(estimator).result_).plot(ax=ax)

    @classmethod
    def from_run(cls, folder: AnyRun, *, ax: Any = None) -> Self:
        """Draw what each dimension of a run's model is worth.

        Parameters
        ----------
        folder : path or RunFolder
            The folder of a run that has ended.
        ax : Axes or 2 of them, optional
            See `plot`.
        """
        return cls._of(answer_of(contents_of(folder))).plot(ax=ax)

    @classmethod
    def _of(cls, result: Result) -> Self:
        costs = [dimension.cost for dimension in result.dimensions]
        return cls(errors_of_first=result.errors_of_first, cost=costs, tau=result.tau)

    def plot(self, ax: Any = None) -> Self:
        """Draw errors and costs and return the display.

        Parameters
        ----------
        ax : Axes or 2 of them, optional
            Where to draw; one is divided. By default in a new figure.
        """
        if not len(self.errors_of_first):
            raise NarrowsError("the answer has no errors_of_first; train again, or continue the run, to measure them")
        scree = first_chart(self.errors_of_first.tolist(), self.tau)
        cost = costs_chart([(0, "", self.cost.tolist())])
        self.figure_, self.axes_ = axes_for(ax, 2, 2, (9, 3.6))
        most = len(self.errors_of_first) - 1
        self.line_, *rules = draw_chart(self.axes_[0], scree)
        self.tau_line_ = rules[0] if rules else None
        self.axes_[0].set_xlim(-0.04 * most, 1.04 * most or 1)
        if self.tau_line_ is not None:
            self.axes_[0].legend(handles=[self.tau_line_], loc="upper right", frameon=False, fontsize=9)
        (self.cost_line_,) = draw_chart(self.axes_[1], cost)
        return self
