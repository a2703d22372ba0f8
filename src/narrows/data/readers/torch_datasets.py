"""Torch datasets that you already have, read once into one array.

A training run reads every example hundreds of times and in random order, so the dataset is iterated once, each item is
converted, and the result is kept as one array: in memory if it fits, else in a temporary file that is mapped and
disappears when the process ends. Random augmentation is therefore drawn once, not in every epoch. An item may be

==================  =====================================================================================
array, tensor       (D,), (H, W), (H, W, C) or (C, H, W); uint8, bool or floats, as in arrays.py
PIL image           its pixels, by the rules of images.py: one channel if it is grey, else three
tuple, list         its first element is taken, because most datasets give (image, label)
dict                its value for x, image, images, data or pixel_values, else its first value
==================  =====================================================================================

A TensorDataset already holds one tensor, which is used as it is, without a copy.
"""

import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent
from narrows._util.room import check_disk
from narrows.data.arrays import from_array, tensor_to_numpy
from narrows.data.cache import filled, fits_in_memory
from narrows.data.dataset import Data, Values
from narrows.data.readers.images import to_array
from narrows.data.readers.shared import CHUNK_BYTES

_USUAL_KEYS = ("x", "image", "images", "data", "pixel_values")


def from_dataset(
    dataset: Dataset[Any], values: Values = "unit", name: str = "dataset", progress: Progress = silent
) -> Data:
    """Read a torch dataset once and check it as `from_array` does.

    Arguments:
        dataset: A map-style dataset, or an IterableDataset that ends; see above for what its items may be.
        values: "unit" if floats must lie in [0, 1], "any" for any finite numbers.
        name: What errors and run folders call the data.
        progress: Called with (what, done, total) while the dataset is read; total is 0 if it is unknown.

    Returns:
        The data, with examples of shape (D,) or (C, H, W), float32.

    Raises:
        NarrowsError: The dataset is empty, or an item cannot be used or differs from the first in shape or dtype.
    """
    if isinstance(dataset, TensorDataset):
        return from_array(dataset.tensors[0], values, name)
    count, items = _iterate(dataset, name)
    try:
        first = _to_numpy(next(items), name, 0)
    except StopIteration:
        raise NarrowsError(f"{name}: the dataset is empty; pass one that holds examples") from None
    from_array(first[np.newaxis], "any", name)  # reports a wrong dtype or rank before the rest is read
    chunks = _chunks(items, first, count, name, progress)
    if count and fits_in_memory(count * first.nbytes):
        array = filled(first.shape, first.dtype, chunks, count)
    else:
        array = _in_a_file(chunks, first, name)
    return from_array(array, values, name)


def _iterate(dataset: object, name: str) -> tuple[int, Iterator[Any]]:
    """Return the number of items, 0 if it is unknown, and the items."""
    if isinstance(dataset, DataLoader):
        raise NarrowsError(f"{name}: a DataLoader gives batches, not examples; pass its dataset, loader.dataset")
    if isinstance(dataset, IterableDataset):
        return 0, iter(dataset)
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        count = len(dataset)
        return count, (dataset[i] for i in range(count))
    raise NarrowsError(
        f"{name}: a {type(dataset).__name__} is not a dataset of known length; "
        "give it __len__ and __getitem__, or derive it from torch.utils.data.IterableDataset"
    )


def _chunks(items: Iterator[Any], first: np.ndarray, count: int, name: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the items as arrays, about CHUNK_BYTES at a time; raise if one differs from the first in shape or dtype."""
    step, done = max(1, CHUNK_BYTES // max(1, first.nbytes)), 0
    rows = itertools.chain([first], (_to_numpy(item, name, i) for i, item in enumerate(items, start=1)))
    while chunk := list(itertools.islice(rows, step)):
        for i, row in enumerate(chunk, start=done):
            if row.shape != first.shape or row.dtype != first.dtype:
                raise NarrowsError(
                    f"{name}: item {i} has shape {row.shape} and dtype {row.dtype}, item 0 has "
                    f"{first.shape} and {first.dtype}; give all items one shape and dtype in the dataset's transform"
                )
        done += len(chunk)
        yield np.stack(chunk)
        progress("reading the dataset", done, count)


def _to_numpy(item: object, name: str, number: int) -> np.ndarray:
    while isinstance(item, tuple | list | Mapping) and item:
        keys = [*(usual for usual in _USUAL_KEYS if usual in item), *item] if isinstance(item, Mapping) else [0]
        item = item[keys[0]]
    if isinstance(item, np.ndarray):
        return item
    if isinstance(item, torch.Tensor):
        return tensor_to_numpy(item, f"{name}: item {number}")
    from PIL import Image

    if isinstance(item, Image.Image):
        try:
            return to_array(item)
        except NarrowsError as error:
            raise NarrowsError(f"{name}: item {number}: {error}") from None
    raise NarrowsError(
        f"{name}: item {number} leads to a {type(item).__name__}; "
        "each item must be, or begin with, an array, a tensor or a PIL image"
    )


def _in_a_file(chunks: Iterator[np.ndarray], first: np.ndarray, name: str) -> np.ndarray:
    """Write the chunks to a nameless file and map it; the map keeps the file until the process ends."""
    count = 0
    with tempfile.TemporaryFile() as file:
        for chunk in chunks:
            try:
                check_disk(chunk.nbytes, Path(tempfile.gettempdir()))
                file.write(np.ascontiguousarray(chunk).data)
                file.flush()
            except OSError as error:
                raise NarrowsError(
                    f"{name}: the temporary file cannot take items {count} to {count + len(chunk) - 1} "
                    f"({error.strerror}); make room in {tempfile.gettempdir()}, or choose another folder with TMPDIR"
                ) from None
            count += len(chunk)
        return np.memmap(file, first.dtype, "r", shape=(count, *first.shape))
