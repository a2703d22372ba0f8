"""Cars3D: 183 car models, each seen from 24 directions around it and 4 heights, 17,568 images of 64 x 64.

Reed, Zhang, Zhang and Lee ("Deep Visual Analogy-Making", NeurIPS 2015) give the renderings in an archive with their
other sets. data/cars/list.txt names the models, one a line, and data/cars/<name>.mat holds, as `im`, the pictures of
one, (row 128, column 128, colour 3, azimuth 24, elevation 4). Here the set is the whole grid

    elevation 4  x  azimuth 24  x  object_type 183,    last fastest,

with the models in the order of list.txt, which is not the alphabetical one. Images are halved to 64 x 64 with Pillow's
Lanczos filter and kept in the cache (216 MB); once they are there, the archive is no longer needed. Its files
may come in any order, so the small images are held in memory until the last one is read.
"""

import io
import math
import posixpath
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors
from narrows.data.progress import Progress, silent
from narrows.data.sets.download import RemoteFile
from narrows.data.sets.tarballs import members, resized
from narrows.errors import NarrowsError

FILES: tuple[RemoteFile, ...] = (
    RemoteFile(
        "nips2015-analogy-data.tar.gz",
        ("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",),
        "md5:4e866a7919c1beedf53964e6f7a23686",
    ),
)


def _numbered(name: str, count: int) -> Factor:
    return Factor(name, tuple(map(float, range(count))))


FACTORS: tuple[Factor, ...] = (_numbered("elevation", 4), _numbered("azimuth", 24), _numbered("object_type", 183))

_FOLDER = "data/cars"
_LARGE, _SIDE = 128, 64
_FILE, _ROW = "cars3d-64-v1.npy", (_SIDE, _SIDE, 3)  # another filter or order needs a new version


def is_cached() -> bool:
    """Tell whether the cache holds all that `read` needs, so that the archive need not be fetched."""
    return open_cached(cache_folder() / _FILE, _ROW, np.dtype(np.uint8), _count()) is not None


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the set from the cache, filled first, where it is not, from the archive in `folder`."""
    path = folder / FILES[0].name
    pixels, where = cached_array(_FILE, _ROW, np.uint8, lambda: _grid(path, progress), _count())
    return Data(
        "cars3d",
        ArrayExamples(pixels, (3, _SIDE, _SIDE), 1 / 255),
        "unit",
        note=f"halved to {_SIDE} x {_SIDE}, {where}",
        factors=Factors(FACTORS),
    )


def _count() -> int:
    return math.prod(factor.size for factor in FACTORS)


def _grid(path: Path, progress: Progress) -> Iterator[np.ndarray]:
    """Yield for each elevation and azimuth the images of all models: (183, 64, 64, 3) uint8."""
    names, cars = _cars(path, progress)
    elevations, azimuths, objects = (factor.size for factor in FACTORS)
    if len(set(names)) != objects:
        raise NarrowsError(
            f"{path}: {_FOLDER}/list.txt names {len(set(names))} models, not {objects}; delete it and fetch it again"
        )
    for elevation in range(elevations):
        for azimuth in range(azimuths):
            yield np.stack([cars[name][elevation, azimuth] for name in names])


def _cars(path: Path, progress: Progress) -> tuple[list[str], dict[str, np.ndarray]]:
    """Return the models' names in list.txt's order, and the images (elevation, azimuth, 64, 64, 3) of each."""
    names: list[str] = []
    cars: dict[str, np.ndarray] = {}
    refused: dict[str, NarrowsError] = {}  # raised only for a model that is in the list, which may come last
    with members(path) as files:
        for member, _, file in files:
            folder, file_name = posixpath.split(member)
            name, ending = posixpath.splitext(file_name)
            if member == f"{_FOLDER}/list.txt":
                names = file.read().decode("utf-8", "replace").split()
            elif folder == _FOLDER and ending == ".mat" and (name in names or not names):
                progress("halving Cars3D", len(cars), FACTORS[2].size)
                try:
                    cars[name] = _halved(file.read(), f"{path}: {member}")
                except NarrowsError as error:
                    refused[name] = error
    for name in names:
        if name not in cars:
            raise refused.get(name) or NarrowsError(
                f"{path} holds no {_FOLDER}/{name}.mat; delete it and fetch it again"
            )
    progress("halving Cars3D", len(names), FACTORS[2].size)
    return names, cars


def _halved(raw: bytes, name: str) -> np.ndarray:
    """Return the images in one .mat file as (elevation, azimuth, 64, 64, 3) uint8."""
    from PIL.Image import Resampling
    from scipy.io import loadmat

    try:
        images = loadmat(io.BytesIO(raw), variable_names=["im"])["im"]
    except Exception as error:  # a damaged file can break scipy's reader in any way
        reason = str(error).partition("\n")[0]
        raise NarrowsError(f"{name} is damaged ({reason}); delete the archive and fetch it again") from None
    elevations, azimuths = FACTORS[0].size, FACTORS[1].size
    shape = (_LARGE, _LARGE, 3, azimuths, elevations)
    if images.shape != shape or images.dtype != np.uint8:
        raise NarrowsError(
            f"{name}: im is {images.dtype} {images.shape}, not uint8 {shape}; delete the archive and fetch it again"
        )
    views = images.transpose(4, 3, 0, 1, 2).reshape(-1, _LARGE, _LARGE, 3)
    return resized(views, _SIDE, Resampling.LANCZOS).reshape(elevations, azimuths, *_ROW)
