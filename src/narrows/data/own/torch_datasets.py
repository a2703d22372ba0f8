"""Your own torch Dataset, gathered once.

A training run reads every example hundreds of times and in any order, so the dataset is walked through once, each
item converted, and the result kept as one array: in memory where it may be, else in a temporary file that is mapped
and gone when the process ends. Random augmentation is therefore drawn once and not at every epoch. What an item is:

==================  =====================================================================================
array, tensor       itself: (D,), (H, W), (H, W, C) or (C, H, W); uint8, bool or floats, as in arrays.py
PIL image           its pixels, by the rules of images.py: one channel if it is grey, else three
tuple, list         its first entry, since most datasets give (image, label)
dict                its entry x, image, images, data or pixel_values, else its first
==================  =====================================================================================

A TensorDataset already holds one tensor: that is taken as it is, without a copy.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from narrows.data.arrays import dtype_error, from_array
from narrows.data.cache import fits_in_memory
from narrows.data.dataset import Data, Values
from narrows.data.own.images import to_array
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError

_USUAL_KEYS = ("x", "image", "images", "data", "pixel_values")
_CHUNK_BYTES = 1 << 24


def from_dataset(
    dataset: Dataset[Any], values: Values = "unit", name: str = "dataset", progress: Progress = silent
) -> Data:
    """Gather `dataset`, map-style or an IterableDataset that ends, and check it as `from_array` does."""
    if isinstance(dataset, TensorDataset):
        return from_array(dataset.tensors[0], values, name)
    count, items = _walk(dataset, name)
    items = iter(items)
    try:
        first = _to_numpy(next(items), name, 0)
    except StopIteration:
        raise NarrowsError(f"{name}: the dataset gives no items; pass one that holds examples") from None
    from_array(first[np.newaxis], "any", name)  # a wrong dtype or rank is told before the rest is read
    rows = _rows(items, first, name)
    if count and fits_in_memory(count * first.nbytes):
        array = _in_memory(rows, count, first, progress)
    else:
        array = _in_a_file(rows, count, first, name, progress)
    return from_array(array, values, name)


def _walk(dataset: object, name: str) -> tuple[int, Iterable[Any]]:
    """Return the number of items (0: only their end tells) and the items."""
    if isinstance(dataset, DataLoader):
        raise NarrowsError(f"{name}: a DataLoader gives batches, not examples; pass its dataset, loader.dataset")
    if isinstance(dataset, IterableDataset):
        return 0, dataset
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        count = len(dataset)
        return count, (dataset[i] for i in range(count))
    raise NarrowsError(
        f"{name}: a {type(dataset).__name__} is not a dataset of known length; "
        "give it __len__ and __getitem__, or derive it from torch.utils.data.IterableDataset"
    )


def _rows(items: Iterator[Any], first: np.ndarray, name: str) -> Iterator[np.ndarray]:
    """Yield every item as an array, all of the first one's shape and dtype."""
    yield first
    for i, item in enumerate(items, start=1):
        row = _to_numpy(item, name, i)
        if row.shape != first.shape or row.dtype != first.dtype:
            raise NarrowsError(
                f"{name}: item {i} has shape {row.shape} and dtype {row.dtype}, item 0 has {first.shape} and "
                f"{first.dtype}; bring all items to one shape and dtype in the dataset's transform"
            )
        yield row


def _to_numpy(item: object, name: str, number: int) -> np.ndarray:
    while isinstance(item, tuple | list | Mapping) and item:
        if isinstance(item, Mapping):
            key = next((usual for usual in _USUAL_KEYS if usual in item), next(iter(item)))
            item = item[key]
        else:
            item = item[0]
    if isinstance(item, np.ndarray):
        return item
    if isinstance(item, torch.Tensor):
        try:
            return item.detach().cpu().numpy()
        except (TypeError, RuntimeError):
            raise dtype_error(f"{name}: item {number}", f"{item.dtype} ({item.layout})") from None
    from PIL import Image

    if isinstance(item, Image.Image):
        try:
            return to_array(item)
        except NarrowsError as error:
            raise NarrowsError(f"{name}: item {number}: {error}") from None
    raise NarrowsError(
        f"{name}: item {number} leads to a {type(item).__name__}; "
        "each item must be, or hold first, an array, a tensor or a PIL image"
    )


def _in_memory(rows: Iterator[np.ndarray], count: int, first: np.ndarray, progress: Progress) -> np.ndarray:
    array = np.empty((count, *first.shape), first.dtype)
    step = _step(first)
    for i, row in enumerate(rows):
        array[i] = row
        if (i + 1) % step == 0 or i + 1 == count:
            progress("gathering the dataset", i + 1, count)
    return array


def _in_a_file(rows: Iterator[np.ndarray], count: int, first: np.ndarray, name: str, progress: Progress) -> np.ndarray:
    """Write the rows to a nameless file and map it; the map keeps it until the process ends."""
    written, step = 0, _step(first)
    with tempfile.TemporaryFile(buffering=0) as file:
        for row in rows:
            rest = np.ascontiguousarray(row).reshape(-1).view(np.uint8).data
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as error:
                raise NarrowsError(
                    f"{name}: the temporary file cannot take item {written} ({error.strerror}); "
                    f"make room in {tempfile.gettempdir()}, or choose another folder with TMPDIR"
                ) from None
            written += 1
            if written % step == 0 or written == count:
                progress("gathering the dataset", written, count)
        return np.memmap(file, first.dtype, "r", shape=(written, *first.shape))


def _step(first: np.ndarray) -> int:
    return max(1, _CHUNK_BYTES // max(1, first.nbytes))
