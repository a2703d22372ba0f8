"""Charts drawn with characters for a terminal: title with legend, braille or points, the ends of both axes."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.text import Text

from narrows.report import text
from narrows.report.figures.braille import Frame, draw
from narrows.report.figures.specification import BLUE, GREEN, GREY, ORANGE, Axis, Chart, Series

TWO_COLUMNS = 56
"""From this width on, two charts stand beside each other."""
LABEL = 7
"""Columns for the numbers at a chart's axis."""
LEAST, MOST = 2, 12
"""Lines of a chart."""
COLOURS = {BLUE: "bright_blue", ORANGE: "yellow", GREEN: "green", GREY: "bright_black"}
SPELT = str.maketrans({"λ": "lambda", "′": "'", "τ": "tau", "π": "pi", "–": "-"})


def draw_charts(charts: Sequence[Chart], width: int, height: int, braille: bool = True) -> list[Text]:
    """Return the charts on `width` columns and about `height` lines at most."""
    beside = 2 if width >= TWO_COLUMNS else 1
    tall = min(MOST, max(LEAST, (height - 1) // (len(charts) // beside) - 1))
    wide = width // beside - (beside - 1)
    lines: list[Text] = []
    for first in range(0, len(charts), beside):
        is_last = first + beside >= len(charts)
        columns = [list(_draw_chart(chart, wide, tall, braille, is_last)) for chart in charts[first : first + beside]]
        for parts in zip_longest(*columns):
            for part in parts[:-1]:
                part.truncate(wide, pad=True)
            lines.append(Text(" ").join(parts))
    return lines


def spelt(line: str, braille: bool) -> str:
    """Return a line as it is, or in ASCII for a terminal that has no braille either."""
    return line if braille else line.translate(SPELT).encode("ascii", "replace").decode()


def _draw_chart(chart: Chart, width: int, height: int, braille: bool, with_axis: bool) -> Iterator[Text]:
    across, x, y = max(1, width - LABEL), chart.x, chart.y
    rules = [rule for rule in chart.rules if rule.axis == "y"]
    curves = [Series(rule.name, [x.min, x.max], [rule.at] * 2, rule.colour, dash=True) for rule in rules]
    curves += chart.series
    head = Text(spelt(chart.title, braille), style="bold")
    for one in curves if len(curves) > 1 else []:
        head.append(f"  {spelt(one.name.partition(',')[0], braille)}", style=COLOURS.get(one.colour, ""))
    yield head
    frame = Frame(across, height, (x.min, x.max), (y.min, y.max), y.log, braille)
    for number, cells in enumerate(draw(curves, frame)):
        end = y.max if number == 0 else y.min if number == height - 1 else None
        line = Text("" if end is None else _label(end, y), style="bright_black")
        line.align("right", LABEL - 1)
        line.append(" ")
        for owner, run in groupby(cells, key=lambda cell: cell[1]):
            colour = COLOURS.get(curves[owner].colour, "") if owner >= 0 else ""
            line.append("".join(character for character, _ in run), style=colour)
        yield line
    if with_axis:
        last = f"{x.max:,}"
        yield Text(" " * LABEL + f"0{last:>{max(len(last) + 1, across - 1)}}", style="bright_black")


def _label(value: float, axis: Axis) -> str:
    if axis.percent:
        return f"{value:.0%}"
    return f"{int(value):,}" if axis.whole else text.number(float(f"{value:.2g}"))
