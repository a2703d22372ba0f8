"""How training went: the four curves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from narrows._util.checks import argument, one_of
from narrows._util.errors import NarrowsError
from narrows.recipes.registry import RECIPES, RecipeName
from narrows.report.displays.drawing import axes_for, name_above
from narrows.report.displays.fitted import fitted
from narrows.report.displays.runs import AnyRun, contents_of, path_of
from narrows.report.figures.charts import curve_charts
from narrows.report.figures.figure_files import draw_chart
from narrows.report.figures.gate_lines import open_counts
from narrows.runs.records import MetricRow, as_history

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class NarrowingDisplay:
    """The error with tau, the open gates, the multiplier lambda and the tolerance hits, over the batches.

    Make it with `from_estimator` or `from_run`.

    Parameters
    ----------
    history : dict of lists
        The columns of metrics.csv, as in `NarrowVAE.history_`: step, error, watched, gate_sum, open, lambda, hits, ...
    recipe : "fast", "paper" or "plain"
        The recipe, which decides which curves there are.
    n_components : int
        Latent dimensions at the start.
    tau : float, optional
        The promise.
    open_gates : (list, list), optional
        The batches at which the number of open gates changed, and the numbers; by default from `history`.
    model_step : int, optional
        The batch after which the saved model was taken.

    Attributes
    ----------
    axes_ : list of 4 Axes
        Error, gates, multiplier and hits.
    lines_ : list of 4 lists of Line2D
        The curves in each of `axes_`, and then its straight lines: tau and the saved model.
    figure_ : Figure
    """

    axes_: "list[Axes]"
    figure_: "Figure"
    lines_: "list[list[Line2D]]"

    def __init__(
        self,
        *,
        history: Mapping[str, Sequence[Any]],
        recipe: RecipeName,
        n_components: int,
        tau: float | None = None,
        open_gates: tuple[Sequence[int], Sequence[int]] | None = None,
        model_step: int | None = None,
    ) -> None:
        self.history = history
        self.recipe = recipe
        self.n_components = n_components
        self.tau = tau
        self.open_gates = open_gates
        self.model_step = model_step

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw how a fitted `NarrowVAE` was trained.

        Parameters
        ----------
        estimator : NarrowVAE
            A fitted one.
        ax : Axes or 4 of them, optional
            See `plot`.
        """
        found = fitted(estimator)
        result = found.result_
        display = cls(
            history=found.history_,
            recipe=found.recipe,
            n_components=result.n,
            tau=result.tau,
            model_step=result.model_step,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_run(cls, folder: AnyRun, *, ax: Any = None) -> Self:
        """Draw how a run was trained, or is being trained.

        Parameters
        ----------
        folder : path or RunFolder
            The run's folder.
        ax : Axes or 4 of them, optional
            See `plot`.
        """
        run = contents_of(folder)
        if not run.rows:
            raise NarrowsError(f"{path_of(run)} has no metrics yet; wait for its first row, or continue the run")
        n = run.n or max(row.open for row in run.rows)
        display = cls(
            history=as_history(run.rows),
            recipe=run.config.recipe,
            n_components=n,
            tau=run.tau,
            open_gates=None if run.recipe.samples_gates else open_counts(run.decisions, n, run.rows[-1].step),
            model_step=None if run.result is None else run.result.model_step,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the curves and return the display.

        Parameters
        ----------
        ax : Axes or 4 of them, optional
            Where to draw; one is divided. By default in a new figure.
        """
        argument("recipe", self.recipe, one_of(RECIPES))
        rows = [MetricRow(*cells) for cells in zip(*self.history.values(), strict=True)]
        if not rows:
            raise NarrowsError("history has no rows; train for more batches")
        counts = self.open_gates or ([0, *(row.step for row in rows)], [self.n_components, *(row.open for row in rows)])
        drawn = curve_charts(rows, RECIPES[self.recipe], self.n_components, self.tau, counts, self.model_step)
        self.figure_, self.axes_ = axes_for(ax, 4, 2, (10, 5.6))
        self.lines_ = []
        for axes, chart in zip(self.axes_, drawn, strict=True):
            lines = draw_chart(axes, chart, legend=False)
            names = [series.name for series in chart.series] + [rule.name for rule in chart.rules]
            if len(names) > 1 and all(names):
                name_above(axes, lines, names)
            self.lines_.append(lines)
        return self
