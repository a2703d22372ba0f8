"""MNIST: 70,000 handwritten digits, 28 x 28, one channel, with their labels.

LeCun, Cortes and Burges (1998) publish it as four gzipped idx files (formats.py): images and labels of 60,000 digits to
train on and of 10,000 to test on. Here they are one set: the training images first, then the test images, whose indices
are `Data.test`. Unpacking all four takes 0.2 seconds, so the set is read every time and held in memory (55 MB).
"""

from pathlib import Path

import numpy as np

from narrows._util.progress import Progress, silent
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors, kinds
from narrows.data.named.download import RemoteFile
from narrows.data.named.formats import check_images, read_idx

TRAIN, TEST = 60_000, 10_000
FACTORS: tuple[Factor, ...] = (kinds("digit", "0123456789"),)

_SIDE = 28
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _remote(name: str, sha256: str, unpacked: str, size: int) -> RemoteFile:
    urls = tuple(mirror + name for mirror in _MIRRORS)
    return RemoteFile(name, urls, f"sha256:{sha256}", size, f"sha256:{unpacked}")


FILES: tuple[RemoteFile, ...] = (
    _remote(
        "train-images-idx3-ubyte.gz",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        9_912_422,
    ),
    _remote(
        "train-labels-idx1-ubyte.gz",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        28_881,
    ),
    _remote(
        "t10k-images-idx3-ubyte.gz",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        1_648_877,
    ),
    _remote(
        "t10k-labels-idx1-ubyte.gz",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        4_542,
    ),
)
"""Images and labels to train on, then images and labels to test on."""


def is_cached() -> bool:
    """Return False: the files themselves are read every time."""
    return False


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the set from the four files in `folder`."""
    images = np.empty((TRAIN + TEST, _SIDE, _SIDE, 1), np.uint8)
    labels = np.empty((TRAIN + TEST, 1), np.uint8)
    for done, (file, part) in enumerate(zip(FILES, [slice(TRAIN)] * 2 + [slice(TRAIN, None)] * 2, strict=True)):
        progress("reading MNIST", done, len(FILES))
        target = images[part, ..., 0] if "images" in file.name else labels[part, 0]
        array = read_idx(folder / file.name)
        check_images(str(folder / file.name), array.shape, array.dtype, target.shape)
        target[...] = array
    progress("reading MNIST", len(FILES), len(FILES))
    examples, factors = ArrayExamples(images, 1 / 255), Factors(FACTORS, labels)
    test = np.arange(TRAIN, TRAIN + TEST)
    return Data("mnist", examples, "unit", test=test, note=f"read from {folder}", factors=factors)
