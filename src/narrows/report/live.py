"""Training, seen from its own process: a live line or, with --live, the curves; plain lines outside a terminal."""

import contextlib
import os
import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from narrows.report.following import Follower
from narrows.report.live_page import Budget, PageDisplay
from narrows.report.screen import curves, has_braille, joined
from narrows.report.words import batch_of, facts, plural
from narrows.runs import HeldOut, MetricRow
from narrows.training.config import TrainConfig
from narrows.training.display import Display, Several

PLAIN_SECONDS = 10.0
"""How often the plain display prints a line."""
CURVE_SECONDS = 1.0
"""How often the curves are drawn, at most."""


class PlainDisplay(Display):
    """One line every ten seconds, for logs and pipes."""

    def __init__(self) -> None:
        self.loads = PlainLoading()

    def loading(self, what: str, done: int, total: int) -> None:
        """Print how far loading is, now and then."""
        self.loads(what, done, total)

    def stage(self, line: str) -> None:
        """Print what begins now."""
        self._say(line)

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Print the header."""
        self.config = config
        self.pace = Pace(step)
        self.last = -PLAIN_SECONDS
        self.waiting = ""
        for line in lines:
            self._say(line)
        if step:
            self._say(f"going on after batch {step:,}")

    def row(self, row: MetricRow) -> None:
        """Print the row, if the last one is old enough."""
        speed = self.pace.tell(row.step)
        self.waiting = f"{batch_of(row.step, self.config.steps)}: {facts(row, self.config)}, {speed}"
        if time.monotonic() - self.last >= PLAIN_SECONDS:
            self.end()

    def end(self) -> None:
        """Print the last row, if it was not printed yet."""
        if self.waiting:
            self._say(self.waiting)
        self.last, self.waiting = time.monotonic(), ""

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """Print what was saved."""
        self._say(kept_line(step, dims, validation, self.config))

    def _say(self, line: str) -> None:
        """Print a line; where nobody reads any more (a closed pipe, a full disk), training goes on in silence."""
        with contextlib.suppress(OSError):
            print(line, flush=True)


class LiveDisplay(Display):
    """A progress bar, and below it the error, the gates, the multiplier and the hits."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False)
        self.loads = LiveLoading()

    def loading(self, what: str, done: int, total: int) -> None:
        """Move the bar of whatever is loading."""
        self.loads(what, done, total)

    def loaded(self) -> None:
        """Leave the bars on the screen."""
        self.loads.close()

    def stage(self, line: str) -> None:
        """Print what begins now."""
        self.console.print(line, style="bold")

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Print the header and start the bar."""
        self.config = config
        self.pace = Pace(step)
        for line in lines:
            self.console.print(line)
        self.bar = Progress(
            TextColumn("{task.fields[where]}"),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        total = None if config.steps == "auto" else config.steps
        self.task = self.bar.add_task("", total=total, completed=step, where=batch_of(step, config.steps))
        self.facts = Text("starting")
        self.live = Live(console=self.console)
        self._show()
        self.live.start()

    def row(self, row: MetricRow) -> None:
        """Move the bar."""
        where = batch_of(row.step, self.config.steps)
        self.bar.update(self.task, completed=row.step, description=self.pace.tell(row.step), where=where)
        self.facts = Text(facts(row, self.config))
        self._show()

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """Print what was saved above the bar."""
        self.console.print(kept_line(step, dims, validation, self.config))

    def end(self) -> None:
        """Leave the last state of the bar on the screen."""
        self.live.stop()

    def _show(self) -> None:
        self.live.update(Group(self.bar, self.facts))


class CurvesDisplay(LiveDisplay):
    """The same with the report's curves and the last decisions below it, read from the run's folder."""

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Print the header and start the bar."""
        self.budget = Budget(CURVE_SECONDS)
        self.below = Text("")
        self.follower: Follower | None = None
        self.given_up = self.folder is None
        self._draw()
        super().begin(config, lines, step)

    def row(self, row: MetricRow) -> None:
        """Move the bar, and draw the curves if it is time."""
        if self.budget.due():
            self._draw()
        super().row(row)

    def end(self) -> None:
        """Leave the last state of all on the screen."""
        self._draw()
        self._show()
        super().end()

    def _show(self) -> None:
        self.live.update(Group(self.bar, self.facts, self.below))

    def _draw(self) -> None:
        """Draw the curves; should that fail, the run goes on with the bar alone."""
        if self.given_up or self.folder is None:
            return
        try:
            with self.budget.spend():
                self.follower = self.follower or Follower(self.folder.path)
                width, height = self.console.size
                lines = curves(self.follower.look(), width, height - 2, has_braille(self.console))
                self.below = joined(lines, width)
        except Exception as error:
            self.given_up, self.below = True, Text("")
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"narrows: warning: the curves are left out from now on ({reason})", file=sys.stderr)


class PlainLoading:
    """A line when some loading begins, and then every ten seconds."""

    def __init__(self) -> None:
        self.what, self.last = "", 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of how far it is."""
        if what != self.what or time.monotonic() - self.last >= PLAIN_SECONDS:
            share = f" ({done / total:.0%})" if total and what == self.what else ""
            self.what, self.last = what, time.monotonic()
            with contextlib.suppress(OSError):
                print(f"{what}{share}", flush=True)

    def close(self) -> None:
        """Nothing stays open."""


class LiveLoading:
    """A bar for each thing that is loaded."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Move the bar of `what`."""
        if self.bar is None:
            self.bar = Progress(TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn())
            self.bar.start()
        if what not in self.tasks:
            self.tasks[what] = self.bar.add_task(what, total=None)
        self.bar.update(self.tasks[what], completed=done, total=total or None)

    def close(self) -> None:
        """Leave the bars as they are."""
        if self.bar is not None:
            self.bar.stop()
        self.bar, self.tasks = None, {}


class Pace:
    """Batches a second since training began or went on."""

    def __init__(self, step: int) -> None:
        self.step, self.time = step, time.monotonic()

    def tell(self, step: int) -> str:
        """Return the pace so far, as a phrase."""
        return f"{(step - self.step) / max(time.monotonic() - self.time, 1e-9):.1f} batches/s"


def kept_line(step: int, dims: int, validation: HeldOut, config: TrainConfig) -> str:
    """Say which model was saved and why."""
    return (
        f"batch {step:,}: saved a model of {plural(dims, 'dimension')}, validation error {validation.error:.4g} "
        f"(95% up to {validation.high:.4g})" + ("" if config.tau is None else f" <= tau {config.tau:g}")
    )


def is_first_process() -> bool:
    """Tell whether this process speaks for all of a run's (the variable is that of torchrun and accelerate)."""
    return os.environ.get("RANK", "0") == "0"


def make_display(live: bool = False) -> Display:
    """Return the live display on a terminal, the plain one elsewhere, a silent one in all processes but the first.

    With `live` it has the curves, and the run's page is written while it trains.
    """
    if not is_first_process() or sys.stdout is None:
        return Display()
    terminal = sys.stdout.isatty()
    if not live:
        return LiveDisplay() if terminal else PlainDisplay()
    return Several(PageDisplay(), CurvesDisplay() if terminal else PlainDisplay())


def make_loading() -> PlainLoading | LiveLoading:
    """Return the bars on a terminal, plain lines elsewhere."""
    return LiveLoading() if sys.stdout is not None and sys.stdout.isatty() else PlainLoading()
