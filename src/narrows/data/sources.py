"""`load`: from what a user types to checked Data.

==============================  ==========================================================================
dsprites, mnist, ...            a set by name (catalogue.py)
my.npy                          an array, mapped from disk and not read
my.npz, my.npz::key             an array of an archive (archives.py)
my.csv, .tsv, .parquet          a table of numbers (tables.py)
my.h5, my.h5::group/key         a dataset of an HDF5 file (hdf5.py)
a folder                        all PNG, JPEG and WebP images in it (images.py)
hf:NAME, hf:NAME@CONFIG::COLUMN a set of the Hugging Face hub (hub.py)
==============================  ==========================================================================

Pickled objects are never loaded: a pickle from a stranger runs code.
"""

import csv
import dataclasses
import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from narrows.data.arrays import dtype_error, from_array
from narrows.data.dataset import Data, Values
from narrows.data.own.images import check_size
from narrows.data.progress import Progress, silent
from narrows.data.sets.catalogue import SETS, open_set
from narrows.errors import NarrowsError

Kind = Literal["set", "hub", "folder", "npy", "npz", "table", "hdf5"]
ENDINGS: dict[str, Kind] = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "table",
    ".tsv": "table",
    ".csv.gz": "table",
    ".tsv.gz": "table",
    ".parquet": "table",
    ".pq": "table",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
}
HUB = "hf:"
# Which option is for which kinds of source, in the words of the refusal.
_FOR: dict[str, tuple[tuple[Kind, ...], str]] = {
    "source": (("set",), "sets that can be drawn (dsprites, shapes3d)"),
    "image_size": (("folder", "hub"), "folders of images and hf: sets"),
    "skip_broken": (("folder",), "folders of images"),
    "columns": (("table",), "tables (.csv, .tsv, .parquet)"),
}


def load(
    source: str | Path,
    values: Values = "unit",
    *,
    origin: Literal["auto", "drawn", "official"] = "auto",
    image_size: str | int | tuple[int, int] | None = None,
    skip_broken: bool = False,
    columns: str | Sequence[str] | None = None,
    progress: Progress = silent,
) -> Data:
    """Return the data that `source` names, see the table above.

    `values` "any" allows arrays beyond [0, 1]. `origin` chooses between the drawn and the official form of a set.
    `image_size`, 64, "48x64" or (48, 64) (height, width), scales and crops images; `skip_broken` leaves out files that
    are no images; `columns` takes these columns of a table, a list or "a,b,c".
    """
    text = str(source)
    kind = kind_of(text)
    if origin not in ("auto", "drawn", "official"):
        raise NarrowsError(f"origin={origin!r} is not known; use 'auto', 'drawn' or 'official'")
    given = {
        "source": origin != "auto",
        "image_size": image_size is not None,
        "skip_broken": skip_broken,
        "columns": columns is not None,
    }
    for option, is_given in given.items():
        kinds, words = _FOR[option]
        if is_given and kind not in kinds:
            raise NarrowsError(f"--{option.replace('_', '-')} is for {words}, and {text} is none of them; leave it out")
    size = None if image_size is None else _size(image_size)
    if kind == "set":
        return open_set(SETS[text], origin, progress)
    if kind == "hub":
        from narrows.data.own.hub import load_hub

        return load_hub(text.removeprefix(HUB), values, size, progress)
    path, key = _path_and_key(text)
    if kind == "folder":
        from narrows.data.own.images import load_images

        return load_images(path, size, skip_broken, progress)
    if kind == "npz":
        from narrows.data.own.archives import load_npz

        return load_npz(path, key, values, progress)
    if kind == "hdf5":
        from narrows.data.own.hdf5 import load_hdf5

        return load_hdf5(path, key, values, progress)
    if key:
        raise NarrowsError(f"{text}: {path} has no parts with names; leave out ::{key}")
    if kind == "table":
        from narrows.data.own.tables import load_table

        return load_table(path, _names(columns), progress)
    array = _read_npy(path)
    return dataclasses.replace(from_array(array, values, name=text), name=path.stem, note=f"read from {text}")


def absolute(source: str) -> str:
    """Make a file's or folder's path absolute, keeping `::key`, so that a run can be resumed from anywhere."""
    if source in SETS:
        return source
    if source.startswith(HUB):
        folder, mark, column = source.removeprefix(HUB).partition("::")
        whole = os.path.expanduser(folder)
        return f"{HUB}{os.path.abspath(whole)}{mark}{column}" if os.path.isdir(whole) else source
    path, key = _path_and_key(source)
    return f"{path.absolute()}{'::' if key else ''}{key}" if os.path.exists(path) else source


def _path_and_key(text: str) -> tuple[Path, str]:
    file, _, key = (text, "", "") if os.path.exists(text) else text.partition("::")
    return Path(os.path.expanduser(file)), key


def kind_of(text: str) -> Kind:
    """Say what a name, a path or an address stands for."""
    if text in SETS:
        return "set"
    if text.startswith(HUB):
        return "hub"
    path, key = _path_and_key(text)
    if os.path.islink(path) and not os.path.exists(path):
        raise NarrowsError(f"{text} is a link to something that is not there; mend the link")
    if not text or not os.path.exists(path):
        raise _unknown(text)
    if path.is_dir():
        if key:
            raise NarrowsError(f"{text}: {path} is a folder; leave out ::{key}")
        return "folder"
    for ending, kind in ENDINGS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise NarrowsError(
        f"{text}: files of this kind are not read (known: {', '.join(ENDINGS)}); "
        f"save a table as {path.stem}.csv, an array with numpy.save as {path.stem}.npy"
    )


def _unknown(text: str) -> NarrowsError:
    near = difflib.get_close_matches(text.lower(), SETS, n=1) or _near_files(text)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return NarrowsError(
        f"no such file, folder or set: {text[:200]!r} (sets: {', '.join(SETS)}; files: {', '.join(ENDINGS)}){hint}"
    )


def _near_files(text: str) -> list[str]:
    path, _ = _path_and_key(text)
    try:
        beside = os.listdir(path.parent)
    except OSError:
        return []
    return [str(path.parent / name) for name in difflib.get_close_matches(path.name, beside, n=1)]


def _size(image_size: str | int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(image_size, tuple):
        image_size = "x".join(map(str, image_size))
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", str(image_size).strip().lower())
    if found is None:
        raise NarrowsError(f"--image-size {image_size!r} is not a size; give 64, or 48x64 for height x width")
    size = int(found[1]), int(found[2] or found[1])
    check_size(size)
    return size


def _names(columns: str | Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    names = next(csv.reader([columns], skipinitialspace=True), []) if isinstance(columns, str) else columns
    names = [str(name).strip() for name in names]
    if not names or not all(names):
        raise NarrowsError(f'--columns {columns!r} has an empty name; write them as a,b,"c, with a comma"')
    return names


def _read_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start != b"\x93NUMPY":
            raise _damaged(path, f"it starts with {start!r}")
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except NarrowsError:
        raise
    except PermissionError:
        raise NarrowsError(f"{path}: no permission to read it; change its mode or its owner") from None
    except Exception as error:  # a damaged header can break numpy's reader in any way
        if "object" in str(error).lower():  # numpy's refusal to unpickle
            raise dtype_error(str(path), "object") from None
        raise _damaged(path, str(error).partition("\n")[0]) from None
    return array


def _damaged(path: Path, reason: str) -> NarrowsError:
    return NarrowsError(f"{path}: the file is damaged or not a .npy file ({reason}); write it again with numpy")
