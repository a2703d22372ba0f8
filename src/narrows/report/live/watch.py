"""`narrows watch`: a run's curves in a terminal, plain lines anywhere else, until it has ended.

A run that was killed cannot say so: it only stops writing. After a while watching says that there is no news, and goes
on, since the run may be slow, or may be resumed.
"""

import sys
import time
from contextlib import closing
from pathlib import Path

from narrows._util.console import make_console
from narrows._util.printing import print_line
from narrows.report.live.follow import Follower, Snapshot
from narrows.report.live.listeners import PLAIN_SECONDS, Budget, Lines
from narrows.report.live.screen import Screen, no_news


class WatchedLines(Lines):
    """Lines that also say which part of a front is training, and that there is no news."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.silent_since = "", 0.0
        self.budget = Budget(PLAIN_SECONDS)

    def show(self, snapshot: Snapshot) -> None:
        """Print what is new, a row of metrics every ten seconds."""
        if snapshot.part != self.part:
            self.part = snapshot.part
            print_line(snapshot.part)
            self.budget.reset()
        if snapshot.rows and (self.budget.is_due() or snapshot.ended):
            with self.budget.spend():
                super().show(snapshot)
        if snapshot.is_silent() and self.silent_since != snapshot.news:
            self.silent_since = snapshot.news
            print_line(no_news(snapshot))


def watch(path: Path, every: float, silence: float) -> None:
    """Follow a run or a front until it has ended.

    Arguments:
        path: The folder of the run or the front.
        every: Seconds between two looks.
        silence: Seconds without news after which to say so.
    """
    follower = Follower(path, silence)
    console = make_console()
    on_terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    with closing(Screen(console) if on_terminal else WatchedLines()) as view:
        view.show(snapshot := follower.look())
        while not snapshot.ended:
            time.sleep(every)
            view.show(snapshot := follower.look())
