"""The official dSprites and 3D Shapes, from small files with the same containers, keys, types and orders."""

import io
import os
import pickle
import shutil
import sys
import zipfile
from collections import namedtuple

import h5py
import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data import cache
from narrows.data.factors import Factor, Factors, evenly, kinds
from narrows.data.named import dsprites, formats, shapes3d
from narrows.data.readers import hdf5

SPRITES = (Factor("colour", (1.0,)), kinds("shape", "abc"), Factor("x", evenly(0, 1, 4)), Factor("y", evenly(0, 1, 5)))
ROOMS = (Factor("floor_hue", (0.0, 0.1, 0.2)), kinds("shape", "abcd"), Factor("orientation", evenly(-30, 30, 5)))
RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (60, 64, 64), dtype=np.uint8)
PIXELS = RNG.integers(0, 256, (60, 64, 64, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for files, a cache beside them, and sets of sixty images."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(dsprites, "FACTORS", SPRITES)
    monkeypatch.setattr(shapes3d, "FACTORS", ROOMS)
    monkeypatch.setattr(formats, "AT_ONCE", 7 * 64 * 64 * 3)  # several pieces, the last one short
    monkeypatch.setattr(hdf5, "CHUNK_BYTES", 7 * 64 * 64 * 3)
    return tmp_path


class Bomb:
    """What a pickle can do: this one makes a folder when it is loaded."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return (os.mkdir, (self.target,))


def write_npz(folder, **changes):
    classes = Factors(SPRITES).of(np.arange(60))
    arrays = {"imgs": BITS, "latents_classes": classes, "latents_values": classes.astype(float), **changes}
    path = folder / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    with zipfile.ZipFile(path, "a") as archive:
        header = io.BytesIO()
        fields = {"descr": "|O", "fortran_order": False, "shape": ()}
        np.lib.format.write_array_header_1_0(header, fields)
        archive.writestr("metadata.npy", header.getvalue() + pickle.dumps(Bomb(folder / "exploded")))
    return path


def write_h5(folder, chunks=(8, 32, 64, 1), **changes):
    labels = Factors(ROOMS).values_of(np.arange(60))
    path = folder / "3dshapes.h5"
    with h5py.File(path, "w") as file:
        for name, array in {"images": PIXELS, "labels": labels, **changes}.items():
            if array is not None:
                file.create_dataset(name, data=array, compression="gzip", chunks=chunks if name == "images" else True)
    return path


SETS = {"npz": (write_npz, dsprites.read, dsprites.is_cached)}
SETS["h5"] = (write_h5, shapes3d.read, shapes3d.is_cached)


def refusal(read, path):
    with pytest.raises(NarrowsError) as caught:
        read(path.parent)
    text = str(caught.value)
    assert "\n" not in text
    cache = path.parent / "cache"
    assert not cache.exists() or os.listdir(cache) == []
    return text


def damage(path):
    return f"{path}: the file is damaged or not an "


def test_sprites(folder):
    data = dsprites.read(write_npz(folder).parent)
    assert (data.name, data.values, data.test, data.examples.shape) == ("dsprites", "unit", None, (1, 64, 64))
    assert data.note == f"the official file, cached in {folder / 'cache' / 'dsprites-official-v1.npy'}"
    assert data.examples.bits.shape == (60, 512)
    number = data.factors.number(shape=1, x=2, y=3)
    assert number == 20 + 2 * 5 + 3
    np.testing.assert_array_equal(data.examples.batch(np.array([number]))[0, 0].numpy(), BITS[number])
    np.testing.assert_array_equal(data.examples.batch(np.arange(60))[:, 0].numpy(), BITS)


@pytest.mark.parametrize("chunks", [(8, 32, 64, 1), (1, 64, 64, 3), (13, 64, 64, 3), (60, 4, 4, 3)])
def test_rooms(folder, chunks):
    data = shapes3d.read(write_h5(folder, chunks).parent)
    assert (data.name, data.values, data.test, data.examples.shape) == ("shapes3d", "unit", None, (3, 64, 64))
    assert data.note == f"the official file, cached in {folder / 'cache' / 'shapes3d-official-v1.npy'}"
    number = data.factors.number(floor_hue=2, shape=1, orientation=4)
    assert number == 2 * 20 + 5 + 4
    served = data.examples.batch(np.array([number]))[0].permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(served, PIXELS[number] * np.float32(1 / 255))
    np.testing.assert_array_equal(data.examples.array, PIXELS)


@pytest.mark.parametrize("kind", SETS)
def test_the_second_time_the_file_is_not_needed(folder, kind):
    write, read, is_cached = SETS[kind]
    path = write(folder)
    assert not is_cached()
    calls = []
    first = read(folder, lambda *call: calls.append(call))
    assert 0 < calls[0][1] < calls[0][2] == 60
    assert calls[-1][1:] == (60, 60)
    assert len({call[0] for call in calls}) == 1
    assert len(calls) >= 3
    assert is_cached()
    path.unlink()
    again = read(folder, lambda *call: calls.append("again"))
    assert "again" not in calls
    everyone = np.arange(60)
    np.testing.assert_array_equal(again.examples.batch(everyone), first.examples.batch(everyone))


def test_the_pickle_is_never_loaded(folder):
    path = write_npz(folder)
    dsprites.read(folder)
    assert not (folder / "exploded").exists()
    with np.load(path, allow_pickle=True) as archive:
        assert archive["metadata"] is None
    assert (folder / "exploded").exists()  # it was armed


@pytest.mark.parametrize("name", ["imgs"])
def test_other_members_are_not_unpickled_either(folder, name):
    array = np.full((60, 64, 64), None)
    array[0, 0, 0] = Bomb(folder / "exploded")
    refusal(dsprites.read, write_npz(folder, **{name: array}))
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("keep", [0.0, 0.4, 0.97])
def test_files_cut_short(folder, kind, keep):
    write, read, _ = SETS[kind]
    path = write(folder)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    assert refusal(read, path).startswith(damage(path))


@pytest.mark.parametrize("kind", SETS)
def test_files_with_damage_in_the_middle(folder, kind):
    write, read, _ = SETS[kind]
    path = write(folder)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 if kind == "h5" else 15_000
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    path.write_bytes(content)
    assert refusal(read, path).startswith(damage(path))


@pytest.mark.parametrize("kind", SETS)
def test_files_that_are_not_there(folder, kind):
    write, read, _ = SETS[kind]
    path = write(folder)
    path.unlink()
    assert refusal(read, path).startswith(f"{path} cannot be read (")


@pytest.mark.parametrize(("kind", "name"), [("npz", "imgs"), ("h5", "images")])
def test_missing_arrays(folder, kind, name):
    write, read, _ = SETS[kind]
    path = write(folder, **{name: None})
    text = refusal(read, path)
    assert text.startswith(damage(path))
    assert name in text


def test_images_of_another_shape_or_dtype(folder):
    path = write_npz(folder, imgs=BITS[:59])
    assert refusal(dsprites.read, path) == (
        f"{path}: imgs holds uint8 (59, 64, 64), not uint8 (60, 64, 64); delete the file and fetch it again"
    )
    path = write_npz(folder, imgs=BITS.astype(np.int64))
    assert "imgs holds int64 (60, 64, 64), not uint8" in refusal(dsprites.read, path)
    path = write_npz(folder, imgs=np.asfortranarray(BITS))
    assert "imgs is stored column by column" in refusal(dsprites.read, path)
    path = write_h5(folder, images=PIXELS[:50])
    assert "images holds uint8 (50, 64, 64, 3), not uint8 (60, 64, 64, 3)" in refusal(shapes3d.read, path)


def test_too_little_room(folder, monkeypatch):
    path = write_h5(folder)
    whole = (Factor("image", evenly(0, 1, 480_000)),)
    monkeypatch.setattr(shapes3d, "FACTORS", whole)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 10**10 - 3.2e9, 3.2e9))
    monkeypatch.setattr(cache, "MEMORY_SHARE", 0.0)
    assert refusal(shapes3d.read, path) == (
        f"{folder / 'cache' / 'shapes3d-official-v1.npy'} cannot be written (it needs 5.9 GB, and 2.7 GB are free)"
        "; make room there, or choose another folder with NARROWS_CACHE"
    )


def test_without_h5py(folder, monkeypatch):
    path = write_h5(folder)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "h5py", None)
        assert refusal(shapes3d.read, path) == "reading HDF5 files needs h5py: pip install 'narrows[hdf5]'"
    shapes3d.read(folder)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert len(shapes3d.read(folder).examples) == 60  # from the cache


def test_the_official_files():
    (sprites,), (rooms,) = dsprites.FILES, shapes3d.FILES
    assert sprites.urls[0].endswith(f"google-deepmind/dsprites-dataset/raw/master/{sprites.name}")
    assert sprites.checksum == "md5:7da33b31b13a06f4b04a70402ce90c2e"
    assert rooms.urls == ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",)
    assert len(rooms.checksum.removeprefix("sha256:")) == 64
    assert rooms.size == 267_573_662


def test_the_official_number_of_images():
    assert Factors(dsprites.FACTORS).count == 737_280
    assert Factors(shapes3d.FACTORS).count == 480_000
