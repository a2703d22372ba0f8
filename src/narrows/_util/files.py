"""Files that are never half-written (write another file, flush it, rename it), and the lines of .csv files."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing that replaces `path` only when the block ends without an exception.

    A reader, a crash or a second writer sees the old file or the new one, never a part; a failed block leaves nothing
    behind.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; these are as readable as others
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


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace the content of `path`, completely or not at all."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_line(path: Path, header: Sequence[str], cells: Iterable[str]) -> None:
    """Append one line to a .csv file, after the header if the file is new."""
    with path.open("a") as file:
        if file.tell() == 0:
            file.write(",".join(header) + "\n")
        file.write(",".join(cells) + "\n")


def whole_lines(path: Path) -> list[str]:
    """Return the complete lines after the header; text after the last newline is not a row."""
    return path.read_text().split("\n")[1:-1] if path.exists() else []


def filter_lines(path: Path, keep: Callable[[str], bool]) -> None:
    """Keep only the rows whose first cell passes `keep`."""
    if path.exists():
        header = path.read_text().split("\n")[0]
        write_atomic(path, "\n".join([header, *(r for r in whole_lines(path) if keep(r.split(",")[0]))]) + "\n")
