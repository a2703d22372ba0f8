"""A disk that is full, without root and without a disk: no file may grow beyond a limit."""

import contextlib
import resource
from collections.abc import Iterator


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
