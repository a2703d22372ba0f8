"""HDF5 files: folders of arrays, often stored in compressed chunks.

`file.h5::group/images` names a dataset. Without a name it is the only one of rank 2 or more, or the one at the top
called x, X, data, images or imgs. Its shape and dtype are checked before anything is read. Then its rows are read in
order, in whole chunks wherever these are not too large for it, so that each is decompressed once, into memory or, for a
set too large for that, into the cache: chunks are made for being read along, and the random rows of a training batch
would decompress a whole chunk each.

HDF5 answers with fill values where the sources of a virtual dataset are missing. So those are looked for first.
"""

import contextlib
import dataclasses
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from narrows.data.arrays import from_array
from narrows.data.dataset import Data, Values
from narrows.data.own.origin import CHUNK_BYTES, USUAL_KEYS, check_header, file_digest, held
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    import h5py

_MOST_BYTES = 1 << 29
_LISTED = 12


def load_hdf5(path: Path, key: str = "", values: Values = "unit", progress: Progress = silent) -> Data:
    """Return the dataset `key` of the HDF5 file at `path`; key "": the only one, or one with a usual name."""
    with _opened(path, f"{path}::{key}" if key else str(path)) as file:
        dataset = _named(file, key, path) if key else _chosen(file, path)
        key = (key or dataset.name).strip("/")
        text = f"{path}::{key}"
        if dataset.shape is None:
            raise NarrowsError(f"{text} is empty, without a shape; write an array to it")
        check_header(dataset.shape, dataset.dtype, text)
        shape, dtype = dataset.shape, dataset.dtype.newbyteorder("=")
        digest = file_digest(path, key, *(file_digest(other) for other in _other_files(dataset, path, text)))
    chunks = partial(_rows, path, key, text, progress)
    array, where = held(f"hdf5-{digest}.npy", shape[1:], dtype, chunks, shape[0])
    return dataclasses.replace(from_array(array, values, name=text), name=path.stem, note=f"read from {text}{where}")


def _chosen(file: "h5py.File", path: Path) -> "h5py.Dataset":
    found = _datasets(file)
    wide = [key for key, shape in found.items() if len(shape) >= 2]
    chosen = wide[0] if len(wide) == 1 else next((usual for usual in USUAL_KEYS if usual in wide), "")
    if chosen:
        return file[chosen]
    if not wide:
        holds = f" ({_listed(found)})" if found else ""
        raise NarrowsError(f"{path} holds no array of rank 2 or more{holds}; write one, with one example a row")
    raise NarrowsError(f"{path} holds several arrays ({_listed(found)}); choose one, for example {path}::{wide[0]}")


def _named(file: "h5py.File", key: str, path: Path) -> "h5py.Dataset":
    import h5py

    key = key.strip("/") or "/"
    try:
        item = file[key]
    except KeyError:
        link = file.get(key, getlink=True)
        if isinstance(link, (h5py.SoftLink, h5py.ExternalLink)):
            target = f"{link.filename}::{link.path}" if isinstance(link, h5py.ExternalLink) else link.path
            raise NarrowsError(
                f"{path}::{key} is a link to {target}, which cannot be opened; put it there, or choose another key"
            ) from None
        if link is not None:
            raise
        found = _datasets(file)
        near = difflib.get_close_matches(key, found, n=1)
        hint = f"did you mean {path}::{near[0]}? its keys" if near else "choose one of its keys"
        raise NarrowsError(f"{path} holds no array {key!r}; {hint}: {_listed(found)}") from None
    if isinstance(item, h5py.Dataset):
        return item
    if isinstance(item, h5py.Group):
        inside = {f"{key}/{name}".lstrip("/"): shape for name, shape in _datasets(item).items()}
        advice = f"choose an array in it: {_listed(inside)}" if inside else "there is no array in it"
        raise NarrowsError(f"{path}::{key} is a group; {advice}")
    raise NarrowsError(f"{path}::{key} is a {type(item).__name__.lower()}, not an array; choose another key")


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
    listed = [f"{key} {shape}" for key, shape in list(found.items())[:_LISTED]]
    more = [f"and {len(found) - _LISTED} more"] if len(found) > _LISTED else []
    return ", ".join(listed + more) or "none"


def _other_files(dataset: "h5py.Dataset", path: Path, text: str) -> Iterable[Path]:
    """Return the files beside `path` that hold parts of the dataset: a link's target, the sources of a virtual one."""
    import h5py

    others = {Path(dataset.file.filename)}
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        if source.file_name == "." or "%b" in source.file_name:
            continue
        near = (Path(dataset.file.filename).parent / source.file_name, Path(source.file_name))
        file = next((file for file in near if file.is_file() and h5py.is_hdf5(file)), None)
        if file is None:
            raise NarrowsError(
                f"{text} is put together from other files, and {source.file_name} cannot be opened; "
                f"put it beside {path}"
            )
        with h5py.File(file, "r") as opened:
            if source.dset_name not in opened:
                raise NarrowsError(
                    f"{text} is put together from other files, but {file} holds no array {source.dset_name!r}; "
                    "write it again"
                )
        others.add(file)
    return sorted(others - {path})


def _rows(path: Path, key: str, text: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the rows of the dataset in native byte order, several whole chunks at a time."""
    with _opened(path, text) as file:
        dataset = file[key]
        dtype = dataset.dtype.newbyteorder("=")
        step = _step(dataset.shape, dtype, dataset.chunks)
        for start in range(0, len(dataset), step):
            rows = dataset[start : start + step]
            yield rows.astype(dtype, copy=False)
            progress(f"reading {path.name}", start + len(rows), len(dataset))


def _step(shape: tuple[int, ...], dtype: np.dtype, chunks: tuple[int, ...] | None) -> int:
    """Return how many rows to read at once: whole chunks, unless those would take too much memory."""
    width = math.prod(shape[1:]) * dtype.itemsize
    whole = chunks[0] if chunks else 1
    step = max(1, CHUNK_BYTES // (whole * width)) * whole
    return min(step, max(1, _MOST_BYTES // width))


@contextlib.contextmanager
def _opened(path: Path, text: str) -> Iterator["h5py.File"]:
    """Open the file for reading, and say in one line what kept it, or a dataset in it, from being read."""
    try:
        import h5py
    except ImportError:
        raise NarrowsError("reading HDF5 files needs h5py: pip install 'narrows[hdf5]'") from None
    try:
        with path.open("rb") as start:  # h5py's words for a missing or locked file are long
            first = start.read(8)
        if not h5py.is_hdf5(path):
            raise NarrowsError(f"{text}: the file is not an HDF5 file (it starts with {first!r}); check the path")
        with h5py.File(path, "r") as file:
            yield file
    except NarrowsError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except Exception as error:  # a damaged file can break the reader in any way
        reason = str(error.args[0] if error.args else error).partition("\n")[0]
        raise NarrowsError(f"{text}: the file is damaged or incomplete ({reason}); fetch or write it again") from None
