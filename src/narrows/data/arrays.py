"""Your own arrays: which are accepted, how their axes are read, and what is checked before training starts.

==========  ============================================================================================
dtype       uint8 (0..255, served as [0, 1]; only 0 and 1: served as they are), bool, float16, 32 or 64
(N, D)      vectors
(N, H, W)   images of one channel
rank 4      (N, H, W, C) if the last axis is 1, 3 or 4, else (N, C, H, W) if the second axis is
values      finite; floats in [0, 1], or anything up to 1e15 with values="any"
==========  ============================================================================================

A NaN in example 40,000 is cheaper to find here than in the loss an hour later, so every value is looked at
once, a few megabytes at a time: an array mapped from disk is never read into memory whole. The array itself
is not copied.
"""

from collections.abc import Iterator

import numpy as np
import torch

from narrows.data.dataset import Data, Values
from narrows.data.examples import ArrayExamples
from narrows.data.mapping import release
from narrows.errors import NarrowsError, OptionError

_CHUNK_BYTES = 1 << 24
CHANNELS = (1, 3, 4)
LARGEST = 1e15


def from_array(array: np.ndarray | torch.Tensor, values: Values = "unit", name: str = "array") -> Data:
    """Check `array` and wrap it, without a copy, as Data. `name` stands in front of every error."""
    if values not in ("unit", "any"):
        raise NarrowsError(f"{name}: values={values!r} is not known; use 'unit' or 'any'")
    array = _as_numpy(array, name)
    check_dtype(array.dtype, name)
    stored = channels_last(array, name)
    if array.dtype.kind == "f":
        _check_floats(array, values, name)
        scale = 1.0
    else:
        values = "unit"
        scale = 1.0 if _only_zeros_and_ones(array) else 1 / 255
    shape = (stored.shape[-1], *stored.shape[1:-1])
    return Data(name, ArrayExamples(stored, shape, scale), values)


def dtype_error(name: str, dtype: str) -> NarrowsError:
    """Return the error for a dtype that is not accepted: which are, and how to convert."""
    return NarrowsError(
        f"{name}: dtype {dtype} is not accepted (accepted: uint8, bool, float16, float32, float64); "
        "convert with array.astype('uint8') if these are pixels 0..255, else with array.astype('float32')"
    )


def _as_numpy(array: object, name: str) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        try:
            return array.detach().cpu().numpy()
        except (TypeError, RuntimeError):  # bfloat16 and sparse tensors have no numpy form
            raise dtype_error(name, f"{array.dtype} ({array.layout})") from None
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise NarrowsError(f"{name}: some values are masked; fill them in (array.filled) or leave those examples out")
    if not isinstance(array, np.ndarray):
        raise NarrowsError(
            f"{name}: a {type(array).__name__} is not an array; pass a numpy array, a torch tensor or Dataset, or what "
            "narrows.load gives for a file"
        )
    return np.asarray(array)


def check_dtype(dtype: np.dtype, name: str) -> None:
    """Refuse a dtype that cannot be served."""
    accepted = dtype.kind == "b" or dtype == np.uint8 or (dtype.kind == "f" and dtype.itemsize <= 8)
    if not accepted:
        raise dtype_error(name, str(dtype))


def channels_last(array: np.ndarray, name: str) -> np.ndarray:
    """View `array` as (N, D) or (N, H, W, C)."""
    shape = array.shape
    if array.ndim not in (2, 3, 4):
        raise NarrowsError(
            f"{name}: shape {shape} has rank {array.ndim}; reshape it to (N, D) for vectors, "
            "(N, H, W) or (N, H, W, C) for images"
        )
    if 0 in shape:
        raise NarrowsError(f"{name}: shape {shape} is empty; every axis needs a length of 1 or more")
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


def _check_floats(array: np.ndarray, values: Values, name: str) -> None:
    low, high = np.inf, -np.inf
    broken, first = 0, 0
    for start, chunk in _chunks(array):
        finite = np.isfinite(chunk)
        if finite.all():
            low, high = min(low, float(chunk.min())), max(high, float(chunk.max()))
            continue
        if not broken:
            first = start + int(np.argwhere(~finite)[0, 0])
        broken += finite.size - int(np.count_nonzero(finite))
    if broken:
        raise NarrowsError(
            f"{name}: {broken} of {array.size} values are NaN or infinite, first in example {first}; "
            "fill them in or leave those examples out"
        )
    if values == "unit" and not 0 <= low <= high <= 1:
        raise OptionError(
            f"{name}: values run from {low:.6g} to {high:.6g}, outside [0, 1]",
            "rescale them, or allow any range with --values any (values='any' in Python)",
            "the model was trained on values in [0, 1]; rescale these in the same way",
        )
    _check_largest(low, high, name)


def check_range(array: np.ndarray, name: str) -> None:
    """Refuse finite values that single precision cannot square and sum."""
    for _, chunk in _chunks(array):
        _check_largest(float(chunk.min()), float(chunk.max()), name)


def _check_largest(low: float, high: float, name: str) -> None:
    if max(-low, high) > LARGEST:
        raise NarrowsError(
            f"{name}: values run from {low:.6g} to {high:.6g}, "
            f"more than single precision can square and sum ({LARGEST:.3g}); rescale them"
        )


def _only_zeros_and_ones(array: np.ndarray) -> bool:
    return array.dtype.kind == "b" or all(chunk.max() <= 1 for _, chunk in _chunks(array))


def _chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first row, rows) in pieces of about _CHUNK_BYTES."""
    rows = max(1, _CHUNK_BYTES * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
        release(array)
