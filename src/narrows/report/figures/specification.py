"""The specification of a chart: what it shows, and nothing about how it is drawn.

charts.py builds charts from runs. Three renderers draw them: the page's script from the JSON of `Chart.to_dict`
(assets/report.js), matplotlib (figure_files.py), and braille characters (terminal.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY, BLACK = range(8)
"""Places in each renderer's palette: Okabe and Ito's colours, which colour-blind readers can tell apart."""
FARTHEST = 1e300
"""No axis ends beyond this."""
DIGITS = 5
"""Significant digits of the numbers in a page."""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Whatever the data are, its ends are finite and apart, and above 0 if it is logarithmic: a renderer that divides an
    axis into steps can rely on it.
    """

    label: str
    min: float
    max: float
    log: bool = False
    percent: bool = False
    whole: bool = False
    """Whether its values are whole numbers."""
    fixed: bool = False
    """Whether zooming into the x axis leaves it as it is."""

    def __post_init__(self) -> None:
        low, high = self.min, self.max
        if self.log:
            high = high if 1 / FARTHEST < high < FARTHEST else 10.0
            low = low if 1 / FARTHEST < low < high else high / 100
        else:
            low = low if abs(low) < FARTHEST else 0.0
            high = high if low < high < FARTHEST else low + (abs(low) or 1.0)
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)


@dataclass(frozen=True)
class Series:
    """A curve: points from left to right. A y that is not finite is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = BLUE
    step: bool = False
    """Whether each value holds until the next point."""
    dash: bool = False
    thin: bool = False
    marks: bool = False
    """Whether each point has a mark; the lists below then have one item per point."""
    hollow: Sequence[bool] = ()
    labels: Sequence[str] = ()
    notes: Sequence[str] = ()
    links: Sequence[str | None] = ()


@dataclass(frozen=True)
class Rule:
    """A straight line across the chart."""

    axis: Literal["x", "y"]
    at: float
    name: str
    colour: int
    dash: bool = False


@dataclass
class GateLine:
    """One gate through a run."""

    name: str
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Batches between which it was open."""
    changes: list[tuple[int, Literal["closed", "reopened"]]] = field(default_factory=list)
    """The batches at which it closed or reopened, and which of the two."""
    open: bool = True
    """Whether it is open at the end."""


@dataclass(frozen=True)
class Chart:
    """One chart."""

    title: str
    about: str
    """What a screen reader says about it."""
    x: Axis
    y: Axis
    kind: Literal["lines", "bars", "gates"] = "lines"
    series: Sequence[Series] = ()
    rules: Sequence[Rule] = ()
    edges: Sequence[float] = ()
    """bars: the edges of the bars, one more than `counts`."""
    counts: Sequence[int] = ()
    over: float | None = None
    """bars: those from here on have another colour."""
    gates: Sequence[GateLine] = ()
    """gates: one line per gate."""
    group: str = ""
    """Charts of one group share their zoom and their cursor."""
    height: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what assets/report.js draws: five digits per number, null for what is not finite."""
        return _plain(self)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        items = ((one.name, getattr(value, one.name)) for one in fields(value))
        return {name: _plain(one) for name, one in items if one is not None and one is not False and one != ()}
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
