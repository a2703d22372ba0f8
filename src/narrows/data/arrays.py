"""Arrays that you already hold: which are accepted, how their axes are read, and what is checked before training.

==========  ============================================================================================
dtype       uint8 (0..255, served as [0, 1]; only 0 and 1: served as they are), bool, float16, 32 or 64
(N, D)      vectors
(N, H, W)   images of one channel
rank 4      (N, H, W, C) if the last axis is 1, 3 or 4, else (N, C, H, W) if the second axis is
values      finite; floats in [0, 1], or up to 1e15 in size with values="any"; NaN with missing="mask"
==========  ============================================================================================

A NaN in example 40,000 is cheaper to find here than in the loss an hour later, so every value is checked once, a few
megabytes at a time: an array mapped from disk is never read into memory as a whole. The array itself is not copied.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch

from narrows._util.checks import argument, one_of
from narrows._util.errors import NarrowsError, OptionError, setting
from narrows._util.progress import Progress, silent, steps
from narrows._util.text import printable
from narrows.data.counting import Counting
from narrows.data.dataset import Data, Missing, Values
from narrows.data.examples import ArrayExamples, Rows, release
from narrows.data.sparse import SparseRows, is_sparse

_CHUNK_BYTES = 1 << 24
_QUICK = 1 << 30  # bytes that are checked without showing progress
FILL_IN = "fill them in or leave those examples out"
MASK = setting("missing", "mask")
CHANNELS = (1, 3, 4)
LARGEST = 1e15
MOST_VALUES = 1 << 26
"""Values of one example: with 128 units, the first layer of a network on more of them would take 2^35 bytes."""


def from_array(
    array: np.ndarray | torch.Tensor | Any,
    values: Values = "unit",
    name: str = "array",
    progress: Progress = silent,
    *,
    missing: Missing = "refuse",
    weights: Any = None,
    groups: Any = None,
) -> Data:
    """Check an array and wrap it, without a copy, as `Data`.

    Arguments:
        array: Vectors (N, D), or images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1, 3 or 4 channels; uint8, bool,
            float16, float32 or float64. Bytes 0..255 are served as [0, 1], bytes that are only 0 and 1 as they are. A
            scipy sparse matrix, (N, D), of any of these or of whole numbers, is served as it is, batch by batch.
        values: "unit" if floats must lie in [0, 1], "any" for any finite numbers.
        name: What errors and run folders call the data.
        progress: Called with (what, done, total) while the values are checked.
        missing: "mask" if NaN (and what a masked array masks) stands for a value that was not observed.
        weights: How much each example counts, (N,): numbers from 0 on; by default all count the same.
        groups: The group of each example, (N,), numbers or texts: a group is never divided between splits.

    Returns:
        The data, with examples of shape (D,) or (C, H, W), float32.

    Raises:
        NarrowsError: The dtype, the shape or a value cannot be used.
    """
    if values not in ("unit", "any"):
        raise NarrowsError(f"{name}: {setting('values')} must be unit or any; it is {values!r}")
    check_missing(missing)
    if is_sparse(array):
        if missing == "mask":
            raise NarrowsError(
                f"{name}: a sparse matrix has zeros where it stores nothing, and no gaps; leave {MASK} out"
            )
        rows = SparseRows(array, name)
        check_header(rows.shape, rows.dtype, name)
        return replace(
            from_rows(rows, values, name, progress, missing), counting=Counting.of(len(rows), weights, groups)
        )
    array = _as_numpy(array, name, missing)
    check_dtype(array.dtype, name)
    data = from_rows(channels_last(array, name), values, name, progress, missing)
    return replace(data, counting=Counting.of(len(array), weights, groups))


def check_missing(missing: Missing) -> None:
    """Raise if this is not one of the words for what NaN means."""
    argument("missing", missing, one_of(get_args(Missing)))


def from_rows(
    stored: Rows, values: Values, name: str, progress: Progress = silent, missing: Missing = "refuse"
) -> Data:
    """Check the values of rows, (N, D) or (N, H, W, C), and wrap them as `from_array` does."""
    if stored.dtype.kind == "f":
        absent = check_floats(stored, values, name, progress, missing)
        return Data(name, ArrayExamples(stored), values, missing=absent)
    only_zeros_and_ones = stored.dtype.kind == "b" or all(chunk.max() <= 1 for _, chunk in _chunks(stored, progress))
    return Data(name, ArrayExamples(stored, 1.0 if only_zeros_and_ones else 1 / 255), "unit")


def dtype_error(name: str, dtype: str) -> NarrowsError:
    """Return the error for a dtype that is not accepted, with those that are and how to convert."""
    return NarrowsError(
        f"{name}: dtype {dtype} is not accepted (accepted: uint8, bool, float16, float32, float64); "
        "convert with array.astype('uint8') if these are pixels 0..255, else with array.astype('float32')"
    )


def tensor_to_numpy(tensor: torch.Tensor, name: str) -> np.ndarray:
    """Return a tensor as an array, without a copy if it is on the CPU."""
    try:
        return tensor.detach().cpu().numpy()
    except (TypeError, RuntimeError):  # numpy has no bfloat16 and no sparse arrays
        raise dtype_error(name, f"{tensor.dtype} ({tensor.layout})") from None


def _as_numpy(array: object, name: str, missing: Missing) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        return tensor_to_numpy(array, name)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        if missing == "mask":
            return np.ma.filled(array.astype(np.promote_types(array.dtype, np.float32)), np.nan)
        raise NarrowsError(
            f"{name}: some values are masked; {setting('missing', 'mask')} trains on the others, or fill them in "
            "(array.filled) or leave those examples out"
        )
    if not isinstance(array, np.ndarray):
        raise NarrowsError(
            f"{name}: a {type(array).__name__} is not an array; pass a numpy array, a torch tensor or Dataset, a scipy "
            "sparse matrix, or the result of narrows.load"
        )
    return np.asarray(array)


def check_dtype(dtype: np.dtype, name: str) -> None:
    """Raise if examples of this dtype cannot be served."""
    accepted = dtype.kind == "b" or dtype == np.uint8 or (dtype.kind == "f" and dtype.itemsize <= 8)
    if dtype.names:
        raise NarrowsError(
            f"{name}: an array with fields ({printable(', '.join(dtype.names))}) is not accepted; make them columns "
            "with numpy.lib.recfunctions.structured_to_unstructured(array)"
        )
    if not accepted:
        raise dtype_error(name, str(dtype))


def check_header(shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    """Raise, before anything is read, if `from_array` would refuse an array of this shape and dtype."""
    check_dtype(dtype, name)
    channels_last(np.broadcast_to(np.zeros((), dtype), shape), name)


def channels_last(array: np.ndarray, name: str) -> np.ndarray:
    """Return a view of `array` as (N, D) or (N, H, W, C); raise if its axes cannot be read so."""
    shape = array.shape
    if array.ndim not in (2, 3, 4):
        raise NarrowsError(
            f"{name}: shape {shape} has rank {array.ndim}; reshape it to (N, D) for vectors, "
            "(N, H, W) or (N, H, W, C) for images"
        )
    if 0 in shape:
        raise NarrowsError(f"{name}: shape {shape} is empty; every axis needs a length of 1 or more")
    if math.prod(shape[1:]) > MOST_VALUES:
        raise NarrowsError(
            f"{name}: shape {shape} has {math.prod(shape[1:]):,} values per example, and at most {MOST_VALUES:,} can "
            "be trained on; make the examples smaller"
        )
    if array.ndim == 3:
        return array[..., np.newaxis]
    if array.ndim == 2 or shape[3] in CHANNELS:
        return array
    if shape[1] in CHANNELS:
        return array.transpose(0, 2, 3, 1)
    raise NarrowsError(
        f"{name}: shape {shape} has no axis of 1, 3 or 4 channels; "
        "arrange images as (N, H, W, C) or (N, C, H, W), or flatten them to vectors (N, D)"
    )


def check_floats(
    array: Rows, values: Values, name: str, progress: Progress = silent, missing: Missing = "refuse"
) -> int:
    """Return how many values are missing.

    Raises:
        NarrowsError: A value is not finite (nor NaN, for "mask"), lies outside [0, 1] for "unit", or is too large for
            single precision; or a column has no value at all.
    """
    low, high = np.inf, -np.inf
    broken, first, absent = 0, 0, 0
    seen = np.zeros(array.shape[1:], bool)
    for start, chunk in _chunks(array, progress):
        finite = np.isfinite(chunk)
        if finite.all():
            low, high = min(low, float(chunk.min())), max(high, float(chunk.max()))
            seen[...] = True
            continue
        if missing == "mask":
            gaps = np.isnan(chunk)
            seen |= finite.any(0)
            absent += int(np.count_nonzero(gaps))
            if finite.any():
                low, high = min(low, float(chunk[finite].min())), max(high, float(chunk[finite].max()))
            finite |= gaps
            if finite.all():
                continue
        if not broken:
            first = start + int(np.argwhere(~finite)[0, 0])
        broken += finite.size - int(np.count_nonzero(finite))
    if broken:
        kind = "infinite" if missing == "mask" else "NaN or infinite"
        raise OptionError(
            f"{name}: {broken} of {math.prod(array.shape)} values are {kind}, first in example {first}",
            FILL_IN if missing == "mask" else f"{FILL_IN}, or train on what was observed with {MASK}",
            FILL_IN,
        )
    if seen.ndim == 1 and not seen.all():
        raise NarrowsError(
            f"{name}: column {int(seen.argmin())} has no value in any of {len(array)} rows; leave it out"
        )
    if absent == math.prod(array.shape):
        raise NarrowsError(f"{name}: all values are missing; check how it was written")
    if values == "unit" and not 0 <= low <= high <= 1:
        raise OptionError(
            f"{name}: values range from {low:.6g} to {high:.6g}, outside [0, 1]",
            f"rescale them, or allow any range with {setting('values', 'any')}",
            "the model was trained on values in [0, 1]; rescale these in the same way",
        )
    if max(-low, high) > LARGEST:
        raise NarrowsError(
            f"{name}: values range from {low:.6g} to {high:.6g}, "
            f"more than single precision can square and sum ({LARGEST:.3g}); rescale them"
        )
    return absent


def _chunks(array: Rows, progress: Progress) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first row, rows) in pieces of about _CHUNK_BYTES."""
    rows = max(1, _CHUNK_BYTES * len(array) // array.nbytes)
    show = progress if array.nbytes > _QUICK else silent
    for part in steps(len(array), rows, "checking the values", show):
        yield part.start, array[part]
        release(array)
