"""Codes and what they are decoded to, a few rows at a time.

The functions here are generators, and `write` puts what they yield into one .npy file that appears when it is
complete: memory does not grow with the data. Codes are posterior means, with the dimension of the largest cost of
removal first. Images come out as (N, H, W) or (N, H, W, C), in the unit in which they went in.
"""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import atomic_file, check_regular
from narrows._util.progress import Progress, silent, steps
from narrows.data import Data
from narrows.data.cache import write_array
from narrows.data.examples import in_batches
from narrows.data.readers.archives import map_npy
from narrows.data.statistics import Moments
from narrows.inference.trained import ROWS, Trained, layout


@torch.no_grad()
def encode(trained: Trained, data: Data, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield codes, (rows, n) float32."""
    for _, x in in_batches(data.exact, np.arange(len(data.examples)), ROWS, "encoding", progress):
        yield trained.model.encode(x).mean.numpy()


@torch.no_grad()
def reconstruct(trained: Trained, data: Data, errors: Moments, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield decoded posterior means; the error of each, counted as the promise counts it, is added to `errors`."""
    for _, x in in_batches(data.exact, np.arange(len(data.examples)), ROWS, "reconstructing", progress):
        y = trained.model.reconstruct(x)
        errors.add(trained.error(x, y))
        yield layout(y)


@torch.no_grad()
def impute(trained: Trained, data: Data, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield the data with reconstructions, from the mean of the codes, in place of missing values."""
    for _, x in in_batches(data.exact, np.arange(len(data.examples)), ROWS, "filling in", progress):
        yield layout(trained.filled(x))


@torch.no_grad()
def decode(trained: Trained, codes: np.ndarray, progress: Progress = silent) -> Iterator[np.ndarray]:
    """Yield the examples that codes, (N, n), are decoded to."""
    if codes.ndim != 2 or codes.shape[1] != trained.model.n or codes.dtype.kind not in "fiu":
        raise NarrowsError(
            f"codes of {trained.path} are numbers, (N, {trained.model.n}); these are {codes.dtype} {codes.shape}"
        )
    if not len(codes):
        raise NarrowsError("the file of codes has 0 rows; it needs at least one")
    for here in steps(len(codes), ROWS, "decoding", progress):
        rows, start = np.asarray(codes[here]), here.start
        _raise_at_first(~np.isfinite(rows), start, "is not finite; codes are finite numbers")
        _raise_at_first(np.abs(rows) > np.finfo(np.float32).max, start, "is too large for single precision (3.4e+38)")
        decoded = layout(trained.model.decode(torch.from_numpy(rows.astype(np.float32))))
        _raise_at_first(~np.isfinite(decoded), start, "is too large: its decoded values overflow single precision")
        yield decoded


def _raise_at_first(bad: np.ndarray, start: int, problem: str) -> None:
    """Raise if any value is bad, naming the first such code by its row in the file, counted from 0."""
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(1))
    if len(rows):
        raise NarrowsError(f"code {start + int(rows[0])} {problem}")


def read_codes(path: Path) -> np.ndarray:
    """Map an array of codes from a .npy file."""
    check_regular(path)
    return map_npy(path)


def check_output(path: Path, *suffixes: str) -> None:
    """Raise if `path` cannot become a file with one of the suffixes."""
    if path.suffix not in suffixes:
        raise NarrowsError(f"{path}: the output is a {suffixes[0]} file; give it that suffix")
    if path.parent.exists() and not path.parent.is_dir():
        raise NarrowsError(f"{path}: {path.parent} is not a folder; choose another {setting('out')}")
    if not path.parent.is_dir():
        raise NarrowsError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise NarrowsError(f"{path} is a folder; name a file")


def check_room(path: Path, size: int, name: str, value: int) -> None:
    """Raise if `size` bytes do not fit beside `path`, because the setting `name` asks for so many."""
    free = shutil.disk_usage(path.parent).free
    if 0 < free < size:
        raise NarrowsError(
            f"{setting(name, value)} needs {size / 1e9:,.1f} GB, but {path.parent} has {free / 1e9:,.1f} GB free; use "
            f"a smaller {setting(name)}, or choose another {setting('out')}"
        )


def write(path: Path, parts: Iterator[np.ndarray]) -> tuple[int, ...]:
    """Write the parts of an array into one .npy file, completely or not at all, and return the array's shape."""
    try:
        with atomic_file(path) as file:
            first = next(parts)
            count = write_array(file, first.shape[1:], first.dtype, itertools.chain([first], parts))
    except OSError as error:
        raise NarrowsError(f"cannot write {path}: {error.strerror}; choose another {setting('out')}") from error
    return (count, *first.shape[1:])
