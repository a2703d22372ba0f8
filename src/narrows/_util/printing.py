"""Lines for standard output and standard error, in which foreign text only shows and never commands the terminal."""

import contextlib
import os
import sys
from typing import TextIO

from narrows._util.text import printable


def shown_lines(text: str) -> str:
    """Return a text of ours with foreign parts in it: its lines stay, all else that does not simply show is escaped."""
    return "\n".join(printable(line, longest=None) for line in text.split("\n"))


def say(text: object) -> None:
    """Print lines that may hold foreign text."""
    print(shown_lines(str(text)))


def print_line(line: str) -> None:
    """Print lines at once; if nobody reads them (a closed pipe, a full disk), training goes on in silence."""
    with contextlib.suppress(OSError):
        print(shown_lines(line), flush=True)


def warn(text: str) -> None:
    """Print one line of warning to standard error; what cannot be written there is lost."""
    _print_to_stderr("warning", text)


def print_error(text: str) -> None:
    """Print one line about an error to standard error; what cannot be written there is lost."""
    _print_to_stderr("error", text)


def _print_to_stderr(kind: str, text: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(f"narrows: {kind}: {printable(' '.join(text.split()), longest=None)}", file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let everything that a stream could not write, and all that follows, go nowhere; else Python's end fails on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
