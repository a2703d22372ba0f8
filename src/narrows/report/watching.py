"""Watching a run from outside: its curves in a terminal, plain lines anywhere else, the answer when it has ended.

A run that was killed cannot say so. It only stops writing, and after a while that is said here; watching goes on, since
the run may have been slow, or may be resumed.
"""

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from narrows.fronts import FrontFolder
from narrows.report import words
from narrows.report.following import Follower, Sight
from narrows.report.screen import has_braille, no_news, view
from narrows.runs import RunFolder

PLAIN_SECONDS = 10.0
"""How often a line is printed where there is no terminal."""


class Curves:
    """The curves, drawn anew at every look."""

    def __init__(self, console: Console, silence: float) -> None:
        self.console, self.silence = console, silence
        self.live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> "Curves":
        self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def show(self, sight: Sight) -> None:
        """Draw it as it stands."""
        width, height = self.console.size
        self.live.update(view(sight, width, height, has_braille(self.console), self.silence), refresh=True)


class Lines:
    """A line every ten seconds if there is news, and one when there has been none for long."""

    def __init__(self, silence: float) -> None:
        self.silence = silence
        self.part, self.step, self.last, self.complained = "", -1, -PLAIN_SECONDS, 0.0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing stays open."""

    def show(self, sight: Sight) -> None:
        """Print what is new."""
        if sight.part != self.part:
            self.part, self.step, self.last = sight.part, -1, -PLAIN_SECONDS
            print(sight.part, flush=True)
        if sight.rows and sight.config is not None:
            row, late = sight.rows[-1], time.monotonic() - self.last >= PLAIN_SECONDS
            if row.step != self.step and (late or sight.ended):
                pace = sight.pace()
                speed = "" if pace is None else f", {pace:.1f} batches/s"
                where = words.batch_of(row.step, sight.config.steps)
                print(f"{where}: {words.facts(row, sight.config)}{speed}", flush=True)
                self.step, self.last = row.step, time.monotonic()
        if not sight.ended and sight.age() > sight.patience(self.silence) and self.complained != sight.news:
            print(no_news(sight), flush=True)
            self.complained = sight.news


def watch(path: Path, every: float, silence: float) -> None:
    """Follow a run or a front until it has ended, and print the answer."""
    follower = Follower(path)
    console = Console(highlight=False, markup=False)
    on_terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    with Curves(console, silence) if on_terminal else Lines(silence) as shown:
        sight = follower.look()
        shown.show(sight)
        while not sight.ended:
            time.sleep(every)
            sight = follower.look()
            shown.show(sight)
    print()
    print(answer(path))


def answer(path: Path) -> str:
    """Return what `narrows show` says about a run or a front that has ended."""
    if FrontFolder(path).about.exists():
        return words.front_table(FrontFolder(path))
    folder = RunFolder(path)
    result = folder.read_result()
    assert result is not None, "a run has ended when its result is there"
    return words.full_answer(result, folder)
