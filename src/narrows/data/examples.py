"""Examples served by index: gathered once, converted once, never the whole set at a time.

The networks see float32 images of shape (C, H, W), but convolutions on a CPU and on current GPUs are
fastest when memory holds them channels last. So every store here keeps N, H, W, C, a batch is filled in
that order, and the networks receive a permuted view of it: no copy, and
`is_contiguous(memory_format=torch.channels_last)` holds.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from narrows.data.mapping import release
from narrows.errors import NarrowsError


class Examples(Protocol):
    """Anything that serves float32 examples by index."""

    @property
    def shape(self) -> tuple[int, ...]:
        """One example as the networks see it: (C, H, W) for an image, (D,) for a vector."""
        ...

    def __len__(self) -> int: ...

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the examples at `index`: float32, `(len(index), *shape)`, images in channels-last memory."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayExamples:
    """Examples in an array or memory map, stored (N, H, W, C) or (N, D).

    A batch is (rows - shift) * scale in float32; the difference is taken in the array's own precision, so that a
    column around 1.7e9 that varies by 1 survives. `shift` and `scale` are numbers, or one number a column.
    """

    array: np.ndarray
    shape: tuple[int, ...]
    scale: float | np.ndarray = 1.0
    shift: float | np.ndarray = 0.0

    def __post_init__(self) -> None:
        if self.array.shape[1:] != _stored(self.shape):
            raise NarrowsError(
                f"ArrayExamples of shape {self.shape} need an array (N, {_axes(_stored(self.shape))}), "
                f"not {self.array.shape}; pass images channels last"
            )

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


@dataclass(frozen=True, eq=False)
class PackedExamples:
    """Two-valued images, eight pixels a byte (np.packbits of H, W, C): an eighth of the memory of bytes."""

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
        return _channels_first(_floats(pixels.reshape(len(pixels), *_stored(self.shape))))


def _floats(pixels: np.ndarray) -> torch.Tensor:
    """Return bytes as floats, written by torch's threads: each of them then has its examples in its own cache."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).float()


def _stored(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(C, H, W) to (H, W, C); a vector stays as it is."""
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


def _axes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _channels_first(rows: torch.Tensor) -> torch.Tensor:
    return rows.permute(0, 3, 1, 2) if rows.dim() == 4 else rows
