"""HDF5 files: folders of arrays, often stored in compressed chunks.

`file.h5::group/images` names a dataset. Without a name, the only one of rank 2 or more is taken, or the one at the top
level called x, X, data, images or imgs. Its shape and dtype are checked before anything is read. Its rows are then read
in order, in whole chunks unless these are too large, so that each chunk is decompressed once. They go into memory
or, if too large for that, into the cache: the random rows of a training batch would decompress one whole chunk each.

A dataset may lie in other files than the one that was named; hdf5_links.py says which of those are read.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from narrows._util.errors import NarrowsError, did_you_mean
from narrows._util.progress import Progress, silent, steps
from narrows.data.arrays import check_header, from_array
from narrows.data.cache import converted_array, file_digest
from narrows.data.dataset import Data, Missing, Values
from narrows.data.readers.hdf5_links import Reach
from narrows.data.readers.shared import CHUNK_BYTES, check_expansion, listed, readable, usual_key

if TYPE_CHECKING:
    import h5py

_MOST_BYTES = 1 << 29


def load_hdf5(
    path: Path, key: str = "", values: Values = "unit", progress: Progress = silent, missing: Missing = "refuse"
) -> Data:
    """Return the dataset `key` of the HDF5 file at `path`; key "": the only one, or one with a usual name."""
    with open_hdf5(path, f"{path}::{key}" if key else str(path)) as file:
        dataset = _named(file, key, path) if key else _chosen(file, path)
        key = (key or dataset.name).strip("/")
        text = f"{path}::{key}"
        if dataset.shape is None:
            raise NarrowsError(f"{text} is empty, without a shape; write an array to it")
        check_header(dataset.shape, dataset.dtype, text)
        shape, dtype = dataset.shape, dataset.dtype.newbyteorder("=")
        others = sorted(Reach(path, text).files(dataset) - {path})
        stored = sum(file.stat().st_size for file in (path, *others))
        check_expansion(text, stored, math.prod(shape) * dtype.itemsize)
        digest = file_digest(path, key, *map(file_digest, others))
    chunks = partial(_rows, path, key, text, progress)
    array, where = converted_array(f"hdf5-{digest}.npy", shape[1:], dtype, chunks, shape[0], text)
    data = from_array(array, values, text, progress, missing=missing)
    return dataclasses.replace(data, name=path.stem, note=f"read from {text}{where}")


def _chosen(file: "h5py.File", path: Path) -> "h5py.Dataset":
    found = _datasets(file)
    wide = [key for key, shape in found.items() if len(shape) >= 2]
    if chosen := usual_key(wide):
        return file[chosen]
    if not wide:
        holds = f" ({_listed(found)})" if found else ""
        raise NarrowsError(f"{path} holds no array of rank 2 or more{holds}; write one, with one example a row")
    raise NarrowsError(f"{path} holds several arrays ({_listed(found)}); choose one, for example {path}::{wide[0]}")


def _named(file: "h5py.File", key: str, path: Path) -> "h5py.Dataset":
    import h5py

    key = key.strip("/") or "/"
    Reach(path, f"{path}::{key}").check_links(file, key)
    item = file.get(key)
    if isinstance(item, h5py.Dataset):
        return item
    found = _datasets(file)
    if item is None:
        raise NarrowsError(
            f"{path} holds no array {key!r}, or a link to one that cannot be opened; choose one of its keys: "
            f"{_listed(found)}{did_you_mean(key, found)}"
        )
    inside = {name: shape for name, shape in found.items() if name.startswith(f"{key}/")}
    raise NarrowsError(
        f"{path}::{key} is a {type(item).__name__.lower()}, not an array; choose an array: {_listed(inside or found)}"
    )


def _datasets(group: "h5py.Group") -> dict[str, tuple[int, ...]]:
    """Return the keys and shapes of the arrays in `group` and the groups in it, without following links elsewhere."""
    import h5py

    found = {}

    def note(key: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found[key] = item.shape

    group.visititems(note)
    return found


def _listed(found: Mapping[str, tuple[int, ...]]) -> str:
    return listed([f"{key} {shape}" for key, shape in found.items()]) or "none"


def _rows(path: Path, key: str, text: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the rows of the dataset in native byte order, several whole chunks at a time."""
    with open_hdf5(path, text) as file:
        dataset = file[key]
        dtype = dataset.dtype.newbyteorder("=")
        for part in steps(len(dataset), rows_at_once(dataset), f"reading {path.name}", progress):
            yield dataset[part].astype(dtype, copy=False)


def rows_at_once(dataset: "h5py.Dataset") -> int:
    """Return how many rows to read together: whole chunks, unless those would take too much memory."""
    width = math.prod(dataset.shape[1:]) * dataset.dtype.itemsize
    whole = dataset.chunks[0] if dataset.chunks else 1
    step = max(1, CHUNK_BYTES // (whole * width)) * whole
    return min(step, max(1, _MOST_BYTES // width))


@contextlib.contextmanager
def open_hdf5(path: Path, text: str = "", remedy: str = "fetch or write it again") -> Iterator["h5py.File"]:
    """Open the file for reading, see `readable`."""
    try:
        import h5py
    except ImportError:
        raise NarrowsError("reading HDF5 files needs h5py: pip install 'narrows[hdf5]'") from None
    # The file is opened twice, because h5py's own errors for a missing or locked file are long.
    with readable(path, "an HDF5 file", text, remedy), path.open("rb"), h5py.File(path, "r") as file:
        yield file
