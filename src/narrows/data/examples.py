"""Examples served by index: collected once, converted once, never the whole set at a time.

The networks see float32 images of shape (C, H, W), but convolutions on a CPU and on current GPUs are fastest when the
channels are last in memory. So every store here keeps (N, H, W, C), a batch is filled in that order, and the networks
receive a permuted view of it: nothing is copied, and `is_contiguous(memory_format=torch.channels_last)` holds.

An array may be mapped from a file that is larger than memory. A page of a mapped file counts as memory of this process
once it has been touched, and the kernel maps its neighbours with it, up to two megabytes where it uses huge pages. So
random batches from a file of 6 GB would end with 6 GB resident, although the system could drop them at any time.
`release` unmaps them after every batch. They stay in the file cache, so touching them again costs a page fault and no
reading, well under a millisecond per batch.
"""

import mmap
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent, steps


class Examples(Protocol):
    """Anything that serves float32 examples by index; a class of your own needs these three."""

    @property
    def shape(self) -> tuple[int, ...]:
        """One example as the networks see it: (C, H, W) for an image, (D,) for a vector."""
        ...

    def __len__(self) -> int: ...

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the examples at `index`: float32, `(len(index), *shape)`, images in channels-last memory."""
        ...


class Rows(Protocol):
    """As much of an array as examples need: numpy's arrays, and rows that lie in many files (rows.py)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, H, W, C) or (N, D)."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any:
        """Return the rows at an array of indices, or in a slice, as an array."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayExamples:
    """Examples in an array, a memory map or other `Rows`, stored (N, H, W, C) or (N, D).

    A batch is (rows - shift) * scale in float32; the difference is taken in the array's own precision, so that a
    column near 1.7e9 that varies by 1 keeps its digits. `shift` and `scale` are numbers, or one number per column.
    """

    array: Rows
    scale: float | np.ndarray = 1.0
    shift: float | np.ndarray = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """One example as the networks see it."""
        return (self.array.shape[-1], *self.array.shape[1:-1])

    def __len__(self) -> int:
        return len(self.array)

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the examples at `index`, see `Examples.batch`."""
        rows = np.asarray(self.array[index])
        release(self.array)
        if np.any(self.shift != 0):
            rows = np.subtract(rows, self.shift, dtype=np.result_type(rows, np.float32))
            rows = np.multiply(rows, self.scale).astype(np.float32, order="C", copy=False)
        elif rows.dtype == np.uint8 and np.ndim(self.scale) == 0:
            return _channels_first(_floats(rows).mul_(float(self.scale)))
        elif rows.dtype == np.float32 and np.all(self.scale == 1):
            rows = np.ascontiguousarray(rows)
        else:
            rows = np.multiply(rows, np.float32(self.scale), dtype=np.float32, order="C")
        return _channels_first(torch.from_numpy(rows))


class ExactRows(ArrayExamples):
    """Vectors in double precision, in the user's units: seconds since 1970 need it."""

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the rows at `index`, (rows, columns) float64."""
        return torch.from_numpy(self.array[index].astype(np.float64))


@dataclass(frozen=True, eq=False)
class PackedExamples:
    """Two-valued images, eight pixels per byte (np.packbits of H, W, C): an eighth of the memory of bytes."""

    bits: np.ndarray
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        width = -(-int(np.prod(self.shape)) // 8)
        if self.bits.dtype != np.uint8 or self.bits.shape[1:] != (width,):
            raise NarrowsError(
                f"PackedExamples of shape {self.shape} need bits (N, {width}) of uint8, "
                f"not {self.bits.shape} of {self.bits.dtype}; pack each image with np.packbits"
            )

    def __len__(self) -> int:
        return len(self.bits)

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the examples at `index`, see `Examples.batch`."""
        pixels = np.unpackbits(self.bits[index], axis=1, count=int(np.prod(self.shape)))
        release(self.bits)
        return _channels_first(_floats(pixels.reshape(-1, *self.shape[1:], self.shape[0])))


SMALL_MAP = 128 << 20
"""Bytes: mapped arrays up to this size may stay resident."""


def release(array: Rows) -> None:
    """Unmap the resident pages of a large mapped array; do nothing to other arrays, or on systems other than Linux."""
    if array.nbytes > SMALL_MAP and isinstance(array, np.ndarray):
        unmap(array)


def unmap(array: np.ndarray) -> None:
    """Unmap the resident pages of a mapped array of any size."""
    if sys.platform != "linux":
        return
    base: object = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode != "r":
            return  # changes of a copy-on-write map would be lost
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def in_batches(
    examples: Examples, index: np.ndarray, rows: int = 256, what: str = "", progress: Progress = silent
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Read examples in batches: the one loop of everything that reads a whole split.

    Arguments:
        examples: Serves them.
        index: Which examples, in this order.
        rows: Examples per batch, at most.
        what: What is being done, for `progress`, such as "encoding".
        progress: Called after each batch with the number of examples done and the total.

    Yields:
        The batch's place in `index`, a slice, and the examples, `(rows, *shape)`.
    """
    for here in steps(len(index), rows, what, progress):
        yield here, examples.batch(index[here])


def _floats(pixels: np.ndarray) -> torch.Tensor:
    """Return bytes as floats, converted by torch's threads, so that each thread has its examples in its cache."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).float()


def _channels_first(rows: torch.Tensor) -> torch.Tensor:
    return rows.permute(0, 3, 1, 2) if rows.dim() == 4 else rows
