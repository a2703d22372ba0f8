"""NumPy's files: .npy, one array, mapped from disk, and .npz, a zip archive of one .npy file per array.

An archive that scipy.sparse.save_npz wrote is one matrix, in CSR or CSC form, and is never written out in full.
Of several arrays in an archive, the one called x, X, data, images or imgs is taken; `file.npz::key` names any other.
The .npy header of a member states its shape and dtype, so both are checked before any values are decompressed. An array
that fits is read into memory; a larger one is decompressed chunk by chunk into the cache and mapped from there. Pickled
objects are never loaded, because a pickle from a stranger runs code.
"""

import dataclasses
import io
import math
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent, steps
from narrows.data.arrays import check_header, dtype_error, from_array
from narrows.data.cache import converted_array, file_digest, fits_in_memory
from narrows.data.dataset import Data, Missing, Values
from narrows.data.readers.shared import CHUNK_BYTES, check_expansion, listed, readable, usual_key

SPARSE = {f"{name}.npy" for name in ("format", "shape", "data", "indices", "indptr")}
"""The members of an archive with a sparse matrix."""
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000  # characters; numpy reads no longer ones either, but only refuses them after reading
_REMEDY = "write it again with numpy"
_PARSING = threading.Lock()
"""Held while numpy parses a header with `ast.literal_eval`, which Python 3.11 cannot do in several threads at once."""


@dataclasses.dataclass(frozen=True)
class Header:
    """The content of a member's .npy header, and where in the member its values start."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    """Whether the first axis varies fastest."""
    start: int

    @property
    def nbytes(self) -> int:
        """The size of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def load_npy(path: Path, values: Values = "unit", progress: Progress = silent, missing: Missing = "refuse") -> Data:
    """Map the array at `path`, and check its values."""
    data = from_array(map_npy(path), values, str(path), progress, missing=missing)
    return dataclasses.replace(data, name=path.stem, note=f"read from {path}")


def map_npy(path: Path) -> np.ndarray:
    """Map the array at `path`, whose header is compared with the size of the file first."""
    with readable(path, "a .npy file", remedy=_REMEDY):
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                raise NarrowsError(f"{path} is an archive (.npz); save one array of it with numpy.save")
            file.seek(0)
            header = read_header(file, str(path))
            facts = os.fstat(file.fileno())
            _check_size(facts.st_size, header)
        held = getattr(facts, "st_blocks", 0) * 512 or facts.st_size  # a file with holes declares more than it holds
        check_expansion(str(path), held, header.nbytes, "write it again in full")
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _check_size(size: int, header: Header) -> None:
    """Raise if a file or member of `size` bytes cannot hold what its header declares."""
    if any(side < 0 for side in header.shape):
        raise ValueError(f"shape {header.shape} has a negative side")
    if size < (expected := header.start + header.nbytes):
        raise ValueError(f"{size:,} bytes instead of {expected:,} for shape {header.shape}")


def load_npz(
    path: Path, key: str = "", values: Values = "unit", progress: Progress = silent, missing: Missing = "refuse"
) -> Data:
    """Return the array `key` of the archive at `path`; with key "", its only array, or the one with a usual name."""
    text = f"{path}::{key}" if key else str(path)
    with readable(path, "a .npz file", text, _REMEDY), zipfile.ZipFile(path) as archive:
        if not key and set(archive.namelist()) >= SPARSE:
            for facts in archive.infolist():
                check_expansion(text, facts.compress_size, facts.file_size)
            matrix = _read_sparse(path)
            data = from_array(matrix, values, text, progress, missing=missing)
            return dataclasses.replace(data, name=path.stem, note=f"read from {text}, a sparse matrix")
        member = _choose(archive.namelist(), key, path)
        with archive.open(member) as stream:
            header = read_header(stream, text)
        facts = archive.getinfo(member)
        _check_size(facts.file_size, header)
    check_header(header.shape, header.dtype, text)
    check_expansion(text, facts.compress_size, header.nbytes)
    if header.fortran:
        array, where = _read_fortran(path, member, header, text), ""
    else:
        array, where = converted_array(
            f"npz-{file_digest(path, member)}.npy",
            header.shape[1:],
            header.dtype.newbyteorder("="),
            lambda: _rows(path, member, header, text, progress),
            header.shape[0],
            text,
        )
    data = from_array(array, values, text, progress, missing=missing)
    return dataclasses.replace(data, name=path.stem, note=f"read from {text}{where}")


def _read_sparse(path: Path) -> Any:
    """Return the matrix that scipy.sparse.save_npz wrote; its indices are checked, because scipy trusts them."""
    import scipy.sparse  # not above: most archives hold arrays

    matrix = scipy.sparse.load_npz(path)
    matrix.check_format(full_check=True)
    return matrix


def _choose(members: list[str], key: str, path: Path) -> str:
    """Return the name of the member for `key`, which is that name without .npy."""
    keys = [member.removesuffix(".npy") for member in members]
    if not keys:
        raise NarrowsError(f"{path} holds no arrays; write it again with numpy.savez")
    if key and key not in keys:
        raise NarrowsError(f"{path} holds no array {key!r}; choose one of its keys: {listed(keys)}")
    chosen = key or usual_key(keys)
    if not chosen:
        raise NarrowsError(f"{path} holds several arrays ({listed(keys)}); choose one, for example {path}::{keys[0]}")
    return chosen if chosen in members else f"{chosen}.npy"


def read_header(stream: IO[bytes], text: str) -> Header:
    """Read the header of an .npy file from its start."""
    magic = stream.read(len(_MAGIC) + 2)
    if not magic.startswith(_MAGIC):
        raise ValueError(f"{magic!r} is not the start of an array")
    if magic[-2] not in (1, 2, 3):
        raise ValueError(f"version {magic[-2]} of the format is unknown")
    # Version 3 differs from 2 only in how field names are encoded, and arrays with fields are not accepted.
    width, read = (
        (2, np.lib.format.read_array_header_1_0) if magic[-2] == 1 else (4, np.lib.format.read_array_header_2_0)
    )
    length = stream.read(width)
    if int.from_bytes(length, "little") > _LONGEST_HEADER:
        raise ValueError(f"its header has {int.from_bytes(length, 'little'):,} characters")
    head = io.BytesIO(length + stream.read(int.from_bytes(length, "little")))
    with _PARSING:
        shape, fortran, dtype = read(head)
    if dtype.hasobject:
        raise dtype_error(text, "object")
    return Header(shape, dtype, fortran and len(shape) > 1, stream.tell())


def _rows(path: Path, member: str, header: Header, text: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the member's rows in native byte order, about CHUNK_BYTES at a time."""
    count, *row = header.shape
    width = header.nbytes // count
    step = max(1, CHUNK_BYTES // width)
    with readable(path, "a .npz file", text, _REMEDY), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        stream.read(header.start)
        for part in steps(count, step, f"reading {path.name}", progress):
            rows = part.stop - part.start
            values = np.frombuffer(stream.read(rows * width), header.dtype).reshape(rows, *row)
            yield values.astype(header.dtype.newbyteorder("="), copy=False)
        stream.read(1)  # the end of a member is where zipfile compares its checksum


def _read_fortran(path: Path, member: str, header: Header, text: str) -> np.ndarray:
    """Read a member whose first axis varies fastest: its rows are complete only with its last byte."""
    if not fits_in_memory(header.nbytes):
        raise NarrowsError(
            f"{text}: an array of {header.nbytes / 1e9:.3g} GB in Fortran order cannot be read in parts; "
            "save it again from numpy.ascontiguousarray(array)"
        )
    with readable(path, "a .npz file", text, _REMEDY), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)
        return array.astype(header.dtype.newbyteorder("="), copy=False)
