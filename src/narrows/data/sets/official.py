"""The official files of dSprites and 3D Shapes, for those who want these instead of the drawn sets.

dSprites (Matthey, Higgins, Hassabis and Lerchner, 2017) is an .npz archive. Its `imgs` are 3 GB of bytes that are 0 or
1; they are unpacked a little at a time and kept in the cache as bits (377 MB), as the drawn set is. Its `metadata` is
a pickle, which would run code when loaded: that member is never opened.

3D Shapes (Burgess and Kim, 2018) is a compressed HDF5 file: no image can be had without unpacking the whole block it
lies in. It is converted once, block by block, to a plain array (5.9 GB) in the cache.

Both files also hold the factors of every image. These must stand in the order of the drawn set's FACTORS, last fastest,
because narrows takes an image's number for its factors; a file in any other order is refused. Once the cache is filled,
the files are no longer needed.
"""

import math
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples, PackedExamples
from narrows.data.factors import Factor, Factors
from narrows.data.progress import Progress, silent
from narrows.data.sets.download import RemoteFile
from narrows.data.sets.dsprites import FACTORS as DSPRITES_FACTORS
from narrows.errors import NarrowsError

DSPRITES_FILES: tuple[RemoteFile, ...] = (
    RemoteFile(
        "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        (
            "https://github.com/google-deepmind/dsprites-dataset/raw/master/"
            "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        ),
        "md5:7da33b31b13a06f4b04a70402ce90c2e",
    ),
)
SHAPES3D_FILES: tuple[RemoteFile, ...] = (
    RemoteFile(
        "3dshapes.h5",
        ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
        "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
        267_573_662,
    ),
)

_SIDE = 64
_BYTES = _SIDE * _SIDE // 8
_DSPRITES_FILE = "dsprites-official-v1.npy"
_SHAPES3D_FILE, _SHAPES3D_ROW = "shapes3d-official-v1.npy", (_SIDE, _SIDE, 3)
_AT_ONCE = 1 << 25  # bytes of images read, converted and written together


def dsprites_is_cached() -> bool:
    """Tell whether the cache holds all that `read_dsprites` needs, so that the file need not be fetched."""
    count = _count(DSPRITES_FACTORS)
    return open_cached(cache_folder() / _DSPRITES_FILE, (_BYTES,), np.dtype(np.uint8), count) is not None


def read_dsprites(path: Path, progress: Progress = silent) -> Data:
    """Return dSprites from the cache, filled first, where it is not, from the official .npz file or its folder."""
    bits, where = cached_array(
        _DSPRITES_FILE,
        (_BYTES,),
        np.uint8,
        lambda: _packed(_found(path, DSPRITES_FILES), progress),
        _count(DSPRITES_FACTORS),
    )
    examples = PackedExamples(bits, shape=(1, _SIDE, _SIDE))
    return Data("dsprites", examples, "unit", note=f"the official file, {where}", factors=Factors(DSPRITES_FACTORS))


def shapes3d_is_cached() -> bool:
    """Tell whether the cache holds all that `read_shapes3d` needs, so that the file need not be fetched."""
    from narrows.data.sets.shapes3d import FACTORS

    count = _count(FACTORS)
    return open_cached(cache_folder() / _SHAPES3D_FILE, _SHAPES3D_ROW, np.dtype(np.uint8), count) is not None


def read_shapes3d(path: Path, progress: Progress = silent) -> Data:
    """Return 3D Shapes from the cache, filled first, where it is not, from the official .h5 file or its folder."""
    from narrows.data.sets.shapes3d import FACTORS

    pixels, where = cached_array(
        _SHAPES3D_FILE,
        _SHAPES3D_ROW,
        np.uint8,
        lambda: _unchunked(_found(path, SHAPES3D_FILES), FACTORS, progress),
        _count(FACTORS),
    )
    examples = ArrayExamples(pixels, (3, _SIDE, _SIDE), 1 / 255)
    return Data("shapes3d", examples, "unit", note=f"the official file, {where}", factors=Factors(FACTORS))


def _count(factors: tuple[Factor, ...]) -> int:
    return math.prod(factor.size for factor in factors)


def _found(path: Path, files: tuple[RemoteFile, ...]) -> Path:
    return path / files[0].name if path.is_dir() else path


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except NarrowsError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        reason = error.strerror or str(error)
        raise NarrowsError(f"{path} cannot be read ({reason}); check the path or fetch it again") from None
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0].strip("'\"")
        raise NarrowsError(f"{path}: the file is damaged ({reason}); delete it and fetch it again") from None


def _packed(path: Path, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the images of dSprites, some (n, 512) uint8 of packed bits at a time."""
    count = _count(DSPRITES_FACTORS)
    with _refusing_damage(path), zipfile.ZipFile(path) as archive:
        with archive.open("latents_classes.npy") as file:
            classes = np.lib.format.read_array(file, allow_pickle=False)
        everyone = np.arange(count)
        _check_order(path, "latents_classes", classes, Factors(DSPRITES_FACTORS).of(everyone))
        with archive.open("imgs.npy") as file:
            _check_images(path, "imgs", *_header(file), (count, _SIDE, _SIDE))
            rows = _AT_ONCE // _SIDE**2
            for start in range(0, count, rows):
                progress("packing dSprites", start, count)
                images = np.frombuffer(file.read(min(rows, count - start) * _SIDE**2), np.uint8)
                highest = images.max()
                if highest > 1:
                    raise NarrowsError(f"{path}: a pixel in imgs is {highest}, not 0 or 1; fetch the official file")
                yield np.packbits(images.reshape(-1, _SIDE**2), axis=1)
    progress("packing dSprites", count, count)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Read the header of an .npy file: its array's shape and dtype."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(file)
    if fortran_order:
        raise ValueError("imgs is stored column by column")
    return shape, dtype


def _unchunked(path: Path, factors: tuple[Factor, ...], progress: Progress) -> Iterator[np.ndarray]:
    """Yield the images of 3D Shapes, some (n, 64, 64, 3) uint8 at a time."""
    try:
        import h5py
    except ImportError:
        raise NarrowsError("reading HDF5 files needs h5py: pip install 'narrows[hdf5]'") from None
    count = _count(factors)
    _check_room(path, count * math.prod(_SHAPES3D_ROW))
    with _refusing_damage(path), h5py.File(path, "r") as file:
        images = file["images"]
        _check_images(path, "images", images.shape, images.dtype, (count, *_SHAPES3D_ROW))
        everyone = np.arange(count)
        _check_order(path, "labels", file["labels"][:], Factors(factors).values_of(everyone))
        rows = _rows_at_once(images.chunks)
        for start in range(0, count, rows):
            progress("converting 3D Shapes", start, count)
            yield images[start : start + rows]
    progress("converting 3D Shapes", count, count)


def _rows_at_once(chunks: tuple[int, ...] | None) -> int:
    """Whole blocks of the HDF5 file, so that none is unpacked twice."""
    rows = _AT_ONCE // math.prod(_SHAPES3D_ROW)
    block = chunks[0] if chunks else 1
    return max(rows // block, 1) * block if block <= 8 * rows else rows


def _check_images(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype, expected: tuple[int, ...]) -> None:
    if shape != expected or dtype != np.uint8:
        raise NarrowsError(f"{path}: {name} is {dtype} {shape}, not uint8 {expected}; fetch the official file")


def _check_order(path: Path, name: str, found: np.ndarray, expected: np.ndarray) -> None:
    if found.shape != expected.shape:
        raise NarrowsError(f"{path}: {name} has shape {found.shape}, not {expected.shape}; fetch the official file")
    wrong = ~np.isclose(found, expected, rtol=0, atol=1e-6).all(axis=1)
    if wrong.any():
        first = int(wrong.argmax())
        raise NarrowsError(
            f"{path}: {name} of image {first} is {found[first].tolist()}, not {expected[first].tolist()}, "
            "so its images stand in another order; fetch the official file"
        )


def _check_room(path: Path, needed: int) -> None:
    folder = cache_folder()
    free = shutil.disk_usage(folder).free if folder.is_dir() else needed
    if free < needed:
        raise NarrowsError(
            f"{path}: its images take {needed / 1e9:.1f} GB, but {folder} has {free / 1e9:.1f} GB free; "
            "make room there, or choose another folder with NARROWS_CACHE"
        )
