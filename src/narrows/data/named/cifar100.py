"""CIFAR-100: 60,000 photographs of 100 kinds of things, upscaled from 32 x 32 to 64 x 64.

Krizhevsky (2009) gives the set as pickles and as plain bytes. A pickle from the network runs code, so this reads the
bytes: in cifar-100-binary.tar.gz, train.bin has 50,000 records and test.bin 10,000, each

    coarse label    1 byte, 0..19
    fine label      1 byte, 0..99
    pixels          3,072 bytes: 32 x 32 reds, then greens, then blues, row by row.

Here they are one set: the training images first, then the test images, whose indices are `Data.test`. Images are
upscaled with Pillow's bilinear filter, so that all sets of photographs and renderings have 64 x 64 pixels, and kept in
the cache (737 MB) with their labels; once they are there, the archive is no longer needed.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors, kinds
from narrows.data.progress import Progress, silent
from narrows.data.sets.download import RemoteFile
from narrows.data.sets.tarballs import members, resized
from narrows.errors import NarrowsError

FILES: tuple[RemoteFile, ...] = (
    RemoteFile(
        "cifar-100-binary.tar.gz",
        ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
        "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        168_513_733,
    ),
)
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
_WORDS = {
    "cifar-100-binary/coarse_label_names.txt": FACTORS[0].words,
    "cifar-100-binary/fine_label_names.txt": FACTORS[1].words,
}
_SMALL, _SIDE = 32, 64
_LABELS = len(FACTORS)
_RECORD = _LABELS + 3 * _SMALL * _SMALL
_AT_ONCE = 500  # records read, upscaled and written together

_LABELS_FILE, _LABELS_ROW = "cifar100-labels-v1.npy", (_LABELS,)
_IMAGES_FILE, _IMAGES_ROW = "cifar100-64-v1.npy", (_SIDE, _SIDE, 3)  # another filter needs a new version


def is_cached() -> bool:
    """Tell whether the cache holds all that `read` needs, so that the archive need not be fetched."""
    folder, count = cache_folder(), TRAIN + TEST
    labels = open_cached(folder / _LABELS_FILE, _LABELS_ROW, np.dtype(np.uint8), count)
    images = open_cached(folder / _IMAGES_FILE, _IMAGES_ROW, np.dtype(np.uint8), count)
    return labels is not None and images is not None


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the set from the cache, filled first, where it is not, from the archive in `folder`."""
    path = folder / FILES[0].name
    count = TRAIN + TEST

    def labels() -> Iterator[np.ndarray]:
        return (records[:, :_LABELS] for records in _records(path, "reading the labels of CIFAR-100", progress))

    def images() -> Iterator[np.ndarray]:
        return (_upscaled(records[:, _LABELS:]) for records in _records(path, "upscaling CIFAR-100", progress))

    labelled, _ = cached_array(_LABELS_FILE, _LABELS_ROW, np.uint8, labels, count)
    pixels, where = cached_array(_IMAGES_FILE, _IMAGES_ROW, np.uint8, images, count)
    return Data(
        "cifar100",
        ArrayExamples(pixels, (3, _SIDE, _SIDE), 1 / 255),
        "unit",
        test=np.arange(TRAIN, count),
        note=f"upscaled to {_SIDE} x {_SIDE}, {where}",
        factors=Factors(FACTORS, labelled),
    )


def _records(path: Path, what: str, progress: Progress) -> Iterator[np.ndarray]:
    """Yield all records, some (n, 3074) uint8 at a time: those of train.bin, then those of test.bin."""
    missing = {_TRAIN, _TEST, *_WORDS}
    test: list[np.ndarray] = []  # 31 MB, held because test.bin may come first
    done = 0
    with members(path) as files:
        for name, size, file in files:
            missing.discard(name)
            if name in _WORDS:
                _check_words(f"{path}: {name}", file.read(), _WORDS[name])
            elif name == _TEST:
                test = list(_split(f"{path}: {name}", size, file, TEST))
            elif name == _TRAIN:
                for records in _split(f"{path}: {name}", size, file, TRAIN):
                    progress(what, done, TRAIN + TEST)
                    yield records
                    done += len(records)
    if missing:
        raise NarrowsError(f"{path} holds no {min(missing)}; delete it and fetch it again")
    for records in test:
        progress(what, done, TRAIN + TEST)
        yield records
        done += len(records)
    progress(what, done, TRAIN + TEST)


def _split(name: str, size: int, file: IO[bytes], count: int) -> Iterator[np.ndarray]:
    if size != count * _RECORD:
        raise NarrowsError(f"{name} has {size} bytes, not {count} x {_RECORD}; delete the archive and fetch it again")
    for start in range(0, count, _AT_ONCE):
        raw = file.read(min(_AT_ONCE, count - start) * _RECORD)
        records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
        highest = records[:, :_LABELS].max(axis=0)
        for factor, label in zip(FACTORS, highest.tolist(), strict=True):
            if label >= factor.size:
                raise NarrowsError(
                    f"{name}: a {factor.name} label is {label}, not 0 to {factor.size - 1}; "
                    "delete the archive and fetch it again"
                )
        yield records


def _check_words(name: str, raw: bytes, expected: tuple[str, ...]) -> None:
    words = raw.decode("utf-8", "replace").split()
    for word, known in itertools.zip_longest(words, expected, fillvalue="nothing"):
        if word != known:
            raise NarrowsError(
                f"{name} has {word!r} where CIFAR-100 has {known!r}; delete the archive and fetch it again"
            )


def _upscaled(pixels: np.ndarray) -> np.ndarray:
    from PIL.Image import Resampling

    planes = pixels.reshape(-1, 3, _SMALL, _SMALL)
    return resized(planes.transpose(0, 2, 3, 1), _SIDE, Resampling.BILINEAR)
