"""NumPy's .npz archives: a zip file with one .npy file for each array.

Of several arrays the one called x, X, data, images or imgs is taken, and `file.npz::key` names any other. A member's
.npy header tells shape and dtype, so both are checked, and its size is known, before its values are unpacked: an array
that fits is read into memory, a larger one is unpacked chunk by chunk into the cache and mapped from there. Pickled
objects are never loaded: a pickle from a stranger runs code.
"""

import contextlib
import dataclasses
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from narrows.data.arrays import dtype_error, from_array
from narrows.data.cache import fits_in_memory
from narrows.data.dataset import Data, Values
from narrows.data.own.origin import CHUNK_BYTES, USUAL_KEYS, check_header, file_digest, held
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError

_MAGIC = b"\x93NUMPY"


@dataclasses.dataclass(frozen=True)
class _Header:
    """What a member's .npy header says, and where in the member its values start."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def load_npz(path: Path, key: str = "", values: Values = "unit", progress: Progress = silent) -> Data:
    """Return the array `key` of the archive at `path`; key "": its only array, or one with a usual name."""
    text = f"{path}::{key}" if key else str(path)
    with _translated(text, path):
        with path.open("rb") as file:
            start = file.read(6)
        if not start.startswith(b"PK"):
            raise _damaged(text, path, f"it starts with {start!r}")
        with zipfile.ZipFile(path) as archive:
            member = _choose(archive.namelist(), key, path)
            with archive.open(member) as stream:
                header = _header(stream, archive.getinfo(member).file_size, values, text)
    check_header(header.shape, header.dtype, text)
    if header.fortran:
        array, where = _read_fortran(path, member, header, text), ""
    else:
        array, where = held(
            f"npz-{file_digest(path, member)}.npy",
            header.shape[1:],
            header.dtype.newbyteorder("="),
            lambda: _rows(path, member, header, text, progress),
            header.shape[0],
        )
    return dataclasses.replace(from_array(array, values, name=text), name=path.stem, note=f"read from {text}{where}")


def _choose(members: list[str], key: str, path: Path) -> str:
    """Return the name of the member for `key`; a key is that name without .npy."""
    keys = [member.removesuffix(".npy") for member in members]
    listed = ", ".join(keys)
    if not keys:
        raise NarrowsError(f"{path} holds no arrays; write it again with numpy.savez")
    if key and key not in keys:
        raise NarrowsError(f"{path} holds no array {key!r}; choose one of its keys: {listed}")
    chosen = key or (keys[0] if len(keys) == 1 else next((usual for usual in USUAL_KEYS if usual in keys), ""))
    if not chosen:
        raise NarrowsError(f"{path} holds several arrays ({listed}); choose one, for example {path}::{keys[0]}")
    return chosen if chosen in members else f"{chosen}.npy"


def _header(stream: IO[bytes], size: int, values: Values, text: str) -> _Header:
    magic = stream.read(len(_MAGIC) + 2)
    if not magic.startswith(_MAGIC):
        from_array(magic, values, name=text)  # type: ignore[arg-type]  # refuses bytes in its own words
    # Version 3 differs from 2 only in how names of fields are encoded, and arrays with fields are not accepted.
    read = np.lib.format.read_array_header_1_0 if magic[-2] == 1 else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise dtype_error(text, "object")
    header = _Header(shape, dtype, fortran and len(shape) > 1, stream.tell())
    if size < header.start + header.nbytes:
        raise ValueError(f"{size} bytes instead of {header.start + header.nbytes} for shape {shape}")
    return header


def _rows(path: Path, member: str, header: _Header, text: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the member's rows in native byte order, about CHUNK_BYTES at a time."""
    count, *row = header.shape
    width = header.nbytes // count
    step = max(1, CHUNK_BYTES // width)
    with _translated(text, path), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        stream.read(header.start)
        for start in range(0, count, step):
            rows = min(step, count - start)
            values = np.frombuffer(_exactly(stream, rows * width), header.dtype).reshape(rows, *row)
            yield values.astype(header.dtype.newbyteorder("="), copy=False)
            progress(f"reading {path.name}", start + rows, count)
        stream.read(1)  # the end of a member is where zipfile compares its checksum


def _read_fortran(path: Path, member: str, header: _Header, text: str) -> np.ndarray:
    """Read a member whose first axis is the fastest: its rows come complete only with its last byte."""
    if not fits_in_memory(header.nbytes):
        raise NarrowsError(
            f"{text}: an array of {header.nbytes / 1e9:.3g} GB in Fortran order cannot be read in parts; "
            "save it again from numpy.ascontiguousarray(array)"
        )
    with _translated(text, path), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        stream.read(header.start)
        flat = np.frombuffer(_exactly(stream, header.nbytes), header.dtype)
        stream.read(1)
        return flat.astype(header.dtype.newbyteorder("="), copy=False).reshape(header.shape, order="F")


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    """Read `size` bytes into memory that is allocated once."""
    content = bytearray(size)
    view = memoryview(content)
    done = 0
    while done < size:
        read = stream.readinto(view[done : done + CHUNK_BYTES])  # type: ignore[attr-defined]
        if not read:
            raise EOFError(f"{size - done} bytes are missing")
        done += read
    return content


@contextlib.contextmanager
def _translated(text: str, path: Path) -> Iterator[None]:
    """Say in one line what kept the archive from being read."""
    try:
        yield
    except NarrowsError:
        raise
    except PermissionError:
        raise NarrowsError(f"{path}: no permission to read it; change its mode or its owner") from None
    except MemoryError:
        raise NarrowsError(
            f"{text}: the array does not fit in memory; save it as .npy, which is read from disk in place"
        ) from None
    except Exception as error:  # a damaged header can break numpy's and zipfile's readers in any way
        raise _damaged(text, path, str(error).partition("\n")[0] or type(error).__name__) from None


def _damaged(text: str, path: Path, reason: str) -> NarrowsError:
    return NarrowsError(
        f"{text}: the file is damaged or not a {path.suffix} file ({reason}); write it again with numpy"
    )
