"""Arrays converted from another file: checked by their header, then held in memory or, where too large, in the cache.

A table, an HDF5 dataset or a member of an archive cannot be mapped from disk as an .npy file can. `held` fills an array
of up to cache.MEMORY_SHARE of the memory; a larger one goes, chunk by chunk, to the cache and is mapped from there. The
name of the cached file holds `file_digest` of what it was made from, so that a file that was changed is read anew.
"""

import contextlib
import hashlib
import math
import os
from pathlib import Path

import numpy as np

from narrows.data.arrays import channels_last, check_dtype
from narrows.data.cache import Chunks, cache_folder, cached_array, fits_in_memory, open_cached
from narrows.errors import NarrowsError

CHUNK_BYTES = 1 << 24
"""About how much is read at a time."""

USUAL_KEYS = ("x", "X", "data", "images", "imgs")
"""Of several arrays in one file, the first of these is taken."""


def file_digest(path: Path, *extra: object) -> str:
    """Return 16 hex digits that change with the file's absolute path, size and time of change, and with `extra`."""
    try:
        status = path.stat()
    except OSError as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    told = repr((os.path.abspath(path), status.st_size, status.st_mtime_ns, extra))
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def check_header(shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    """Refuse, before anything is read, an array that `from_array` would refuse for its dtype or its axes."""
    check_dtype(dtype, name)
    channels_last(np.broadcast_to(np.zeros((), dtype), shape), name)


def held(
    file_name: str, row: tuple[int, ...], dtype: np.dtype, chunks: Chunks, count: int | None = None
) -> tuple[np.ndarray, str]:
    """Return the array (count, *row) of these chunks and, where it is not simply in memory, ", cached in ...".

    `count` None: as many rows as the chunks have.
    """
    with contextlib.suppress(MemoryError):
        if count is not None and fits_in_memory(_size(row, dtype) * count):
            return _filled(row, dtype, chunks, count), ""
        if count is None and open_cached(cache_folder() / file_name, row, dtype) is None:
            made = _gathered(row, dtype, chunks)
            if made is not None:
                return made, ""
    array, where = cached_array(file_name, row, dtype, chunks, count)
    return array, f", {where}"


def _filled(row: tuple[int, ...], dtype: np.dtype, chunks: Chunks, count: int) -> np.ndarray:
    made = np.empty((count, *row), dtype)
    start = 0
    for chunk in chunks():
        made[start : start + len(chunk)] = chunk
        start += len(chunk)
    assert start == count
    return made


def _gathered(row: tuple[int, ...], dtype: np.dtype, chunks: Chunks) -> np.ndarray | None:
    """Collect chunks of unknown number; None as soon as they do not fit in memory."""
    made, count = np.empty((0, *row), dtype), 0
    for chunk in chunks():
        start, count = count, count + len(chunk)
        if not fits_in_memory(_size(row, dtype) * count):
            return None
        if count > len(made):
            made.resize((count + count // 8, *row), refcheck=False)
        made[start:count] = chunk
    made.resize((count, *row), refcheck=False)
    return made


def _size(row: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(row) * dtype.itemsize
