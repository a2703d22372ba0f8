"""Following a run by reading its folder: nothing is written and no lock is held.

Every look parses what was added to metrics.csv and decisions.csv since the last one. When a run is resumed, both files
are rewritten with fewer rows; then they are parsed from the start. A front, and a run with --as-good-as, consists of
several runs one after the other: the follower looks at the one that is training.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from narrows._util.errors import NarrowsError
from narrows._util.files import whole_lines
from narrows.report.contents import RunContents
from narrows.runs.folder import RunFolder
from narrows.runs.front import FRONT, FrontFolder
from narrows.runs.records import DecisionRow, MetricRow
from narrows.training.config import config_from_dict

SILENCE = 30.0
"""Seconds without news after which a run may have been stopped."""
GAPS = 5
"""If rows come slowly, the run has at least this many times the usual time between two rows."""
RECENT = 20
"""Rows that the pace is measured over."""
Row = TypeVar("Row")


class Growing(Generic[Row]):
    """A .csv file that another process appends lines to."""

    def __init__(self, path: Path, parse: Callable[[str], Row]) -> None:
        self.path, self.parse = path, parse
        self.lines: list[str] = []
        self.rows: list[Row] = []

    def read(self) -> list[Row]:
        """Return all rows so far, without a last line that is still being written."""
        lines, before = whole_lines(self.path), len(self.lines)
        if lines[:before] != self.lines:
            self.rows, before = [], 0
        try:
            self.rows += [self.parse(line) for line in lines[before:]]
        except ValueError as error:
            raise NarrowsError(
                f"{self.path} is damaged after line {before + 1} ({error}); remove it: only the curves need it"
            ) from None
        self.lines = lines
        return self.rows


@dataclass(frozen=True)
class Snapshot:
    """A run, or a front, at one moment."""

    top: Path
    """The folder that is followed."""
    folder: RunFolder
    """The run that is training; in a front or with --as-good-as, a folder inside `top`."""
    part: str
    """Which part of the whole that run is; empty if it is the whole."""
    run: RunContents | None
    """What that run has recorded; None before it has begun."""
    ended: bool
    """Whether the whole has ended."""
    news: float
    """When something was last written, in seconds since 1970."""
    silence: float = SILENCE
    """Seconds without news after which the run may have been stopped, if its rows do not come slowly."""

    @property
    def rows(self) -> list[MetricRow]:
        """The run's metrics so far."""
        return [] if self.run is None else self.run.rows

    def age(self) -> float:
        """Return the seconds since the last news."""
        return max(0.0, time.time() - self.news)

    def patience(self, silence: float) -> float:
        """Return the seconds without news after which the run may have been stopped, at least `silence`."""
        recent = self.rows[-RECENT:]
        gap = (recent[-1].seconds - recent[0].seconds) / (len(recent) - 1) if len(recent) > 1 else 0.0
        return max(silence, GAPS * gap)

    def is_silent(self) -> bool:
        """Return whether the run may have been stopped."""
        return not self.ended and self.age() > self.patience(self.silence)


def pace(rows: Sequence[MetricRow]) -> str:
    """Return the batches per second over the last rows, as a phrase that follows others; empty for fewer than two."""
    recent = rows[-RECENT:]
    seconds = recent[-1].seconds - recent[0].seconds if recent else 0.0
    return f", {(recent[-1].step - recent[0].step) / seconds:.1f} batches/s" if seconds > 0 else ""


class Follower:
    """Takes snapshots of a run or a front."""

    def __init__(self, path: Path, silence: float = SILENCE) -> None:
        self.top, self.silence = path, silence
        self.front = FrontFolder(self.top) if (self.top / FRONT).exists() else None
        if self.front is None:
            RunFolder(self.top).read_config()  # raises if there is no run
        self._turn_to(RunFolder(self.top))

    def _turn_to(self, folder: RunFolder) -> None:
        self.folder = folder
        self.metrics = Growing(folder.metrics, MetricRow.parse)
        self.decisions = Growing(folder.decisions, self._parse_decision)
        self.n: int | None = None
        """Latent dimensions at the start of that run, once they are known."""

    def _parse_decision(self, line: str) -> DecisionRow:
        return DecisionRow.parse(line, self.n)

    def look(self) -> Snapshot:
        """Return a snapshot."""
        ended, folder, part = self._current()
        if folder.path != self.folder.path:
            self._turn_to(folder)
        run = None
        if folder.config.exists():
            config = config_from_dict(folder.read_config(), str(folder.config))
            self.n = config.n if isinstance(config.n, int) else None
            run = RunContents(folder, config, self.metrics.read(), self.decisions.read())
        return Snapshot(self.top, folder, part, run, ended, self._news(), self.silence)

    def _current(self) -> tuple[bool, RunFolder, str]:
        """Return whether the whole has ended, the run that is training or trained last, and which part it is."""
        if self.front is not None:
            taus = self.front.read_about()["taus"]
            waiting = [tau for tau in taus if not self.front.level(tau).result.exists()]
            tau = waiting[0] if waiting else taus[-1]
            return not waiting, self.front.level(tau), f"tau {tau:g}, {taus.index(tau) + 1} of {len(taus)}"
        run = RunFolder(self.top)
        plain = RunFolder(run.plain)
        if plain.config.exists() and not plain.result.exists():
            return False, plain, "the plain VAE first"
        return run.result.exists(), run, ""

    def _news(self) -> float:
        folder, begun = self.folder, RunFolder(self.top).config if self.front is None else self.front.about
        written = [begun, folder.config, folder.metrics, folder.decisions, folder.checkpoints, folder.model]
        return max(path.stat().st_mtime for path in written if path.exists())


class View:
    """Something that shows snapshots."""

    name: str
    """What a warning calls it."""

    def show(self, snapshot: Snapshot) -> None:
        """Show a run that is training."""

    def end(self, snapshot: Snapshot, stopped: bool) -> None:
        """Show a run, or a part of one, that has ended or was stopped."""
        self.show(snapshot)

    def close(self) -> None:
        """Give the terminal back."""
