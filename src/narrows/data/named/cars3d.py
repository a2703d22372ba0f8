"""Cars3D: 183 car models, each seen from 24 directions around it and 4 heights, 17,568 images of 64 x 64.

Reed, Zhang, Zhang and Lee ("Deep Visual Analogy-Making", NeurIPS 2015) publish the renderings in an archive with their
other sets. data/cars/list.txt names the models, one per line, and data/cars/<name>.mat holds, as `im`, the images of
one model, (row 128, column 128, colour 3, azimuth 24, elevation 4). Here the set is the whole grid

    elevation 4  x  azimuth 24  x  object_type 183,    last fastest,

with the models in the order of list.txt, which is not alphabetical. Images are reduced to 64 x 64 with Pillow's Lanczos
filter and cached (216 MB); then the archive is no longer needed. Its members may come in any order, so the small images
are held in memory until the last one is read.
"""

import io
import posixpath
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent
from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors, evenly
from narrows.data.named.download import RemoteFile
from narrows.data.named.formats import check_images, members, resized

ARCHIVE = RemoteFile(
    "nips2015-analogy-data.tar.gz",
    ("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",),
    "md5:4e866a7919c1beedf53964e6f7a23686",
)
FILES = (ARCHIVE,)

FACTORS: tuple[Factor, ...] = (
    Factor("elevation", evenly(0, 3, 4)),
    Factor("azimuth", evenly(0, 23, 24)),
    Factor("object_type", evenly(0, 182, 183)),
)

_FOLDER = "data/cars"
_LARGE, _SIDE = 128, 64
_FILE, _ROW = "cars3d-64-v1.npy", (_SIDE, _SIDE, 3)  # another filter or order needs a new version


def is_cached() -> bool:
    """Return whether the cache holds all that `read` needs, so that the archive need not be fetched."""
    return open_cached(cache_folder() / _FILE, _ROW, np.dtype(np.uint8), Factors(FACTORS).count) is not None


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the set from the cache, which is filled from the archive in `folder` first."""
    path, factors = folder / ARCHIVE.name, Factors(FACTORS)
    pixels, where = cached_array(_FILE, _ROW, np.uint8, lambda: _grid(path, progress), factors.count)
    note = f"halved to {_SIDE} x {_SIDE}, {where}"
    return Data("cars3d", ArrayExamples(pixels, 1 / 255), "unit", note=note, factors=factors)


def _grid(path: Path, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the images of all models, (183, 64, 64, 3) uint8, for each elevation and azimuth."""
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
    errors: dict[str, NarrowsError] = {}  # raised only for models in the list, which may come last
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
                    errors[name] = error
    for name in names:
        if name not in cars:
            raise errors.get(name) or NarrowsError(
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
    check_images(f"{name}: im", images.shape, images.dtype, (_LARGE, _LARGE, 3, azimuths, elevations))
    views = images.transpose(4, 3, 0, 1, 2).reshape(-1, _LARGE, _LARGE, 3)
    return resized(views, _SIDE, Resampling.LANCZOS).reshape(elevations, azimuths, *_ROW)
