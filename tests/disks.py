"""A disk that is full, and files that may not be read, without a disk and whether or not the tests run as root."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65_534


@contextlib.contextmanager
def full_disk(size: int = 4096) -> Iterator[None]:
    """Let every write beyond `size` bytes of a file fail, in this process, as on a full disk.

    Python ignores SIGXFSZ, so that the write fails with an error (EFBIG) instead of ending the process.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Let nobody read a file or a folder during the block; root, who may read everything, becomes a nobody.

    The folders above must be open to others, which pytest's own are not.
    """
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)
