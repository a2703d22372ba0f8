"""A folder for arrays that are expensive to make: written once and whole, then mapped from disk.

Arrays are written in chunks, so making one needs no more memory than a chunk. A file appears in the cache under
its own name only when it is complete (written beside, synced, renamed), so two processes may make it at the same
time: each renames a good file, and the later one wins. Where nothing can be written, an array that takes at most
MEMORY_SHARE of the machine's memory is kept in memory instead.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import platformdirs
import psutil

from narrows.errors import NarrowsError
from narrows.files import atomic_file

MEMORY_SHARE = 0.25
"""Arrays up to this share of the machine's memory may be held in it; larger ones are mapped from disk."""

Chunks = Callable[[], Iterable[np.ndarray]]
"""Makes an array, some rows at a time."""


def cache_folder() -> Path:
    """Return the folder named by NARROWS_CACHE, else the user's cache folder of this system."""
    chosen = os.environ.get("NARROWS_CACHE")
    return Path(os.path.expanduser(chosen)) if chosen else Path(platformdirs.user_cache_dir("narrows"))


def fits_in_memory(nbytes: int) -> bool:
    """Tell whether an array of this size may be held in memory."""
    return nbytes <= MEMORY_SHARE * psutil.virtual_memory().total


def cached_array(
    file_name: str, row: tuple[int, ...], dtype: np.dtype | type, chunks: Chunks, count: int | None = None
) -> tuple[np.ndarray, str]:
    """Return the array (count, *row) kept in `file_name`, made first where it is missing or damaged, and where it is.

    `count` None: as many rows as the chunks have. The second value ends a sentence for the user: "cached in ..." or
    "kept in memory, since ...".
    """
    path = cache_folder() / file_name
    array = open_cached(path, row, np.dtype(dtype), count)
    if array is not None:
        return array, f"cached in {path}"
    reason = "cannot be read back"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_away(path)
        with atomic_file(path) as file:
            write_array(file, row, np.dtype(dtype), chunks())
        array = open_cached(path, row, np.dtype(dtype), count)
        if array is not None:
            return array, f"cached in {path}"
    except OSError as error:
        reason = f"cannot be written ({error.strerror or error})"
    size = int(np.prod(row)) * np.dtype(dtype).itemsize * (count or 0)
    if count is None or not fits_in_memory(size):
        raise NarrowsError(f"{path} {reason}; make room there, or choose another folder with NARROWS_CACHE")
    made = np.empty((count, *row), dtype)
    start = 0
    for chunk in chunks():
        made[start : start + len(chunk)] = chunk
        start += len(chunk)
    return made, f"kept in memory, since {path} {reason}"


def _clear_away(path: Path) -> None:
    """Remove what processes that were killed while writing this file have left, if it is a day old."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > 86_400:
                part.unlink()


def open_cached(path: Path, row: tuple[int, ...], dtype: np.dtype, count: int | None = None) -> np.ndarray | None:
    """Map the array at `path`; None where the file is missing, cut short, or something else."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.memmap) or array.dtype != dtype or array.shape[1:] != row:
        return None
    return array if count is None or len(array) == count else None


def write_array(file: BinaryIO, row: tuple[int, ...], dtype: np.dtype, chunks: Iterable[np.ndarray]) -> int:
    """Write an .npy file and return its length, known only at the end: numpy's header leaves room for any count."""
    _write_header(file, (0, *row), dtype)
    start = file.tell()
    count = 0
    for chunk in chunks:
        assert chunk.dtype == dtype
        assert chunk.shape[1:] == row
        file.write(np.ascontiguousarray(chunk).data)
        count += len(chunk)
    file.seek(0)
    _write_header(file, (count, *row), dtype)
    assert file.tell() == start, "the header must not grow"
    return count


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> None:
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
