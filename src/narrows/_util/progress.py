"""Progress of long work: one function, which the work calls now and then and the caller draws."""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

Part = TypeVar("Part", bound=Sized)
Progress = Callable[[str, int, int], None]
"""(what, done, total): "downloading x.gz", 4096, 9912422; total is 0 if it is unknown."""


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


def steps(count: int, size: int, what: str = "", progress: Progress = silent) -> Iterator[slice]:
    """Yield slices of at most `size` that cover 0..count-1 in order, and report `progress` after each."""
    for start in range(0, count, size):
        stop = min(start + size, count)
        yield slice(start, stop)
        progress(what, stop, count)


def counted(parts: Iterable[Part], count: int, what: str, progress: Progress, done: int = 0) -> Iterator[Part]:
    """Yield parts of `count` items in all, and report `progress` before the first and after each."""
    progress(what, done, count)
    for part in parts:
        yield part
        done += len(part)
        progress(what, done, count)
