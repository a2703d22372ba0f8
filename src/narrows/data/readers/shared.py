"""What the readers of files share: which array of several is taken, and one error for files that cannot be read."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from narrows._util.errors import NarrowsError
from narrows._util.room import amount
from narrows._util.text import printable

CHUNK_BYTES = 1 << 24
"""About how much is read at a time."""

LISTED = 8
"""How many names an error lists."""
LONGEST_NAME = 80
"""Characters of each name in such a list."""

MOST_EXPANSION = 500
"""How many times larger than its bytes in a file an array may be. Deflate ends at 1,032, for equal values."""
SMALL_ARRAY = 1 << 30
"""Bytes: smaller arrays may come from any file."""
SAVE_AS_NPY = "save it with numpy.save as .npy, which is mapped from disk"

_USUAL_KEYS = ("x", "X", "data", "images", "imgs")


def usual_key(keys: Iterable[str]) -> str:
    """Return which of several arrays to take: the only one, or the first with a usual name; "" if none has one."""
    keys = list(keys)
    return keys[0] if len(keys) == 1 else next((usual for usual in _USUAL_KEYS if usual in keys), "")


def listed(names: Sequence[str]) -> str:
    """Return the first few names and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(printable(name, LONGEST_NAME) for name in names[:LISTED])}{more}"


def check_expansion(text: str, stored: int, declared: int, remedy: str = SAVE_AS_NPY) -> None:
    """Raise, before anything is read, if a file would become an array that is out of all proportion to its bytes.

    Arguments:
        text: How the user named the file.
        stored: The bytes that hold the array in the file.
        declared: The bytes that the array would have.
        remedy: What the user can do if the array is right.
    """
    if declared > SMALL_ARRAY and declared > MOST_EXPANSION * stored:
        raise NarrowsError(
            f"{text}: {amount(stored)} in the file would become an array of {amount(declared)}, more than "
            f"{MOST_EXPANSION} times as much, so it is damaged or was never filled; if it is right, {remedy}"
        )


@contextlib.contextmanager
def readable(path: Path, kind: str, text: str = "", remedy: str = "fetch or write it again") -> Iterator[None]:
    """Raise a one-line error for whatever keeps the file at `path` from being read.

    Arguments:
        path: The file.
        kind: What it should be, such as "a CSV file".
        text: How the user named it, with a key; by default the path.
        remedy: What the user can do about a damaged file.
    """
    try:
        yield
    except NarrowsError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    except MemoryError:
        raise NarrowsError(
            f"{text or path}: the array does not fit in memory; save it as .npy, which is mapped from disk"
        ) from None
    except Exception as error:  # a damaged file can break its reader in any way
        cause = error.args[0] if isinstance(error, KeyError) and error.args else error
        reason = printable(str(cause).partition("\n")[0]) or type(error).__name__
        raise NarrowsError(f"{text or path}: the file is damaged or not {kind} ({reason}); {remedy}") from None
