"""`load`: from what a user types, a set's name or a file, to checked Data.

.npy files are mapped from disk, not read. An .npz archive cannot be mapped: its one array is read into
memory; of several, the one called x, X, data, images or imgs is taken, and `file.npz::key` names any other.
Pickled objects are never loaded: a pickle from a stranger runs code.
"""

import dataclasses
import difflib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from narrows.data.arrays import dtype_error, from_array
from narrows.data.dataset import Data, Values
from narrows.data.dsprites import dsprites
from narrows.errors import NarrowsError

SETS: dict[str, Callable[[], Data]] = {"dsprites": dsprites}
_FILES = (".npy", ".npz")
_USUAL_KEYS = ("x", "X", "data", "images", "imgs")


def load(source: str | Path, values: Values = "unit") -> Data:
    """Return the set called `source`, or the array in the file `source` (also "file.npz::key")."""
    text = str(source)
    if text in SETS:
        return SETS[text]()
    file, _, key = text.partition("::")
    path = Path(os.path.expanduser(file))
    if not os.path.exists(path):
        raise _unknown(text)
    if path.is_dir():
        raise NarrowsError(f"{text} is a folder; give a file ({', '.join(_FILES)})")
    if path.suffix.lower() not in _FILES:
        raise NarrowsError(
            f"{text}: files of this kind are not read; save the array with numpy.save as {path.stem}.npy"
        )
    array = _read(path, key, text)
    return dataclasses.replace(from_array(array, values, name=text), name=path.stem, note=f"read from {text}")


def _unknown(text: str) -> NarrowsError:
    near = difflib.get_close_matches(text.lower(), SETS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return NarrowsError(f"no such file or set: {text!r} (sets: {', '.join(SETS)}; files: {', '.join(_FILES)}){hint}")


def _read(path: Path, key: str, text: str) -> np.ndarray:
    try:
        # The first bytes tell the format; and numpy leaves a damaged archive open if it opened it itself.
        with path.open("rb") as file:
            start = file.read(6)
            file.seek(0)
            if start.startswith(b"PK"):
                with np.load(file, allow_pickle=False) as archive:
                    member: np.ndarray = archive[_choose(archive.files, key, path)]
                    return member
        if start != b"\x93NUMPY":
            raise _damaged(text, path, f"it starts with {start!r}")
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except NarrowsError:
        raise
    except PermissionError:
        raise NarrowsError(f"{path}: no permission to read it; change its mode or its owner") from None
    except MemoryError:
        raise NarrowsError(
            f"{text}: the array does not fit in memory; save it as .npy, which is read from disk in place"
        ) from None
    except Exception as error:  # a damaged header can break numpy's reader in any way
        if "object" in str(error).lower():  # numpy's refusal to unpickle
            raise dtype_error(text, "object") from None
        raise _damaged(text, path, str(error).partition("\n")[0]) from None
    if key:
        raise NarrowsError(f"{text}: {path} holds a single array; leave out ::{key}")
    return array


def _damaged(text: str, path: Path, reason: str) -> NarrowsError:
    return NarrowsError(
        f"{text}: the file is damaged or not a {path.suffix} file ({reason}); write it again with numpy"
    )


def _choose(keys: list[str], key: str, path: Path) -> str:
    listed = ", ".join(keys)
    if not keys:
        raise NarrowsError(f"{path} holds no arrays; write it again with numpy.savez")
    if key and key not in keys:
        raise NarrowsError(f"{path} holds no array {key!r}; choose one of its keys: {listed}")
    if key or len(keys) == 1:
        return key or keys[0]
    for usual in _USUAL_KEYS:
        if usual in keys:
            return usual
    raise NarrowsError(f"{path} holds several arrays ({listed}); choose one, for example {path}::{keys[0]}")
