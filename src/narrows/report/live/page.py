"""A run's page while it trains: the report's charts, written again every few seconds.

The page is report.html itself, so that one address is good from the first batch to the last: a page that was left open
shows the curves, then the finished report, or the stopped run and how to continue it. Only the page of a run that is
training reloads itself (assets/live.js); no server is needed.
"""

import contextlib
import time
from pathlib import Path

from narrows._util.files import write_atomic
from narrows._util.printing import print_line
from narrows.report import run_page, text
from narrows.report.contents import RunContents
from narrows.report.html import Block, Facts, Page, Section, Table, Text
from narrows.report.live.follow import Snapshot, View, pace
from narrows.report.settings import settings
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder

EVERY = 5.0
"""Seconds between two pages, at least."""
LIVE = 'data-refresh="'
"""What only a page that reloads itself has, in its first lines."""


class LivePage(View):
    """Snapshots as report.html in the folder that is followed."""

    name = "live page"

    def __init__(self) -> None:
        self.announced: Path | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Write the page, and print its path if it is the first."""
        self._write(snapshot, live=True)
        if self.announced != snapshot.top:
            self.announced = snapshot.top
            print_line(f"live page: {RunFolder(snapshot.top).report}")

    def end(self, snapshot: Snapshot, stopped: bool) -> None:
        """Write the page that the report replaces, or of a stopped run the last one."""
        self._write(snapshot, live=not stopped)

    def _write(self, snapshot: Snapshot, live: bool) -> None:
        if snapshot.run is not None:  # between two parts of a front, the page stays as it is
            write_atomic(RunFolder(snapshot.top).report, page(snapshot, snapshot.run, live).html())


def drop_live(report: Path) -> None:
    """Remove a page that would reload itself forever because the report could not be written in its place."""
    with contextlib.suppress(OSError):
        if LIVE in report.read_text(encoding="utf-8")[:500]:
            report.unlink()


def page(snapshot: Snapshot, run: RunContents, live: bool) -> Page:
    """Return the page of a run that is training (`live`) or was stopped."""
    sections = [
        Section("training", "How training goes" if live else "How training went", run_page.training(run)),
        Section("gates", "Which gate closed when", run_page.gates(run)),
        Section("front", "Done so far", _front(snapshot)),
        Section("settings", "Settings, and how to repeat the run", settings(run)),
    ]
    if not live:
        return run_page.stopped_page(run, run.name, sections)
    heading = title = "Training has begun"
    facts: list[Block] = []
    if run.rows:
        row = run.rows[-1]
        title, heading = f"batch {row.step:,}", f"Batch {row.step:,}: {text.plural(row.open, 'gate')} open"
        facts = [_facts(run)]
    status = "Writing the report" if snapshot.ended else "Training" + (f": {snapshot.part}" if snapshot.part else "")
    resume = f"The run was stopped, or continues without this page. Resume it with `{text.resume_command(run.files)}`."
    return Page(
        title=f"{run.name}: {title}",
        heading=heading,
        about=f"narrows · {run.name} · {snapshot.top}",
        badge=("live", status),
        blocks=[Text(resume, "lead silent", hidden=True), *facts],
        sections=sections,
        live={"refresh": EVERY, "written": time.time(), "silence": snapshot.patience(4 * EVERY)},
    )


def _facts(run: RunContents) -> Facts:
    row, heldout = run.rows[-1], run.recipe.measures_heldout
    error = ("Held-out error", row.watched) if heldout else ("Training error", row.error)
    probabilities = f"sum of π {row.gate_sum:.3g}" if run.recipe.samples_gates else ""
    speed = pace(run.rows).removeprefix(", ")
    return Facts(
        [
            (error[0], f"{error[1]:.4g}", "no promise" if run.tau is None else f"promise τ = {run.tau:.6g}"),
            ("Open gates", f"{row.open} of {run.n}", probabilities),
            ("Multiplier λ′", f"{row.multiplier:.3g}", "the weight of the error in the loss"),
            ("Tolerance hits", f"{row.hits:.0%}", "inputs within the bound that training aims at"),
            ("Training", text.batch_of(row.step, run.config.steps), speed),
        ]
    )


def _front(snapshot: Snapshot) -> list[Block]:
    """Return a front's answers so far."""
    front = FrontFolder(snapshot.top)
    results = front.read_results() if front.about.exists() else []
    rows = [[f"{r.tau:g}", str(r.dims), text.with_upper_end(r), "yes" if r.met else "no"] for r in results]
    return [Table(["τ", "dimensions", "test error", "met"], rows, numbers=True)] if rows else []
