"""A run in a terminal: the report's four charts drawn with characters, the latest numbers, the last decisions.

The charts are those of the page (`charts.run_charts`), so that both show the same. Everything is made for a given
number of columns and lines: two charts beside each other from 56 columns on, one below the other otherwise. A terminal
that knows no braille gets points and colons, and Greek letters by their names.
"""

from collections.abc import Iterator
from itertools import groupby, zip_longest
from textwrap import wrap

from rich.console import Console
from rich.text import Text

from narrows.report import words
from narrows.report.charts import Chart, run_charts
from narrows.report.dots import Curve, Frame, draw
from narrows.report.following import SILENCE, Sight

TWO_COLUMNS = 56
LABEL = 7
"""Columns for the numbers at a chart's axis."""
LEAST, MOST = 2, 12
"""Lines of a chart."""
DECISIONS = 3
"""Shown, the last ones."""
COLOURS = {0: "bright_blue", 1: "yellow", 2: "green", 6: "bright_black"}
SPELT = str.maketrans({"λ": "lambda", "′": "'", "τ": "tau", "π": "pi", "–": "-"})


def has_braille(console: Console) -> bool:
    """Tell whether a terminal can show more than ASCII."""
    return console.encoding.lower().startswith("utf")


def view(sight: Sight, width: int, height: int, braille: bool = True, silence: float = SILENCE) -> Text:
    """Return a run as it stands, on so many columns and lines."""
    title = f"{sight.top}: {sight.part}" if sight.part else str(sight.top)
    silent = not sight.ended and sight.age() > sight.patience(silence)
    above = [*_wrapped(title, width, braille, "bold")]
    above += _wrapped(state(sight, silence), width, braille, "yellow" if silent else "")
    if sight.rows and sight.config is not None:
        above += _wrapped(words.facts(sight.rows[-1], sight.config), width, braille)
    return joined([*above, *curves(sight, width, height - len(above), braille)], width)


def curves(sight: Sight, width: int, height: int, braille: bool = True) -> list[Text]:
    """Return only the charts and the decisions, for whoever says the rest in another way."""
    below = [Text(_spelt(line, braille)) for line in decisions(sight)]
    return [*charts(sight, width, height - 1 - len(below), braille), *below]  # one line is the cursor's


def state(sight: Sight, silence: float = SILENCE) -> str:
    """Say how far a run is, and since when there is no news if that is long."""
    if sight.rows and sight.config is not None:
        where = words.batch_of(sight.rows[-1].step, sight.config.steps)
    else:
        where = "no metrics yet"
    if sight.ended:
        return f"{where}, ended"
    if sight.age() > sight.patience(silence):
        return f"{where}, {no_news(sight)}"
    pace = sight.pace()
    return where + (f", {pace:.1f} batches/s" if pace is not None else "") + f", news {sight.age():.0f} s ago"


def no_news(sight: Sight) -> str:
    """Say that a run may have been stopped, and how to go on with it."""
    return f"no news for {words.duration(sight.age())}; if it was stopped: {words.go_on(sight.folder)}"


def decisions(sight: Sight) -> list[str]:
    """Return what the fast recipe did last, in words."""
    return [words.decision(row) for row in sight.decisions[-DECISIONS:]]


def charts(sight: Sight, width: int, height: int, braille: bool = True) -> list[Text]:
    """Return the four charts on so many columns and at most about so many lines; none before there are rows."""
    if not sight.rows:
        return []
    specs = run_charts(sight.rows, sight.tau, sight.n, None, sight.decisions)
    beside = 2 if width >= TWO_COLUMNS else 1
    down = len(specs) // beside
    tall = min(MOST, max(LEAST, (height - 1) // down - 1))
    wide = width // beside - (1 if beside == 2 else 0)
    lines: list[Text] = []
    for first in range(0, len(specs), beside):
        chosen = specs[first : first + beside]
        is_last = first + beside >= len(specs)
        columns = [list(_chart(title, spec, wide, tall, braille, is_last)) for title, spec in chosen]
        for parts in zip_longest(*columns):
            line = Text()
            for place, part in enumerate(parts):
                part.truncate(wide, pad=place + 1 < len(parts))
                line.append_text(part).append(" " if place + 1 < len(parts) else "")
            lines.append(line)
    return lines


def _chart(title: str, spec: Chart, width: int, height: int, braille: bool, axis: bool) -> Iterator[Text]:
    """Yield a chart's title with its legend, its lines, and the batches below it if asked for."""
    across = max(1, width - LABEL)
    x, y = spec["x"], spec["y"]
    rules = [rule for rule in spec["rules"] if rule["axis"] == "y"]
    made = [Curve([x["min"], x["max"]], [rule["at"]] * 2, dash=True) for rule in rules]
    made += [Curve(one["x"], one["y"], bool(one.get("step"))) for one in spec["series"]]
    known = [*rules, *spec["series"]]
    head = Text(_spelt(title, braille), style="bold")
    for one in known if len(known) > 1 else []:
        if one["name"]:
            head.append(f"  {_spelt(one['name'].partition(',')[0], braille)}", style=COLOURS.get(one["colour"], ""))
    yield head
    frame = Frame(across, height, (x["min"], x["max"]), (y["min"], y["max"]), bool(y.get("log")), braille)
    for number, line in enumerate(draw(made, frame)):
        edge = y["max"] if number == 0 else y["min"] if number == height - 1 else None
        text = Text("" if edge is None else _label(edge, y), style="bright_black")
        text.align("right", LABEL - 1)
        text.append(" ")
        for owner, cells in groupby(line, key=lambda cell: cell[1]):
            colour = COLOURS.get(known[owner]["colour"], "") if owner >= 0 else ""
            text.append("".join(character for character, _ in cells), style=colour)
        yield text
    if axis:
        end = f"{x['max']:,}"
        yield Text(" " * LABEL + f"0{end:>{max(len(end) + 1, across - 1)}}", style="bright_black")


def _label(value: float, axis: Chart) -> str:
    if axis.get("percent"):
        return f"{value:.0%}"
    return f"{int(value):,}" if axis.get("whole") else words.number(float(f"{value:.2g}"))


def _wrapped(line: str, width: int, braille: bool, style: str = "") -> list[Text]:
    return [Text(part, style=style) for part in wrap(_spelt(line, braille), width, break_on_hyphens=False)]


def _spelt(text: str, braille: bool) -> str:
    return text if braille else text.translate(SPELT).encode("ascii", "replace").decode()


def joined(lines: list[Text], width: int) -> Text:
    """Return lines as one text, each cut off where the terminal ends."""
    for line in lines:
        line.truncate(width)
    return Text("\n", no_wrap=True, overflow="crop").join(lines)
