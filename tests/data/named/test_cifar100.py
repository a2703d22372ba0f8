"""CIFAR-100 from archives laid out byte by byte as the official one, whole and broken in every way."""

import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from narrows.data.named import cifar100
from narrows.data.named.cifar100 import FACTORS
from narrows.data.named.formats import resized
from refusals import refused_archive

TRAIN, TEST = 7, 5
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (TRAIN + TEST, 32, 32, 3), dtype=np.uint8)  # any swapped axis or colour shows
LABELS = np.stack([RNG.integers(0, 20, TRAIN + TEST), RNG.integers(0, 100, TRAIN + TEST)], axis=1).astype(np.uint8)
LABELS[3], LABELS[TRAIN] = (19, 99), (0, 0)


def records(part):
    raw = b""
    for image, (coarse, fine) in zip(IMAGES[part], LABELS[part], strict=True):
        raw += bytes([coarse, fine]) + b"".join(image[:, :, colour].tobytes() for colour in range(3))
    return raw


MEMBERS = {
    "cifar-100-binary/coarse_label_names.txt": "".join(f"{word}\n" for word in FACTORS[0].value_names).encode(),
    "cifar-100-binary/fine_label_names.txt": "".join(f"{word}\n" for word in FACTORS[1].value_names).encode() + b"\n",
    "cifar-100-binary/train.bin": records(slice(TRAIN)),
    "cifar-100-binary/test.bin": records(slice(TRAIN, None)),
}


def write(folder, members=MEMBERS, cut=None):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(directory("cifar-100-binary"))
        link = tarfile.TarInfo("cifar-100-binary/link.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "../../train.bin"
        archive.addfile(link)
        for name, content in {"train.bin": b"a decoy", **members, "cifar-100-binary/notes.html": b"another"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    path = folder / "cifar-100-binary.tar.gz"
    path.write_bytes(gzip.compress(buffer.getvalue())[:cut])
    return path


def directory(name):
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar100, "TRAIN", TRAIN)
    monkeypatch.setattr(cifar100, "TEST", TEST)
    monkeypatch.setattr(cifar100, "_AT_ONCE", 3)  # so that both files are read in several pieces, the last one short
    return tmp_path


def refusal(folder):
    return refused_archive(cifar100, folder)


def upscaled(image):
    return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("order", [list(MEMBERS), list(MEMBERS)[::-1]], ids=["train first", "test first"])
def test_every_image_and_label_in_its_place(folder, order):
    write(folder, {name: MEMBERS[name] for name in order})
    data = cifar100.read(folder)
    assert (data.name, data.values, data.examples.shape) == ("cifar100", "unit", (3, 64, 64))
    assert data.note == f"upscaled to 64 x 64, cached in {folder / 'cache' / 'cifar100-64-v1.npy'}"
    np.testing.assert_array_equal(data.test, np.arange(TRAIN, TRAIN + TEST))
    everyone = np.arange(TRAIN + TEST)
    np.testing.assert_array_equal(data.factors.of(everyone), LABELS)
    batch = data.examples.batch(everyone).permute(0, 2, 3, 1).numpy()
    for image, served in zip(IMAGES, batch, strict=True):
        np.testing.assert_array_equal(served, upscaled(image) * np.float32(1 / 255))


def test_words_of_the_labels(folder):
    write(folder)
    coarse, fine = cifar100.read(folder).factors.factors
    assert (coarse.name, coarse.size, fine.name, fine.size) == ("coarse", 20, "fine", 100)
    assert (coarse.value_names[0], coarse.value_names[19], fine.value_names[0], fine.value_names[99]) == (
        "aquatic_mammals",
        "vehicles_2",
        "apple",
        "worm",
    )
    assert all(list(factor.value_names) == sorted(set(factor.value_names)) for factor in (coarse, fine))


def test_the_second_time_the_archive_is_not_needed(folder):
    path = write(folder)
    assert not cifar100.is_cached()
    first = cifar100.read(folder)
    assert cifar100.is_cached()
    path.unlink()
    again = cifar100.read(folder)
    assert isinstance(again.examples.array, np.memmap)
    np.testing.assert_array_equal(again.examples.array, first.examples.array)
    np.testing.assert_array_equal(again.factors.labels, LABELS)


def test_progress(folder):
    write(folder)
    calls = []
    cifar100.read(folder, lambda *call: calls.append(call))
    for what in ("reading the labels of CIFAR-100", "upscaling CIFAR-100"):
        assert [call[1:] for call in calls if call[0] == what] == [(done, 12) for done in (0, 3, 6, 7, 10, 12)]
    calls.clear()
    cifar100.read(folder, lambda *call: calls.append(call))
    assert calls == []


def test_no_archive(folder):
    assert "cannot be read (No such file or directory)" in refusal(folder)


@pytest.mark.parametrize("cut", [0, 5, 3_000, 20_000, -9, -1])
def test_an_archive_cut_short(folder, cut):
    write(folder, cut=cut)
    assert "tar.gz: the file is damaged or not a .tar.gz file (" in refusal(folder)


def test_an_archive_with_a_flipped_byte(folder):
    path = write(folder)
    content = bytearray(path.read_bytes())
    content[20_000] ^= 0xFF  # within the incompressible pixels: only the checksum at the end can tell
    path.write_bytes(content)
    assert "tar.gz: the file is damaged or not a .tar.gz file (" in refusal(folder)


def test_something_else_than_an_archive(folder):
    (folder / "cifar-100-binary.tar.gz").write_text("<html>not found</html>")
    assert "tar.gz: the file is damaged or not a .tar.gz file (Not a gzipped file" in refusal(folder)
    (folder / "cifar-100-binary.tar.gz").write_bytes(gzip.compress(b"no tar" * 1000))
    assert "tar.gz: the file is damaged or not a .tar.gz file (" in refusal(folder)


@pytest.mark.parametrize("missing", ["cifar-100-binary/train.bin", "cifar-100-binary/test.bin"])
def test_an_archive_without_a_file(folder, missing):
    write(folder, {name: content for name, content in MEMBERS.items() if name != missing})
    assert f"tar.gz holds no {missing}; delete it" in refusal(folder)


@pytest.mark.parametrize(("name", "count"), [("train", TRAIN), ("test", TEST)])
@pytest.mark.parametrize("change", [-1, 3074])
def test_the_wrong_number_of_records(folder, name, count, change):
    member = f"cifar-100-binary/{name}.bin"
    content = (MEMBERS[member] + bytes(3074))[: count * 3074 + change]
    write(folder, {**MEMBERS, member: content})
    assert f"{member} has {count * 3074 + change} bytes, not {count} x 3074" in refusal(folder)


@pytest.mark.parametrize("filter_name", ["BILINEAR", "LANCZOS"])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (128, 128), (40, 90)])
def test_images_together_are_resized_as_each_alone(filter_name, height, width):
    resample = Image.Resampling[filter_name]
    images = RNG.integers(0, 256, (5, height, width, 3), dtype=np.uint8)
    alone = [np.asarray(Image.fromarray(image).resize((64, 64), resample)) for image in images]
    np.testing.assert_array_equal(resized(images, 64, resample), alone)


def test_the_official_file():
    (file,) = cifar100.FILES
    assert (file.name, file.size) == ("cifar-100-binary.tar.gz", 168_513_733)
    assert file.urls == ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",)
    assert len(file.checksum.removeprefix("sha256:")) == 64
