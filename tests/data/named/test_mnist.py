"""MNIST from files written byte by byte, from 120 true digits, and from the whole set where it is at hand."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from narrows.data import split
from narrows.data.named import mnist
from narrows.data.named.download import fetch
from refusals import refused

# The first 100 training and 20 test digits of MNIST (CC BY-SA 3.0), under the names of the official files.
SAMPLES = Path(__file__).with_name("mnist_samples")
TRAIN, TEST = 6, 4
IMAGES = np.random.default_rng(0).integers(0, 256, (TRAIN + TEST, 28, 28), dtype=np.uint8)
LABELS = np.array([5, 0, 4, 1, 9, 2, 7, 3, 8, 6], np.uint8)


def idx(magic, array):
    return gzip.compress(struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with four small files, and a set as small as they are."""
    monkeypatch.setattr(mnist, "TRAIN", TRAIN)
    monkeypatch.setattr(mnist, "TEST", TEST)
    for name, part in (("train", slice(TRAIN)), ("t10k", slice(TRAIN, None))):
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(2051, IMAGES[part]))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(2049, LABELS[part]))
    return tmp_path


def refusal(folder):
    return refused(mnist.read, folder)


def test_training_images_first_then_test_images(folder):
    data = mnist.read(folder)
    assert (data.name, data.values, data.examples.shape) == ("mnist", "unit", (1, 28, 28))
    assert data.note == f"read from {folder}"
    np.testing.assert_array_equal(data.test, [6, 7, 8, 9])
    batch = data.examples.batch(np.arange(10)).numpy()
    np.testing.assert_array_equal(batch, IMAGES[:, np.newaxis] * np.float32(1 / 255))
    assert data.factors.names == ("digit",)
    np.testing.assert_array_equal(data.factors.of(np.arange(10))[:, 0], LABELS)
    np.testing.assert_array_equal(split(data).test, data.test)


def test_progress(folder):
    calls = []
    mnist.read(folder, lambda *call: calls.append(call))
    assert calls == [("reading MNIST", done, 4) for done in range(5)]


def test_a_file_that_is_not_there(folder):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "t10k-labels-idx1-ubyte.gz cannot be read (No such file or directory)" in refusal(folder)


def test_a_file_cut_short(folder):
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: the file is damaged or not an idx file" in refusal(folder)


def test_the_wrong_number_of_images(folder):
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(idx(2051, IMAGES[:5]))
    assert (
        refusal(folder) == f"{path} holds uint8 (5, 28, 28), not uint8 (6, 28, 28); delete the file and fetch it again"
    )


def test_every_file_has_two_mirrors_a_checksum_and_a_size():
    kinds = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    assert [file.name for file in mnist.FILES] == [f"{kind}-ubyte.gz" for kind in kinds]
    for file in mnist.FILES:
        assert len(file.urls) == 2
        assert all(url.startswith("https://") and url.endswith(f"/mnist/{file.name}") for url in file.urls)
        assert len(file.checksum.removeprefix("sha256:")) == 64
        assert file.size


def test_true_digits(monkeypatch):
    monkeypatch.setattr(mnist, "TRAIN", 100)
    monkeypatch.setattr(mnist, "TEST", 20)
    data = mnist.read(SAMPLES)
    labels = data.factors.of(np.arange(120))[:, 0]
    np.testing.assert_array_equal(labels[:10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4])
    np.testing.assert_array_equal(labels[100:105], [7, 2, 1, 0, 4])
    pixels = data.examples.batch(np.arange(120))[:, 0].numpy()
    assert (pixels[:, :2] == 0).all()  # a digit fills the middle 20 x 20
    ones, zeros = pixels[labels == 1].mean(0), pixels[labels == 0].mean(0)
    assert ones[13:15, 13:15].min() > 0.5  # a stroke where a zero has its hole
    assert zeros[13:15, 13:15].max() < 0.3


def test_the_whole_official_set():
    folder = os.environ.get("NARROWS_TEST_MNIST")
    if not folder:
        pytest.skip("NARROWS_TEST_MNIST names no folder with the four MNIST files")
    for file in mnist.FILES:
        assert fetch(file, Path(folder)) == Path(folder) / file.name, "checked, not downloaded"
    data = mnist.read(Path(folder))
    assert data.examples.array.shape == (70_000, 28, 28, 1)
    np.testing.assert_array_equal(data.test, np.arange(60_000, 70_000))
    labels = data.factors.of(np.arange(70_000))[:, 0]
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(labels[:60_000]), counts)
    np.testing.assert_array_equal(np.bincount(labels[60_000:]), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
    np.testing.assert_array_equal(labels[:10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4])
