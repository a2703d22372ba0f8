"""A run in a terminal: the report's four charts in characters, the latest numbers, the last decisions.

A terminal without UTF-8 gets points instead of braille, and Greek letters by their names.
"""

from textwrap import wrap

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from narrows._util.text import printable
from narrows.report import text
from narrows.report.figures.charts import run_charts
from narrows.report.figures.terminal import draw_charts, spelt
from narrows.report.live.follow import Snapshot, View, pace

DECISIONS = 3
"""The number of decisions shown."""


class LiveView(View):
    """A view in a terminal, in which each drawing replaces the one before."""

    animated = False
    """Whether it moves between two drawings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live: Live | None = None

    def update(self, drawn: RenderableType) -> None:
        """Show a drawing."""
        if self.live is None:
            self.live = Live(console=self.console, auto_refresh=self.animated)
            self.live.start()
        self.live.update(drawn, refresh=True)

    def close(self) -> None:
        """Leave the last drawing on the screen and give the cursor back."""
        if self.live is not None:
            self.live.stop()
        self.live = None


class Screen(LiveView):
    """Snapshots in a terminal, each in place of the one before."""

    name = "curves"

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot."""
        width, height = self.console.size
        braille = self.console.encoding.lower().startswith("utf")
        self.update(draw(snapshot, width, height, braille))


def draw(snapshot: Snapshot, width: int, height: int, braille: bool = True) -> Text:
    """Return a snapshot on `width` columns and fewer than `height` lines."""
    lines = [(f"{snapshot.top}: {snapshot.part}" if snapshot.part else str(snapshot.top), "bold")]
    lines.append((state(snapshot), "yellow" if snapshot.is_silent() else ""))
    below: list[str] = []
    run = snapshot.run
    if run is not None and run.rows:
        lines.append((text.metrics_line(run.config, run.rows[-1]), ""))
        below = [text.decision(row) for row in run.decisions[-DECISIONS:]]
    drawn = [
        Text(part, style=style)
        for line, style in lines
        for part in wrap(spelt(printable(line, None), braille), width, break_on_hyphens=False)
    ]
    if run is not None and run.rows:
        room = height - 1 - len(drawn) - len(below)  # one line is the cursor's
        drawn += draw_charts(run_charts(run), width, room, braille)
    drawn += [Text(spelt(printable(line, None), braille)) for line in below]
    for line in drawn:
        line.truncate(width)
    return Text("\n", no_wrap=True, overflow="crop").join(drawn)


def state(snapshot: Snapshot) -> str:
    """Return how far a run is, how fast, and when it last wrote something."""
    where, run = "no metrics yet", snapshot.run
    if run is not None and run.rows:
        where = text.batch_of(run.rows[-1].step, run.config.steps)
    if snapshot.ended:
        return f"{where}, ended"
    if snapshot.is_silent():
        return f"{where}, {no_news(snapshot)}"
    return f"{where}{pace(snapshot.rows)}, updated {snapshot.age():.0f} s ago"


def no_news(snapshot: Snapshot) -> str:
    """Return since when a run has been silent, and the command that continues it."""
    since = text.duration(snapshot.age())
    return f"no news for {since}; if it was stopped, continue it with `{text.resume_command(snapshot.folder)}`"
