"""What training shows in its own process: messages as they come, and views of its own folder.

A run follows its folder as `narrows watch` does from another process. On a terminal it shows a bar with the latest
numbers, elsewhere a line every ten seconds; with --live it draws its curves in the terminal instead of the bar, and
writes its page as report.html.
"""

import contextlib
import math
import sys
import time
from collections.abc import Iterator

from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from narrows._util.console import make_console
from narrows._util.launch import is_first_process
from narrows._util.printing import print_line, shown_lines, warn
from narrows._util.progress import Progress as Show
from narrows._util.text import printable
from narrows.report import text
from narrows.report.contents import RunContents
from narrows.report.live.follow import Follower, Snapshot, View, pace
from narrows.report.live.screen import LiveView, Screen
from narrows.runs.folder import RunFolder
from narrows.runs.front import outermost
from narrows.runs.records import HeldOut, MetricRow
from narrows.training.listeners import Listener, Listeners, RunStart

PLAIN_SECONDS, BAR_SECONDS, CURVE_SECONDS = 10.0, 0.1, 1.0
"""Seconds between two plain lines, two moves of the bar, and two drawings of the curves, at least."""
SHARE = 1 / 50
"""The share of a run's time that a view may take."""


class Messages(Listener):
    """What is said once: stages, the header, saved models."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console

    def stage(self, line: str) -> None:
        """Print which training begins."""
        self._print(line, style="bold")

    def begin(self, run: RunStart) -> None:
        """Print the header."""
        self.config = run.config
        for line in [*run.header, *([f"continuing after batch {run.step:,}"] if run.step else [])]:
            self._print(line)

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """Print which model was saved and why."""
        bound = "" if self.config.tau is None else f" <= tau {self.config.tau:g}"
        self._print(
            f"batch {step:,}: saved a model with {text.plural(dims, 'dimension')}, validation error "
            f"{validation.error:.4g} (expected on the test split: at most {validation.high:.4g}){bound}"
        )

    def _print(self, line: str, style: str = "") -> None:
        if self.console is None:
            print_line(line)
        else:
            with contextlib.suppress(OSError):  # a terminal that is gone
                self.console.print(shown_lines(line), style=style)


class Lines(View):
    """The latest row of metrics as a line, for logs and pipes."""

    name = "lines"

    def __init__(self) -> None:
        self.printed: MetricRow | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Print the latest row, unless it was printed before."""
        run = snapshot.run
        if run is not None and run.rows and run.rows[-1] != self.printed:
            self.printed = run.rows[-1]
            where = text.batch_of(self.printed.step, run.config.steps)
            print_line(f"{where}: {text.metrics_line(run.config, self.printed)}{pace(run.rows)}")


class Bar(LiveView):
    """A progress bar with the latest row of metrics below it."""

    name, animated = "bar", True

    def show(self, snapshot: Snapshot) -> None:
        """Move the bar."""
        if snapshot.run is not None:
            self.draw(snapshot.run)

    def draw(self, run: RunContents) -> None:
        """Move the bar to where a run is."""
        row, steps = run.rows[-1] if run.rows else None, run.config.steps
        if self.live is None:
            self.bar = Progress(
                TextColumn("{task.fields[where]}"),
                BarColumn(bar_width=16),
                TaskProgressColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                TextColumn("left"),
            )
            self.task = self.bar.add_task("", total=None if steps == "auto" else steps, where="")
        done = 0 if row is None else row.step
        speed = pace(run.rows).removeprefix(", ")
        self.bar.update(self.task, completed=done, description=speed, where=text.batch_of(done, steps))
        below = "starting" if row is None else text.metrics_line(run.config, row)
        self.update(Group(self.bar, Text(below)))


class Following(Listener):
    """Shows a run from its own folder. If its view fails, that is one warning and training goes on."""

    def __init__(self, view: View, budget: "Budget") -> None:
        self.view, self.budget = view, budget
        self.folder: RunFolder | None = None
        self.follower: Follower | None = None
        self.failed = False

    def begin(self, run: RunStart) -> None:
        """Show the first snapshot."""
        self.folder = run.folder
        self._show()

    def row(self, row: MetricRow) -> None:
        """Show a snapshot, if it is time."""
        if self.budget.is_due():
            self._show()

    def end(self) -> None:
        """Show the last snapshot."""
        self._show(at_end=True)

    def _show(self, at_end: bool = False) -> None:
        if self.failed or self.folder is None:
            return
        try:
            top = outermost(self.folder)
            if self.follower is None or self.follower.top != top:
                self.follower = Follower(top)
            with self.budget.spend():
                snapshot = self.follower.look()
                if at_end:
                    self.view.end(snapshot, stopped=not self.folder.result.exists())
                    self.view.close()
                else:
                    self.view.show(snapshot)
            if not snapshot.rows:
                self.budget.reset()  # the first row is shown at once
        except Exception as error:
            self.failed = True
            self.view.close()
            warn(f"training goes on without the {self.view.name} ({type(error).__name__}: {error})")


class Budget:
    """Says when to show the next snapshot: not before `every` seconds, and at most `share` of the time in all."""

    def __init__(self, every: float, share: float = SHARE) -> None:
        self.every, self.share = every, share
        self.reset()

    def reset(self) -> None:
        """Let the next snapshot be shown at once."""
        self.next = -math.inf

    def is_due(self) -> bool:
        """Return whether it is time."""
        return time.monotonic() >= self.next

    @contextlib.contextmanager
    def spend(self) -> Iterator[None]:
        """Measure the time that the block takes, and set the next time accordingly."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.next = start + max(self.every, (time.monotonic() - start) / self.share)


class LoadingLines(Listener):
    """A line when some loading begins, and then every ten seconds."""

    def __init__(self) -> None:
        self.what, self.last = "", 0.0

    def loading(self, what: str, done: int, total: int) -> None:
        """Print how far `what` is, if it is time."""
        what = printable(what)
        if what != self.what or time.monotonic() - self.last >= PLAIN_SECONDS:
            share = f" ({done / total:.0%})" if total and what == self.what else ""
            self.what, self.last = what, time.monotonic()
            print_line(f"{what}{share}")


class LoadingBars(Listener):
    """One bar per thing that is loaded."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def loading(self, what: str, done: int, total: int) -> None:
        """Move the bar of `what`."""
        what = printable(what)
        if self.bar is None:
            what_column = TextColumn("{task.description}", markup=False)
            self.bar = Progress(what_column, BarColumn(bar_width=24), TaskProgressColumn(), console=make_console())
            self.bar.start()
        if what not in self.tasks:
            self.tasks[what] = self.bar.add_task(what, total=None)
        self.bar.update(self.tasks[what], completed=done, total=total or None)

    def loaded(self) -> None:
        """Leave the bars as they are."""
        if self.bar is not None:
            self.bar.stop()
        self.bar, self.tasks = None, {}


def make_listener(live: bool = False) -> Listener:
    """Return what shows a training: a bar on a terminal, lines elsewhere, nothing in all processes but the first.

    With `live`, the run's curves are drawn in the terminal and its page is written while it trains.
    """
    if not is_first_process() or sys.stdout is None:
        return Listener()
    if sys.stdout.isatty():
        return terminal_listener(live)
    return Listeners(LoadingLines(), Messages(), *_views(Lines(), PLAIN_SECONDS, live))


def terminal_listener(live: bool = False) -> Listener:
    """Return what shows a training on a terminal."""
    console = make_console()
    view = Screen(console) if live else Bar(console)
    return Listeners(LoadingBars(), Messages(console), *_views(view, CURVE_SECONDS if live else BAR_SECONDS, live))


def _views(view: View, every: float, live: bool) -> list[Following]:
    shown = [Following(view, Budget(every))]
    if live:
        from narrows.report.live.page import EVERY, LivePage

        shown.insert(0, Following(LivePage(), Budget(EVERY)))
    return shown


@contextlib.contextmanager
def show_loading() -> Iterator[Show]:
    """Show how far loading is: as bars on a terminal, as lines elsewhere."""
    shown = LoadingBars() if sys.stdout is not None and sys.stdout.isatty() else LoadingLines()
    try:
        yield shown.loading
    finally:
        shown.loaded()
