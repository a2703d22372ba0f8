"""Ctrl-C and SIGTERM as a request: the batch is finished, a checkpoint written, and only then the run stops."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """A run was stopped by a signal after `step` batches; its checkpoint is written."""

    def __init__(self, step: int, folder: Path, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after batch {step}")
        self.step, self.folder, self.number = step, folder, number


class StopRequest:
    """While the block runs, SIGINT and SIGTERM only set `signal`. A second one acts as it always did."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
