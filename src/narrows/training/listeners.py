"""What training tells its listeners. How it looks is up to `report`; by default nobody listens."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from narrows.runs.folder import RunFolder
from narrows.runs.records import HeldOut, MetricRow
from narrows.training.config import TrainConfig


@dataclass(frozen=True)
class RunStart:
    """A run that is about to train."""

    config: TrainConfig
    folder: RunFolder | None
    """Its folder; None for a run in memory."""
    header: list[str]
    """Lines that say what is trained, on what."""
    step: int
    """Batches done before."""


class Listener:
    """A listener that does nothing; others override what they need."""

    def loading(self, what: str, done: int, total: int) -> None:
        """Data are being downloaded, drawn or decoded; `total` is 0 if it is unknown."""

    def loaded(self) -> None:
        """Loading has ended, successfully or not."""

    def stage(self, line: str) -> None:
        """One of several trainings is about to begin."""

    def begin(self, run: RunStart) -> None:
        """Training begins or continues."""

    def row(self, row: MetricRow) -> None:
        """A row of metrics was written."""

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """A smaller or better model met tau on the validation split and was saved."""

    def end(self) -> None:
        """Training has stopped, for whatever reason."""


class Listeners(Listener):
    """Passes everything on to several listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners
        for event in (name for name in vars(Listener) if not name.startswith("_")):
            setattr(self, event, partial(self._pass_on, event))

    def _pass_on(self, event: str, *arguments: Any) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*arguments)
