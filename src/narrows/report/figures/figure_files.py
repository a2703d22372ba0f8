"""Charts drawn by matplotlib: curves.png and .svg of a run, which is the paper's figure 1, and front.png of a front."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._util.files import atomic_file
from narrows.report.contents import read_run
from narrows.report.figures.charts import front_chart, run_charts
from narrows.report.figures.specification import Axis, Chart
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777", "#000000")
"""The colours of specification.py."""


def draw_curves(folder: RunFolder) -> Path | None:
    """Write curves.png and curves.svg into the run folder, and return the former; None before the first row."""
    run = read_run(folder)
    if not run.rows:
        return None
    figure = draw_charts(run_charts(run))
    if run.result is not None:
        result = run.result
        verdict = "" if run.tau is None else f", τ {run.tau:g} {'met' if result.met else 'not met'}"
        title = f"{result.dims} of {result.n} dimensions; test error {result.heldout.error:.4g}{verdict}"
        figure.suptitle(title, fontsize=11)
    return save(figure, folder.figure)


def draw_front(folder: FrontFolder, results: list[Result]) -> Path:
    """Write front.png and front.svg, dimensions against tau, and return the former."""
    figure = draw_charts([front_chart(results)], (7, 4.2))
    figure.axes[0].set_title("filled: τ is met on test data; hollow: it is not", fontsize=9)
    return save(figure, folder.figure)


def draw_charts(charts: Sequence[Chart], size: tuple[float, float] = (8, 8.6)) -> "Figure":
    """Return a figure with charts that share their x axis, one below the other."""
    figure = new_figure(*size)
    rows = figure.subplots(len(charts), 1, sharex=True, squeeze=False)
    for axes, chart in zip(rows[:, 0], charts, strict=True):
        draw_chart(axes, chart)
        axes.label_outer()
    return figure


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_chart(axes: "Axes", chart: Chart, legend: bool = True) -> "list[Line2D]":
    """Draw one chart of lines, and return the lines of its series and of its rules."""
    lines = []
    for series in chart.series:
        colour, style = PALETTE[series.colour], "--" if series.dash else "-"
        (line,) = axes.plot(series.x, series.y, style, color=colour, label=series.name or None)
        lines.append(line)
        line.set(linewidth=0.9 if series.thin else 1.2, drawstyle="steps-post" if series.step else "default")
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True) if series.marks else ()):
            fill = "white" if series.hollow and series.hollow[i] else colour
            axes.plot(x, y, "o", color=colour, markerfacecolor=fill, markersize=6)
            if series.labels:
                axes.annotate(series.labels[i], (x, y), (5, 5), textcoords="offset points", ha="left")
    for rule in chart.rules:
        draw = axes.axhline if rule.axis == "y" else axes.axvline
        style = "--" if rule.dash else "-"
        lines.append(draw(rule.at, color=PALETTE[rule.colour], linestyle=style, linewidth=1, label=rule.name))
    for name, axis in (("x", chart.x), ("y", chart.y)):
        axes.set(**{f"{name}lim": (axis.min, axis.max), f"{name}label": axis.label})
        if axis.log:
            axes.set(**{f"{name}scale": "log"})
        _format_ticks(getattr(axes, f"{name}axis"), axis)
    plain(axes)
    names = [series.name for series in chart.series] + [rule.name for rule in chart.rules]
    if legend and len([name for name in names if name]) > 1:
        axes.legend(loc="upper right", frameon=False, fontsize=9)
    return lines


def _format_ticks(ticks: Any, axis: Axis) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogFormatter, MaxNLocator, PercentFormatter

    if axis.log:
        ticks.set_major_formatter(FormatStrFormatter("%g"))
        ticks.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    elif axis.percent:
        ticks.set_major_formatter(PercentFormatter(1.0))
    elif axis.whole:
        ticks.set_major_locator(MaxNLocator(integer=True))


def plain(axes: "Axes") -> None:
    """Give axes a light grid and no frame."""
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure as .png and as .svg, each completely or not at all; return the path of the former."""
    for one in (path, path.with_suffix(".svg")):
        with atomic_file(one) as file:
            figure.savefig(file, dpi=150, format=one.suffix[1:])
    return path
