"""CIFAR-100: 60,000 photographs of 100 kinds of things, upscaled from 32 x 32 to 64 x 64.

Krizhevsky (2009) publishes the set as pickles and as plain bytes. A pickle from the network runs code, so this module
reads the bytes: in cifar-100-binary.tar.gz, train.bin has 50,000 records and test.bin 10,000, each

    coarse label    1 byte, 0..19
    fine label      1 byte, 0..99
    pixels          3,072 bytes: 32 x 32 reds, then greens, then blues, row by row.

Here they are one set: the training images first, then the test images, whose indices are `Data.test`. Images are
upscaled with Pillow's bilinear filter, so that all sets of photographs and renderings have 64 x 64 pixels, and cached
(737 MB) with their labels; then the archive is no longer needed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, counted, silent, steps
from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors, kinds
from narrows.data.named.download import RemoteFile
from narrows.data.named.formats import members, resized

ARCHIVE = RemoteFile(
    "cifar-100-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    168_513_733,
)
FILES = (ARCHIVE,)
TRAIN, TEST = 50_000, 10_000

_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""
_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
FACTORS: tuple[Factor, ...] = (kinds("coarse", _COARSE.split()), kinds("fine", _FINE.split()))

_TRAIN, _TEST = "cifar-100-binary/train.bin", "cifar-100-binary/test.bin"
_SMALL, _SIDE = 32, 64
_LABELS = len(FACTORS)
_RECORD = _LABELS + 3 * _SMALL * _SMALL
_AT_ONCE = 500  # records read, upscaled and written together

_LABELS_FILE, _LABELS_ROW = "cifar100-labels-v1.npy", (_LABELS,)
_IMAGES_FILE, _IMAGES_ROW = "cifar100-64-v1.npy", (_SIDE, _SIDE, 3)  # another filter needs a new version


def is_cached() -> bool:
    """Return whether the cache holds all that `read` needs, so that the archive need not be fetched."""
    arrays = ((_LABELS_FILE, _LABELS_ROW), (_IMAGES_FILE, _IMAGES_ROW))
    opened = (open_cached(cache_folder() / file, row, np.dtype(np.uint8), TRAIN + TEST) for file, row in arrays)
    return all(array is not None for array in opened)


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the set from the cache, which is filled from the archive in `folder` first."""
    path, count = folder / ARCHIVE.name, TRAIN + TEST

    def labels() -> Iterator[np.ndarray]:
        for records in counted(_records(path), count, "reading the labels of CIFAR-100", progress):
            yield records[:, :_LABELS]

    def images() -> Iterator[np.ndarray]:
        return map(_upscaled, counted(_records(path), count, "upscaling CIFAR-100", progress))

    labelled, _ = cached_array(_LABELS_FILE, _LABELS_ROW, np.uint8, labels, count)
    pixels, where = cached_array(_IMAGES_FILE, _IMAGES_ROW, np.uint8, images, count)
    examples, factors = ArrayExamples(pixels, 1 / 255), Factors(FACTORS, labelled)
    note = f"upscaled to {_SIDE} x {_SIDE}, {where}"
    return Data("cifar100", examples, "unit", test=np.arange(TRAIN, count), note=note, factors=factors)


def _records(path: Path) -> Iterator[np.ndarray]:
    """Yield all records, some (n, 3074) uint8 at a time: those of train.bin, then those of test.bin."""
    missing = {_TRAIN, _TEST}
    test: list[np.ndarray] = []  # 31 MB, held because test.bin may come first
    with members(path) as files:
        for name, size, file in files:
            missing.discard(name)
            if name == _TEST:
                test = list(_split(f"{path}: {name}", size, file, TEST))
            elif name == _TRAIN:
                yield from _split(f"{path}: {name}", size, file, TRAIN)
    if missing:
        raise NarrowsError(f"{path} holds no {min(missing)}; delete it and fetch it again")
    yield from test


def _split(name: str, size: int, file: IO[bytes], count: int) -> Iterator[np.ndarray]:
    if size != count * _RECORD:
        raise NarrowsError(f"{name} has {size} bytes, not {count} x {_RECORD}; delete the archive and fetch it again")
    for part in steps(count, _AT_ONCE):
        raw = file.read((part.stop - part.start) * _RECORD)
        yield np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)


def _upscaled(records: np.ndarray) -> np.ndarray:
    from PIL.Image import Resampling

    planes = records[:, _LABELS:].reshape(-1, 3, _SMALL, _SMALL)
    return resized(planes.transpose(0, 2, 3, 1), _SIDE, Resampling.BILINEAR)
