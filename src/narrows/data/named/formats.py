"""The file formats of the named sets: idx files, .tar.gz archives of images, and a check of the official arrays.

An idx file (MNIST) is a big-endian header and the bytes of one array, plain or gzipped:

    0, 0, type code, rank        4 bytes; MNIST's images have code 8 (uint8) and rank 3: the "magic" 2051
    length of each axis          4 bytes each
    the values, last axis fastest

An archive (Cars3D, CIFAR-100) is read in one pass, without unpacking anything to disk.
"""

import gzip
import posixpath
import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from narrows._util.errors import NarrowsError
from narrows.data.readers.shared import readable

if TYPE_CHECKING:
    from PIL.Image import Resampling

AT_ONCE = 1 << 25
"""Bytes of images that are read, converted and written together."""
FETCH_AGAIN = "delete it and fetch it again"

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER = 1 << 20


def read_idx(path: str | Path) -> np.ndarray:
    """Return the array in the idx file at `path`."""
    path = Path(path)
    with readable(path, "an idx file", remedy=FETCH_AGAIN):
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw.startswith(_GZIP_MAGIC) else raw
        if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES or raw[3] == 0:
            raise ValueError(f"it starts with {raw[:4].hex(' ') or 'nothing'}")
        rank = raw[3]
        start = 4 + 4 * rank
        shape = struct.unpack(f">{rank}I", raw[4:start])
        dtype = np.dtype(_TYPES[raw[2]])
        return np.frombuffer(raw, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


@contextmanager
def members(path: Path) -> Iterator[Iterator[tuple[str, int, IO[bytes]]]]:
    """Open the .tar.gz at `path` as one pass over its plain files.

    Yields:
        An iterator of (name, size, file); read a file before you go on to the next.

    Raises:
        NarrowsError: The archive is damaged anywhere, up to the checksum at its very end.
    """
    with (
        readable(path, "a .tar.gz file", remedy=FETCH_AGAIN),
        gzip.open(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive,
    ):
        yield _plain_files(archive)
        while stream.read(_BUFFER):
            pass


def _plain_files(archive: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    for member in archive:
        file = archive.extractfile(member) if member.isfile() else None
        if file is not None:
            yield posixpath.normpath(member.name), member.size, file


def resized(images: np.ndarray, side: int, resample: "Resampling") -> np.ndarray:
    """Return the images (N, H, W, 3) uint8 as (N, side, side, 3), exactly as Pillow resizes each alone.

    Pillow filters along rows first, then along columns. So all images go through the first pass stacked on top of each
    other, and through the second side by side, and none of them influences another.
    """
    from PIL import Image

    n, height, width, channels = images.shape
    below = Image.fromarray(images.reshape(n * height, width, channels))
    narrow = np.asarray(below.resize((side, n * height), resample)).reshape(n, height, side, channels)
    beside = Image.fromarray(narrow.swapaxes(0, 1).reshape(height, n * side, channels))
    small = np.asarray(beside.resize((n * side, side), resample)).reshape(side, n, side, channels)
    return np.ascontiguousarray(small.swapaxes(0, 1))


def check_images(name: str, shape: tuple[int, ...], dtype: np.dtype, expected: tuple[int, ...]) -> None:
    """Raise if the images or labels of an official file are not bytes of the expected shape."""
    if shape != expected or dtype != np.uint8:
        raise NarrowsError(f"{name} holds {dtype} {shape}, not uint8 {expected}; delete the file and fetch it again")
