"""A folder for arrays that are expensive to make: written once and completely, then mapped from disk.

Arrays are written in chunks, so making one needs no more memory than one chunk. A file gets its name in the cache only
when it is complete (written under another name, synced, renamed), so two processes may make it at the same time: each
renames a good file, and the later one wins.

`cached_array` always writes to the cache, for arrays that take long to make. `converted_array` is for files that only
cannot be mapped as they are, such as tables: it keeps an array of up to MEMORY_SHARE of the machine's memory in memory
and caches a larger one. Both compare the size of the array with the room there is before they write or allocate; where
the number of rows is not known beforehand, they ask again with every chunk. The name of such a cached file contains
`file_digest` of the original file, so that a changed file is read again.
"""

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import platformdirs
import psutil

from narrows._util.errors import NarrowsError
from narrows._util.files import atomic_file, remove_leftovers
from narrows._util.room import check_disk, free_memory

MEMORY_SHARE, FREE_SHARE = 0.25, 0.5
"""Arrays up to these shares of the machine's memory, and of what is free of it, may be held in it."""

Chunks = Callable[[], Iterable[np.ndarray]]
"""Makes an array, some rows at a time; it may be called twice."""


def cache_folder() -> Path:
    """Return the folder named by NARROWS_CACHE, or else the user's cache folder of this system."""
    chosen = os.environ.get("NARROWS_CACHE")
    return Path(os.path.expanduser(chosen)) if chosen else Path(platformdirs.user_cache_dir("narrows"))


def fits_in_memory(nbytes: int) -> bool:
    """Return whether an array of this size may be held in memory."""
    return nbytes <= min(MEMORY_SHARE * psutil.virtual_memory().total, FREE_SHARE * free_memory())


def file_digest(path: Path, *extra: object) -> str:
    """Return 16 hex digits that change with the file's absolute path, size and modification time, and with `extra`."""
    try:
        status = path.stat()
    except OSError as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
    facts = repr((os.path.abspath(path), status.st_size, status.st_mtime_ns, extra))
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def cached_array(
    file_name: str,
    row: tuple[int, ...],
    dtype: np.dtype | type,
    chunks: Chunks,
    count: int | None = None,
    name: str = "",
) -> tuple[np.ndarray, str]:
    """Return an array from the cache, and make it first if it is missing or damaged.

    Arguments:
        file_name: Its name in the cache folder.
        row: The shape of one row.
        dtype: The dtype of its values.
        chunks: Makes the array.
        count: The number of rows; None for as many as `chunks` yields.
        name: What errors call the data that the array is made from.

    Returns:
        The array, `(count, *row)`, and the end of a sentence for the user: "cached in ..." or "kept in memory, ...".

    Raises:
        NarrowsError: The cache cannot be written, and the array is too large to be kept in memory instead.
    """
    path, dtype = cache_folder() / file_name, np.dtype(dtype)
    reason = "cannot be read back"
    if open_cached(path, row, dtype, count) is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent, path.name)
            check_disk(_size(row, dtype) * (count or 0), path.parent)
            with atomic_file(path) as file:
                write_array(file, row, dtype, _while_there_is_room(chunks(), path.parent))
        except OSError as error:
            reason = f"cannot be written ({error.strerror or error})"
    array = open_cached(path, row, dtype, count)
    if array is not None:
        return array, f"cached in {path}"
    if count is None or not fits_in_memory(_size(row, dtype) * count):
        of = f"{name}: its copy " if name else ""
        raise NarrowsError(f"{of}{path} {reason}; make room there, or choose another folder with NARROWS_CACHE")
    return filled(row, dtype, chunks(), count), f"kept in memory, because {path} {reason}"


def converted_array(
    file_name: str, row: tuple[int, ...], dtype: np.dtype, chunks: Chunks, count: int | None = None, name: str = ""
) -> tuple[np.ndarray, str]:
    """Return the array of these chunks, from memory if it fits, else from the cache.

    The arguments are those of `cached_array`. The second value is "" or ", cached in ...".
    """
    with contextlib.suppress(MemoryError):
        if count is not None and fits_in_memory(_size(row, dtype) * count):
            return filled(row, dtype, chunks(), count), ""
        if count is None and open_cached(cache_folder() / file_name, row, dtype) is None:
            array = _collected(row, dtype, chunks)
            if array is not None:
                return array, ""
    array, where = cached_array(file_name, row, dtype, chunks, count, name)
    return array, f", {where}"


def filled(row: tuple[int, ...], dtype: np.dtype, chunks: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Return an array in memory, `(count, *row)`, with these chunks."""
    array = np.empty((count, *row), dtype)
    start = 0
    for chunk in chunks:
        array[start : start + len(chunk)] = chunk
        start += len(chunk)
    assert start == count
    return array


def _collected(row: tuple[int, ...], dtype: np.dtype, chunks: Chunks) -> np.ndarray | None:
    """Return the array of chunks whose number is unknown, or None as soon as they do not fit in memory."""
    array, count = np.empty((0, *row), dtype), 0
    for chunk in chunks():
        start, count = count, count + len(chunk)
        if not fits_in_memory(_size(row, dtype) * count):
            return None
        if count > len(array):
            array.resize((count + count // 8, *row), refcheck=False)
        array[start:count] = chunk
    array.resize((count, *row), refcheck=False)
    return array


def _while_there_is_room(chunks: Iterable[np.ndarray], folder: Path) -> Iterator[np.ndarray]:
    for chunk in chunks:
        check_disk(chunk.nbytes, folder)
        yield chunk


def _size(row: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(row) * dtype.itemsize


def open_cached(path: Path, row: tuple[int, ...], dtype: np.dtype, count: int | None = None) -> np.ndarray | None:
    """Map the array at `path`; return None if the file is missing, incomplete, or holds another array."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.memmap) or array.dtype != dtype or array.shape[1:] != row:
        return None
    return array if count is None or len(array) == count else None


def write_array(file: BinaryIO, row: tuple[int, ...], dtype: np.dtype, chunks: Iterable[np.ndarray]) -> int:
    """Write an .npy file and return its number of rows; numpy's header leaves room to state it at the end."""
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
