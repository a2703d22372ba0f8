"""The program's own streams: present, able to write every character, and with one answer to output that fails."""

import errno
import io
import os
import signal
import sys
from typing import Any

from narrows._util.printing import discard, print_error


class OutputError(OSError):
    """Standard output could not be written."""


class _Output(io.FileIO):
    """Standard output; it raises `OutputError`, to be told from an error of another file."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


def open_streams() -> None:
    """Make standard output and standard error usable.

    A character that a stream's encoding lacks is written as an escape. A stream that was closed (`>&-`) gets its number
    back: otherwise the next file that is opened takes it, and whatever a library prints lands in that file. Output that
    goes to a closed stream fails as it would have; nobody misses errors.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue  # not the system's, such as a notebook's
        stream.reconfigure(errors="backslashreplace")
        if name == "stdout":
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering or stream.write_through,
            )


def flush_output() -> None:
    """Write out what was printed so far.

    Raises:
        OutputError: That failed; what was printed is gone, and what will be printed goes nowhere.
    """
    try:
        sys.stdout.flush()
    except OutputError:
        discard(sys.stdout)
        raise


def unwritten(error: OutputError) -> int:
    """Return the exit code of a command whose output could not be written, after one line unless a pipe was closed."""
    discard(sys.stdout)
    if error.errno == errno.EPIPE:
        return 128 + signal.SIGPIPE  # as of a program that the signal ends, such as `cat file | true`
    print_error(f"cannot write to standard output: {error.strerror}")
    return 1
