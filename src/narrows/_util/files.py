"""Files that are never half-written: write beside, flush to the disk, rename over the old one; lines of .csv files."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes `path`'s place only when the block ends well.

    A reader, a crash or a second writer sees the old file or the new one, never a part; a failed block leaves
    nothing behind.
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
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; ours are as readable as any other
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace `path` by this content, whole or not at all."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the platform lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def append_line(path: Path, header: Sequence[str], cells: Iterable[str]) -> None:
    """Add one line to a .csv file, with the header when it is the first."""
    with path.open("a") as file:
        if file.tell() == 0:
            file.write(",".join(header) + "\n")
        file.write(",".join(cells) + "\n")


def whole_lines(path: Path) -> list[str]:
    """Return the whole lines after the header: what follows the last newline is not a row."""
    return path.read_text().split("\n")[1:-1] if path.exists() else []


def filter_lines(path: Path, keep: Callable[[str], bool]) -> None:
    """Keep only the rows whose first cell passes."""
    if path.exists():
        header = path.read_text().split("\n")[0]
        write_atomic(path, "\n".join([header, *(r for r in whole_lines(path) if keep(r.split(",")[0]))]) + "\n")
