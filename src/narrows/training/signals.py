"""Ctrl-C and SIGTERM: a request while a run trains, an orderly end at any other time.

While a run trains, the first signal is a request (`StopRequest`): the batch is finished, a checkpoint written, and only
then the run stops. Before and after, and for the second signal, `EndProgram` raises `Stopped`, which takes the way of a
KeyboardInterrupt: files are removed or left whole, and the terminal is given back.

Python may run a signal handler inside an import, where an exception can end the process (torch imports modules from
C++), or inside a destructor, where it is swallowed. There `EndProgram` sends the signal to itself again a moment later.
It also remembers its signal: a run that begins nevertheless stops after its first batch, and the program ends in the
same way whatever exception the signal has become.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.02
"""Seconds after which a signal is sent again that came at a moment when it could not be acted on."""


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal after `step` batches; its checkpoint is written.

    It is a KeyboardInterrupt, so that `except Exception` in a loop over runs does not take it for a failed run.
    """

    def __init__(self, step: int, folder: Path, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after batch {step}")
        self.step, self.folder, self.number = step, folder, number


class Stopped(KeyboardInterrupt):
    """The program was stopped by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class EndProgram:
    """The handler of a program's signals, from its first moment on: remember the signal and raise `Stopped`."""

    def __init__(self) -> None:
        self.number = 0
        """The signal that came, or 0."""

    def install(self) -> None:
        """Take the signals, except those that whoever started the program wants ignored (nohup, a shell's `&`)."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)
        sys.unraisablehook = self._unraisable

    def uninstall(self) -> None:
        """Ignore signals from now on: the program is about to end, and only has to say so."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """End the program, as soon as it is not importing anything."""
        self.number = number
        if _is_importing(frame):
            _send_again(number)
        else:
            raise Stopped(number)

    def _unraisable(self, unraisable: Any) -> None:
        """Try again where a `Stopped` was raised but could not be caught; say all other things as usual."""
        if isinstance(unraisable.exc_value, Stopped):
            _send_again(unraisable.exc_value.number)
        else:
            sys.__unraisablehook__(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send this process a signal a moment later."""
    timer = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def ended_by(error: BaseException | None = None) -> int:
    """Return the signal that has ended the program, or 0: by the exception, or by what its handler remembers."""
    if isinstance(error, KeyboardInterrupt):
        return getattr(error, "number", signal.SIGINT)
    return max((getattr(signal.getsignal(number), "number", 0) for number in SIGNALS), default=0)


class StopRequest:
    """While the block runs, SIGINT and SIGTERM only set `signal`. A second one acts as it always did.

    In any other thread than the main one, signals are left as they are.

    Arguments:
        signals: Those that are taken for a request; the others act as they always did.
    """

    def __init__(self, signals: Sequence[int] = SIGNALS) -> None:
        self.signals, self.signal = signals, 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self.signal = ended_by()  # one that came before, in a place where it could not be raised
            kept = [number for number in self.signals if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in kept}
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
