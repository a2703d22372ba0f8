"""Memory maps that do not pile up: what was read of a mapped file is handed back after every batch.

A page of a mapped file counts as this process's memory once it was touched, and the kernel maps its neighbours with
it, up to two megabytes where it uses huge pages. So random batches from a file of 6 GB would end with 6 GB resident,
although the system could drop them at any time. `release` unmaps them now; they stay in the file cache, so touching
them again costs a page fault and no reading, well under a millisecond a batch.
"""

import mmap
import sys

import numpy as np

SMALL = 128 << 20
"""Mapped arrays up to this many bytes may stay resident."""


def release(array: np.ndarray) -> None:
    """Let go of the resident pages of a large mapped array; nothing happens to others, or on other systems."""
    if array.nbytes > SMALL and sys.platform == "linux":
        mapped = _map_of(array)
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def _map_of(array: object) -> mmap.mmap | None:
    """Return the read-only map below an array's views, if there is one."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.mode != "r":
            return None  # changes of a copy-on-write map would be lost
        array = array.base
    return array if isinstance(array, mmap.mmap) else None
