"""A call in a process of its own: its memory is freed, and whatever ends it ends nothing else.

    ended = call_alone(partial(train_one, config), log=Path("logs/seed-1.txt"), threads=1, asked=lambda: 0)

The process is a new interpreter, not a fork, and reads the call from its standard input. That stays open as long as the
caller lives, so when the caller ends, by SIGKILL too, the process reads the end of its input and ends as well. It has a
session of its own: Ctrl-C in a terminal reaches only the caller, which forwards it once.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from narrows._util.errors import NarrowsError
from narrows._util.text import printable
from narrows.training.signals import EndProgram, Interrupted, Stopped

POLL = 0.1
"""Seconds between two looks at whether a process has ended, or should."""
Call = Callable[[], Any]
"""What a process does: a function of a module, or a partial of one, so that it can be pickled."""


@dataclass(frozen=True)
class Ended:
    """How a call ended: with a value, with a reason why there is none, or because it was asked to."""

    value: Any = None
    reason: str = ""
    """Why the call failed; empty if it did not."""
    stopped: bool = False
    """Whether it was asked to stop; its run continues from a checkpoint."""


def call_alone(call: Call, log: Path, threads: int, asked: Callable[[], int]) -> Ended:
    """Make a call in a process of its own, and return how it ended.

    Arguments:
        call: The call. A NarrowsError is its reason to fail; any other exception too, with its traceback in `log`.
        log: The file for everything that the process prints; it is removed if that is nothing.
        threads: Threads of libraries that ask OMP_NUM_THREADS.
        asked: Called again and again; returns the signal that the process is to get, or 0.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as answer, log.open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE, stdout=answer, stderr=printed, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended already, and its exit code says how
                process.stdin.write(pickle.dumps(call))
                process.stdin.flush()
            _wait(process, asked)
        finally:
            process.kill()  # only if this function was left by an exception is it still there
            process.communicate()
        answer.seek(0)
        ended = _read(answer, process.returncode)
    if not log.stat().st_size:
        log.unlink()
    return ended


def _wait(process: "subprocess.Popen[bytes]", asked: Callable[[], int]) -> None:
    """Wait until a process ends, and send it each new signal that is asked for."""
    sent = 0
    while True:
        try:
            process.wait(POLL)
            return
        except subprocess.TimeoutExpired:
            if (number := asked()) != sent:
                sent = number
                process.send_signal(number)


def _read(answer: BinaryIO, code: int) -> Ended:
    """Return what a process has answered; if it ended without an answer, how it ended."""
    try:
        ended: Ended = pickle.load(answer)
        return ended
    except EOFError:
        if code in (-signal.SIGINT, -signal.SIGTERM):  # it had not yet begun to listen
            return Ended(stopped=True)
        if code == -signal.SIGKILL:
            return Ended(reason="its process was killed by SIGKILL; perhaps the memory was full")
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return Ended(reason=f"its process {how}")


def main() -> None:
    """Read a call from standard input, make it, and write how it ended to standard output."""
    signals = EndProgram()
    signals.install()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to the log
    try:
        ended = _attempt()
    except (Interrupted, Stopped):
        ended = Ended(stopped=True)
    signals.uninstall()
    with answer:
        pickle.dump(ended, answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the thread that waits for the caller's end holds the input


def _attempt() -> Ended:
    from narrows._util.allocator import keep_memory

    keep_memory()
    try:
        call = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_end_with_caller, daemon=True).start()
        return Ended(call())
    except NarrowsError as error:
        return Ended(reason=str(error))
    except OSError as error:
        return Ended(reason=printable(error))
    except Exception as error:
        traceback.print_exc()
        return Ended(reason=printable(f"{type(error).__name__}: {error}"))


def _end_with_caller() -> None:
    with contextlib.suppress(OSError):
        os.read(0, 1)
    os._exit(1)
