"""A folder for arrays that are expensive to make: written once and whole, then mapped from disk.

A file appears in the cache under its own name only when it is complete (written beside, synced, renamed),
so two processes may make it at the same time: each renames a good file, and the later one wins. The cache
is never needed: where nothing can be written, the array is kept in memory.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import platformdirs

from narrows.files import atomic_file


def cache_folder() -> Path:
    """Return the folder named by NARROWS_CACHE, else the user's cache folder of this system."""
    chosen = os.environ.get("NARROWS_CACHE")
    return Path(os.path.expanduser(chosen)) if chosen else Path(platformdirs.user_cache_dir("narrows"))


def cached_array(file_name: str, shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> tuple[np.ndarray, str]:
    """Return the uint8 array kept in `file_name`, made first where it is missing or damaged, and where it is.

    The second value ends a sentence for the user: "cached in ..." or "kept in memory, since ...".
    """
    path = cache_folder() / file_name
    array = _open(path, shape)
    if array is None:
        made = make()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as file:
                np.save(file, made)
        except OSError as error:
            return made, f"kept in memory, since {path.parent} cannot be written ({error.strerror or error})"
        array = _open(path, shape)
        if array is None:
            return made, f"kept in memory, since {path} cannot be read back"
    return array, f"cached in {path}"


def _open(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Map the array at `path`; None where the file is missing, cut short, or something else."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.memmap) or array.dtype != np.uint8 or array.shape != shape:
        return None
    return array
