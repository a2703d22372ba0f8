"""A target of mutations: valid files, how one of them is changed, and how a user reaches the reader behind it."""

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

from faults.mutators import Mutator, mutate_bytes
from narrows._util.errors import NarrowsError
from narrows._util.text import printable
from narrows.cli import main

LONGEST = 2_000
"""Characters that one line to a user may have."""


class Broken(Exception):
    """A promise to the user that was not kept, though nothing crashed."""


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes."""

    name: str
    make: Callable[[Path], None]
    """Writes valid files into an empty folder; made once, and copied for each case."""
    read: Callable[[Path, Path, Random], None]
    """(the copied folder, the mutated file in it, random numbers) reads it as a user would."""
    mutate: Mutator = mutate_bytes
    victims: str = "**/*"
    """The files of which one is mutated."""
    writes: bool = False
    """Whether the command writes into the folder by its nature, as `narrows resume` does."""

    def files(self, folder: Path) -> list[Path]:
        """Return the files that may be mutated, sorted."""
        return sorted(path for path in folder.glob(self.victims) if path.is_file())


@contextlib.contextmanager
def steady_clock() -> Iterator[None]:
    """Let every look at the clock take a millisecond, so that files that state how long something took are the same."""
    ticks = (count / 1_000 for count in itertools.count())
    with mock.patch("time.perf_counter", side_effect=ticks):
        yield


def command(*arguments: object) -> None:
    """Run a command in this process; raise if it refuses its input, or if it fails or prints what it must not."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    words = err.getvalue().removesuffix("\n")
    if code not in (0, 2):
        raise Broken(f"narrows {arguments[0]} ends with exit code {code}: {words[-300:]!r}")
    if printable(out.getvalue().replace("\n", ""), None) != out.getvalue().replace("\n", ""):
        raise Broken(f"narrows {arguments[0]} prints control characters")
    if code == 2:
        raise NarrowsError(words)


def check_line(error: NarrowsError) -> None:
    """Raise if an error is not one printable line of a length that can be read."""
    text = str(error)
    if printable(text, None) != text:
        raise Broken(f"the error has line breaks or control characters: {text[:300]!r}")
    if not 10 <= len(text) <= LONGEST:
        raise Broken(f"the error has {len(text):,} characters: {text[:200]!r}")


def each(*calls: Callable[[], object]) -> None:
    """Make all calls; each may refuse its input, in one line. Raise the first refusal at the end."""
    refusals = []
    for call in calls:
        try:
            call()
        except NarrowsError as error:
            check_line(error)
            refusals.append(error)
    if refusals:
        raise refusals[0]
