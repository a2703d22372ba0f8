"""A result as a notebook shows it: the answer, its certificate and small curves, in one piece of HTML.

The piece has no script and loads nothing. Its style is its own and follows the notebook's theme: JupyterLab and VS Code
say which one they use, and elsewhere the browser's preference counts. What others wrote, such as names of columns, is
escaped.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment

from narrows._util import markup
from narrows.runs.answer import facts, features, headline, stopped, verdict
from narrows.runs.records import MetricRow, Result

WIDTH, HEIGHT = 300, 120
"""The size of a plot in its own unit, without the room for its labels."""
MOST_POINTS = 240
"""Points of a curve."""


@dataclass(frozen=True)
class Curve:
    """One line of a plot."""

    name: str
    points: Sequence[tuple[float, float]]
    """From left to right; a y that is not finite is left out."""
    colour: str
    """Its class in the style sheet."""
    step: bool = False
    """Whether each value holds until the next point."""


@dataclass(frozen=True)
class Plot:
    """Curves over a common axis that begins at 0, drawn as SVG by templates/cell.html."""

    title: str
    unit: str
    """What the x axis counts."""
    curves: Sequence[Curve]
    top: float
    """Where the y axis ends; what is larger is drawn there."""
    bound: float | None = None
    """Where a dashed line stands; None for no line."""

    @property
    def end(self) -> float:
        """Where the x axis ends."""
        return max((x for curve in self.curves for x, _ in curve.points), default=0) or 1.0

    def height(self, value: float) -> float:
        """Return a value's place from above."""
        share = value / self.top if self.top > 0 else 0.0
        return HEIGHT * (1 - min(max(share, 0.0), 1.0))

    def path(self, curve: Curve) -> str:
        """Return a curve as the commands of an SVG path."""
        words: list[str] = []
        for x, y in curve.points:
            if math.isfinite(y):
                across, down = f"{WIDTH * x / self.end:.1f}", f"{self.height(y):.1f}"
                start = f"M{across} {down}" if not words else f"H{across}V{down}" if curve.step else f"L{across} {down}"
                words.append(start)
        return "".join(words)

    def about(self) -> str:
        """Return what a screen reader says."""
        ends = [f"{curve.name} ends at {curve.points[-1][1]:.4g}" for curve in self.curves if curve.points]
        return f"{self.title}: {'; '.join(ends)}"


def result_cell(result: Result, rows: Sequence[MetricRow] = (), about: str = "") -> str:
    """Return a result as HTML.

    Arguments:
        result: The answer.
        rows: The run's metrics, in the unit of the result; with them the piece has curves of the training.
        about: A line about where the result comes from, shown as code.
    """
    heading, *reasons = headline(result, "train longer").split(": ", 1)
    lines = [*reasons, *([stopped(result)] if result.stopped else [])]
    plots = training_plots(result, rows) if rows else first_plots(result)
    return draw("result", heading=heading, result=result, about=about, lines=lines, plots=plots)


def front_cell(results: Sequence[Result], about: str = "") -> str:
    """Return the answers of a front as a table in HTML."""
    return draw("front", results=results, about=about)


def draw(name: str, **parts: object) -> str:
    """Return one of the pieces in templates/cell.html."""
    pieces = _environment().get_template("cell.html").module
    return str(getattr(pieces, name)(**parts))


@cache
def _environment() -> Environment:
    made = markup.environment("narrows.runs")
    made.globals.update(facts=facts, features=features, verdict=verdict, width=WIDTH, height=HEIGHT)
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    return made


def training_plots(result: Result, rows: Sequence[MetricRow]) -> list[Plot]:
    """Return the error with tau, and the open dimensions, over the batches."""
    few = list(rows[:: math.ceil(len(rows) / MOST_POINTS)])
    few += [rows[-1]] if few[-1] is not rows[-1] else []
    errors = [Curve("training error", _points(few, lambda row: row.error), "quiet")]
    if any(math.isfinite(row.watched) for row in rows):
        errors.append(Curve("held-out error", _points(few, lambda row: row.watched), "first"))
    largest = sorted(y for curve in errors for _, y in curve.points if math.isfinite(y))
    top = max(1.1 * largest[int(0.95 * (len(largest) - 1))] if largest else 0.0, 1.6 * (result.tau or 0.0))
    opened = [(0.0, result.n), *_points(few, lambda row: row.open)]
    return [
        Plot("Error per input", "batches", errors, top, result.tau),
        Plot("Open dimensions", "batches", [Curve("open dimensions", opened, "first", step=True)], result.n),
    ]


def first_plots(result: Result) -> list[Plot]:
    """Return the error of decoding only the first k dimensions; nothing where it is not known."""
    errors = result.errors_of_first
    if len(errors) < 2:
        return []
    curve = Curve("error", list(enumerate(errors)), "first")
    top = 1.1 * max([*errors, result.tau or 0.0])
    return [Plot("Error with the first k dimensions", "dimensions", [curve], top, result.tau)]


def _points(rows: Sequence[MetricRow], value: Callable[[MetricRow], float]) -> list[tuple[float, float]]:
    return [(row.step, value(row)) for row in rows]
