"""Following a run that another process is training, from its folder alone: only reading, never holding anything.

Every look reads what was added to metrics.csv and decisions.csv since the last one. A run that was resumed has had
them written anew, with fewer rows; then they are read from the start. A front, and a run with --as-good-as, is several
runs one after the other: the one that is at work is looked at.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from narrows.errors import NarrowsError
from narrows.fronts import FRONT, FrontFolder
from narrows.runs import DecisionRow, MetricRow, RunFolder, parse_decision, parse_row
from narrows.training.config import TrainConfig, config_from_dict

SILENCE = 30.0
"""Seconds without news after which a run may have been stopped, unless its rows come more slowly than that."""
GAPS = 5
"""... and then this many times what it usually takes from row to row."""
RECENT = 20
"""Rows that its pace is measured over."""
Row = TypeVar("Row")


class Growing(Generic[Row]):
    """A .csv file that another process adds lines to."""

    def __init__(self, path: Path, parse: Callable[[str], Row]) -> None:
        self.path, self.parse = path, parse
        self._forget()

    def _forget(self) -> None:
        self.rows: list[Row] = []
        self.file = self.read_to = 0

    def read(self) -> list[Row]:
        """Return all rows so far; what follows the last newline is not one yet."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self.file or about.st_size < self.read_to:
                    self._forget()
                self.file = about.st_ino
                file.seek(self.read_to)
                added = file.read()
        except FileNotFoundError:
            self._forget()
            return []
        whole = added[: added.rfind(b"\n") + 1]
        first = 1 if self.read_to == 0 else 0  # the header
        try:
            self.rows += [self.parse(line) for line in whole.decode().split("\n")[first:-1]]
        except ValueError as error:
            raise NarrowsError(
                f"{self.path} is damaged after line {len(self.rows) + 1} ({error}); remove it: only the curves need it"
            ) from None
        self.read_to += len(whole)
        return self.rows


@dataclass(frozen=True)
class Sight:
    """How a run stands at one moment."""

    top: Path
    """The folder that was asked about."""
    folder: RunFolder
    """The run in it that is at work; the same, except in fronts and with --as-good-as."""
    part: str
    """Which part of the whole that is; empty where there is only one."""
    config: TrainConfig | None
    """None before it has begun."""
    rows: list[MetricRow]
    decisions: list[DecisionRow]
    ended: bool
    """All of it."""
    news: float
    """When something was last written, in seconds since 1970."""

    @property
    def n(self) -> int:
        """Latent dimensions at the start; 0 as long as they are not known."""
        return self.config.n if self.config is not None and isinstance(self.config.n, int) else 0

    @property
    def tau(self) -> float | None:
        """The promise, if there is one and it is known yet."""
        return None if self.config is None else self.config.tau

    def age(self) -> float:
        """Return the seconds since the last news."""
        return max(0.0, time.time() - self.news)

    def pace(self) -> float | None:
        """Return the batches a second of the last rows; None before there are two."""
        recent = self.rows[-RECENT:]
        seconds = recent[-1].seconds - recent[0].seconds if len(recent) > 1 else 0.0
        return (recent[-1].step - recent[0].step) / seconds if seconds > 0 else None

    def patience(self, silence: float = SILENCE) -> float:
        """Return how long there may be no news before that is worth a word."""
        recent = self.rows[-RECENT:]
        gap = (recent[-1].seconds - recent[0].seconds) / (len(recent) - 1) if len(recent) > 1 else 0.0
        return max(silence, GAPS * gap)


class Follower:
    """Looks at a run, or a front, again and again."""

    def __init__(self, path: Path | str) -> None:
        self.top = Path(path)
        self.front = FrontFolder(self.top) if (self.top / FRONT).exists() else None
        if self.front is None:
            RunFolder(self.top).read_config()  # fails clearly where there is no run
        self._turn_to(RunFolder(self.top))

    def _turn_to(self, folder: RunFolder) -> None:
        self.folder = folder
        self.metrics = Growing(folder.metrics, parse_row)
        self.decisions = Growing(folder.decisions, parse_decision)

    def look(self) -> Sight:
        """Return how it stands now."""
        ended, folder, part = self._at_work()
        if folder.path != self.folder.path:
            self._turn_to(folder)
        config = config_from_dict(folder.read_config(), str(folder.config)) if folder.config.exists() else None
        rows, decisions = self.metrics.read(), self.decisions.read()
        return Sight(self.top, folder, part, config, rows, decisions, ended, self._news())

    def _at_work(self) -> tuple[bool, RunFolder, str]:
        """Return whether all has ended, the run that is at work (or was last), and which part it is."""
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
