"""A run's page while it is at work: the report's charts, made again every few seconds.

It takes the report's own place, report.html, so that there is one address from the first batch to the last: a page that
was left open shows the curves, then the stopped run and how to go on, or the finished report. Only a page of a run at
work loads itself again (assets/live.js); none needs a server.

Making it must not cost the run much: `Budget` gives it a fiftieth of the time at most.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from narrows.files import write_atomic
from narrows.fronts import FrontFolder, whole
from narrows.report import elements, repeat, words
from narrows.report.following import Follower, Sight
from narrows.runs import MetricRow, RunFolder
from narrows.training.config import TrainConfig
from narrows.training.display import Display

EVERY = 5.0
"""Seconds between two pages, at least."""
SHARE = 1 / 50
"""Of the time, at most, that goes into them."""
LIVE = 'data-refresh="'
"""What only a page of a run at work has, in its first line."""


class Budget:
    """Says when it is time again: not before `every` seconds, and so that all times together stay below `share`."""

    def __init__(self, every: float = EVERY, share: float = SHARE) -> None:
        self.every, self.share = every, share
        self.next = -math.inf

    def due(self) -> bool:
        """Tell whether it is time."""
        return time.monotonic() >= self.next

    @contextlib.contextmanager
    def spend(self) -> Iterator[None]:
        """Measure what is done now, and wait accordingly before it is done again."""
        start = time.monotonic()
        try:
            yield
        finally:
            cost = time.monotonic() - start
            self.next = start + max(self.every, cost / self.share)


class PageDisplay(Display):
    """Keeps a run's page up to date; whatever goes wrong with it is one warning, and the run goes on without."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.follower: Follower | None = None
        self.given_up = False
        self.told: Path | None = None

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Write the first page and say where it is."""
        if self.given_up or self.folder is None:
            return
        top = whole(self.folder)
        if self.follower is None or self.follower.top != top:
            self._try(lambda: setattr(self, "follower", Follower(top)))
        self._try(lambda: self._write(live=True))
        if not self.given_up and self.told != top:
            self.told = top
            with contextlib.suppress(OSError):
                print(f"live page: {RunFolder(top).report}", flush=True)

    def row(self, row: MetricRow) -> None:
        """Write it again, if it is time."""
        if self.budget.due():
            self._try(lambda: self._write(live=True))

    def end(self) -> None:
        """Write it once more: waiting for the report where the run has its answer, for good where it was stopped.

        Where it was only a part, as of a front, the page waits for the next one as it is.
        """
        folder = self.folder
        if folder is None or (folder.result.exists() and whole(folder) != folder.path):
            return
        self._try(lambda: self._write(live=folder.result.exists()))

    def _write(self, live: bool) -> None:
        assert self.follower is not None
        with self.budget.spend():
            sight = self.follower.look()
            write_atomic(RunFolder(sight.top).report, page(sight, live))

    def _try(self, act: Callable[[], None]) -> None:
        if self.given_up:
            return
        try:
            act()
        except Exception as error:
            self.given_up = True
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"narrows: warning: the live page is left out from now on ({reason})", file=sys.stderr)


def drop_live(report: Path) -> None:
    """Remove a page that would load itself for ever; after a report could not be written in its place."""
    with contextlib.suppress(OSError):
        with report.open(encoding="utf-8") as file:
            is_live = LIVE in file.read(500)
        if is_live:
            report.unlink()


def page(sight: Sight, live: bool) -> str:
    """Return the page of a run as it stands; one that loads itself again if it is `live`."""
    from narrows.report import run_page
    from narrows.report.story import Story

    assert sight.config is not None, "a page is written when a run has begun"
    story = Story(sight.folder, sight.config, sight.rows, None, None, None, None, "")
    parts = [
        ("training", "How training goes" if live else "How training went", run_page.training_part(story)),
        ("gates", "Which gate closed when", run_page.gates_part(story)),
        ("front", "Done so far", _levels(sight)),
        ("settings", "Settings, and how to repeat it", repeat.settings(story)),
    ]
    body = [
        "<header>",
        elements.paragraph(f"narrows · {story.name} · {sight.top}", "about"),
        _head(sight) if live else run_page.answer_part(story),
        _facts(sight),
        "</header>\n<main>",
        *(elements.section(*one) for one in parts if one[2]),
        "</main>",
    ]
    where = f"batch {sight.rows[-1].step:,}" if sight.rows else "no metrics yet"
    told = {"refresh": EVERY, "written": time.time(), "silence": sight.patience(4 * EVERY)} if live else None
    return elements.document(f"{story.name}: {where}", "\n".join(body), told)


def _head(sight: Sight) -> str:
    if not sight.rows:
        title = "Training has begun"
    else:
        row = sight.rows[-1]
        title = f"Batch {row.step:,}: {words.plural(row.open, 'gate')} open"
    badge = "Making the report" if sight.ended else f"At work: {sight.part}" if sight.part else "At work"
    way = elements.inline(f"It was stopped, or goes on without this page. To go on: `{words.go_on(sight.folder)}`.")
    silent = f'<p class="lead silent" hidden>{way}</p>'
    return f'<p class="badge live">{elements.escape(badge)}</p><h1>{elements.escape(title)}</h1>{silent}'


def _facts(sight: Sight) -> str:
    if not sight.rows or sight.config is None:
        return ""
    row, tau = sight.rows[-1], sight.tau
    unwatched = math.isnan(row.watched)
    against = "no promise" if tau is None else f"promise τ = {tau:.6g}"
    pace = sight.pace()
    entries = [
        (
            "Training error" if unwatched else "Held-out error",
            f"{row.error if unwatched else row.watched:.4g}",
            against,
        ),
        ("Open gates", f"{row.open} of {sight.n}", f"sum of π {row.gate_sum:.3g}" if unwatched else ""),
        ("Multiplier λ′", f"{row.multiplier:.3g}", "how hard the error is held down"),
        ("Tolerance hits", f"{row.hits:.0%}", "inputs within the bound aimed at"),
        ("Training", words.batch_of(row.step, sight.config.steps), f"{pace:.1f} batches/s" if pace else ""),
    ]
    return elements.facts(entries)


def _levels(sight: Sight) -> str:
    """Return a front's answers so far."""
    front = FrontFolder(sight.top)
    results = front.read_results() if front.about.exists() else []
    rows = [
        [f"{r.tau:g}", str(r.dims), f"{r.heldout.low:.4g} to {r.heldout.high:.4g}", "yes" if r.met else "no"]
        for r in results
    ]
    return elements.table(["τ", "dimensions", "test error, 95%", "met"], rows, numbers=True) if rows else ""
