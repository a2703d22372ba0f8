"""Files that are never half-written: write beside, flush to the disk, rename over the old one."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes `path`'s place only when the block ends well.

    A reader, a crash or a second writer sees the old file or the new one, never a part; a failed block leaves
    nothing behind.
    """
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
