"""What `verbose=True` shows while an estimator trains: a bar where it can move, lines elsewhere."""

import importlib.util
from dataclasses import replace

from rich.console import Console

from narrows._util.console import make_console
from narrows._util.printing import print_line
from narrows.estimator.settings import LOG_EVERY
from narrows.report.contents import RunContents
from narrows.report.live.listeners import Bar, Messages
from narrows.runs.records import MetricRow
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener, RunStart


def make_progress(verbose: bool, square: float) -> Listener:
    """Return what tells the user how training goes; `square` is what an error of 1 in training is in the user's unit.

    Terminals and notebooks get a bar. A notebook can only move one if ipywidgets is installed; without it, and in logs
    and pipes, there is a line every 500 batches.
    """
    if not verbose:
        return Listener()
    console = make_console()
    widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    if widgets or (console.is_terminal and not console.is_jupyter):
        return ProgressBar(square, console)
    return ProgressLines(square)


class ProgressLines(Listener):
    """Prints what is trained, and a line now and then."""

    def __init__(self, square: float) -> None:
        self.square = square

    def begin(self, run: RunStart) -> None:
        """Print the header."""
        for line in run.header:
            print_line(line)

    def row(self, row: MetricRow) -> None:
        """Print the error and the number of open dimensions."""
        if row.step % (10 * LOG_EVERY) == 0:
            print_line(f"batch {row.step:,}: error {row.error * self.square:.4g}, {row.open} dimensions open")


class ProgressBar(Listener):
    """Prints what is trained, and moves a bar with the latest numbers below it."""

    def __init__(self, square: float, console: Console) -> None:
        self.square, self.bar, self.messages = square, Bar(console), Messages()
        self.config = TrainConfig()
        self.rows: list[MetricRow] = []

    def begin(self, run: RunStart) -> None:
        """Print the header."""
        self.messages.begin(run)
        tau = run.config.tau
        self.config, self.rows = replace(run.config, tau=None if tau is None else tau * self.square), []

    def row(self, row: MetricRow) -> None:
        """Move the bar."""
        self.rows.append(row.in_unit(self.square))
        self.bar.draw(RunContents(None, self.config, self.rows, []))

    def end(self) -> None:
        """Leave the bar as it is."""
        self.bar.close()
