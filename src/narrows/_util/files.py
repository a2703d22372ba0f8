"""Files that are never half-written (write another file, flush it, rename it), and JSON and .csv files.

A process that is killed while it writes leaves its temporary file behind. A writer holds a lock on its temporary file,
so whoever comes later can tell such a leftover from a file that is being written, and removes it.
"""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from narrows._util.errors import NarrowsError

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system: nothing is locked, and leftovers stay
    fcntl = None

PART = ".part"
"""Ending of temporary files; their names begin with a dot."""
LARGEST_TEXT = 128 * 2**20
"""Bytes of the largest .json, .toml or .csv file in a run's folder that is read: a million rows of metrics."""


@contextlib.contextmanager
def atomic_file(path: Path, new: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when the block ends without an exception.

    A reader, a crash or a second writer sees the old file or the new one, never a part; a failed block leaves nothing
    behind.

    Arguments:
        path: The file.
        new: Raise FileExistsError if there is such a file by then, instead of replacing it.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    remove_leftovers(path.parent, path.name)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
    temporary = Path(name)
    try:
        with contextlib.ExitStack() as held:
            if fcntl is not None:
                lock = os.dup(handle)  # stays open until the rename is done
                held.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; these are as readable as others
            if new:
                os.link(temporary, path)  # fails where replacing would not
                temporary.unlink()
            else:
                temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # make the rename itself durable, if the platform can open folders
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: Path, content: bytes | str, new: bool = False) -> None:
    """Replace the content of `path`, or write a `new` file, completely or not at all."""
    with atomic_file(path, new) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def is_leftover(path: Path) -> bool:
    """Return whether this is the temporary file of a writer, at work or killed."""
    return path.name.startswith(".") and path.suffix == PART


@contextlib.contextmanager
def hold(folder: Path, busy: NarrowsError) -> Iterator[None]:
    """Hold a folder while the block runs, where the system has flock; raise `busy` if another process holds it."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    else:
        yield
    finally:
        os.close(handle)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of this file, or of any file in the folder, left behind."""
    if fcntl is None:
        return
    for path in folder.glob(f".{_literal(name)}.*{PART}"):
        with contextlib.suppress(OSError):  # locked by a writer at work, or gone by now
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def _literal(name: str) -> str:
    return name if name == "*" else "".join(f"[{c}]" if c in "*?[" else c for c in name)


def append_line(path: Path, header: Sequence[str], cells: Iterable[str]) -> str:
    """Append one line to a .csv file, after the header if the file is new, and return it.

    If the disk is full, the file is left as it was.
    """
    line = ",".join(cells)
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        content = (f"{line}\n" if end else f"{','.join(header)}\n{line}\n").encode()
        try:
            if file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError:
            file.truncate(end)
            raise
    return line


def whole_lines(path: Path) -> list[str]:
    """Return the complete lines after the header; text after the last newline is not a row."""
    return read_text(path).split("\n")[1:-1] if path.exists() else []


def read_text(path: Path) -> str:
    """Return the text of one of our own files; raise if it is a pipe or a device, or larger than any such file."""
    check_regular(path)
    size = path.stat().st_size
    if size > LARGEST_TEXT:
        raise NarrowsError(
            f"{path} has {size:,} bytes, more than any such file of a run; copy it again from its source"
        )
    return path.read_text("utf-8-sig")


def read_json(path: Path, what: str = "") -> Any:
    """Return what a JSON file holds.

    Arguments:
        path: The file.
        what: What the file is, to be put before its name: "the config file".

    Raises:
        NarrowsError: The file cannot be read, or is not valid JSON.
    """
    named = f"{what} {path}".lstrip()
    try:
        return parse_json(read_text(path))
    except OSError as error:
        raise cannot_read(path, error, what) from error
    except NarrowsError:
        raise
    except ValueError as error:
        raise NarrowsError(f"{named} is damaged: it is not valid JSON ({error})") from error


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; raise ValueError if it is not valid, is nested too deeply, or has NaN in it."""
    try:
        return json.loads(text, parse_constant=_raise_not_a_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _raise_not_a_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def cannot_read(path: Path, error: OSError, what: str = "") -> NarrowsError:
    """Return the error about a file that may be in order, but cannot be read."""
    named = f"{what} {path}".lstrip()
    return NarrowsError(f"cannot read {named}: {error.strerror}; check its permissions and its disk")


def check_regular(path: Path | str) -> None:
    """Raise if `path` is a named pipe, a device or a socket: reading one may wait for ever, or never end.

    A path that does not exist or cannot be asked about passes, so that whoever opens it says what is wrong.
    """
    if kind := special_kind(path):
        raise NarrowsError(f"{path} is {kind}, not a file; write its content to a file and give that")


def special_kind(path: Path | str) -> str:
    """Return "a named pipe", "a socket" or "a device" if `path` is one, else ""."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    special = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return special.get(stat.S_IFMT(mode), "")
