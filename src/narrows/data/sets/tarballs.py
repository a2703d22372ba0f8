"""Sets that come as images in a .tar.gz: read in one pass, nothing unpacked to disk, many images resized at once."""

import gzip
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from narrows.errors import NarrowsError

if TYPE_CHECKING:
    from PIL.Image import Resampling

_BUFFER = 1 << 20


@contextmanager
def members(path: Path) -> Iterator[Iterator[tuple[str, int, IO[bytes]]]]:
    """Open the .tar.gz at `path` as one pass over its plain files: name, size, and the file to read before the next.

    Nothing is unpacked to disk. Any damage met on the way, up to the checksum at the very end, is a NarrowsError.
    """
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
            yield _plain_files(archive)
            while stream.read(_BUFFER):
                pass
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror}); check the path or fetch it again") from None
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise NarrowsError(f"{path}: the archive is damaged ({error}); delete it and fetch it again") from None


def resized(images: np.ndarray, side: int, resample: "Resampling") -> np.ndarray:
    """Return the images (N, H, W, 3) uint8 as (N, side, side, 3), exactly as Pillow resizes each alone.

    Pillow filters along rows first, then along columns. So all images one below the other go through the first pass
    at once, and all side by side through the second, without touching each other.
    """
    from PIL import Image

    n, height, width, channels = images.shape
    below = Image.fromarray(images.reshape(n * height, width, channels))
    narrow = np.asarray(below.resize((side, n * height), resample)).reshape(n, height, side, channels)
    beside = Image.fromarray(narrow.swapaxes(0, 1).reshape(height, n * side, channels))
    small = np.asarray(beside.resize((n * side, side), resample)).reshape(side, n, side, channels)
    return np.ascontiguousarray(small.swapaxes(0, 1))


def _plain_files(archive: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    for member in archive:
        file = archive.extractfile(member) if member.isfile() else None
        if file is not None:
            yield posixpath.normpath(member.name), member.size, file
