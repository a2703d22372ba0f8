"""Cars3D from archives with the layout of the official one: three models, in an order that is not alphabetical."""

import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from narrows.data.factors import Factor
from narrows.data.named import cars3d
from refusals import refused_archive

NAMES = ("car_042_mesh", "car_007_mesh", "car_199_mesh")
ROWS, COLUMNS = np.mgrid[:128, :128]


def picture(name, azimuth, elevation):
    """A picture that tells its place: every model, view, row, column and colour differs."""
    model = int(name[4:7])
    colours = [(2 * ROWS + model) % 251, (COLUMNS + 9 * azimuth) % 241, (ROWS // 8 * 3 + 60 * elevation) % 239]
    return np.stack(colours, axis=-1).astype(np.uint8)


def mat(name, **changes):
    im = np.empty((128, 128, 3, 24, 4), np.uint8)
    for azimuth, elevation in np.ndindex(24, 4):
        im[..., azimuth, elevation] = picture(name, azimuth, elevation)
    buffer = io.BytesIO()
    savemat(buffer, {"im": im, "mask": np.ones((128, 128, 24, 4), np.uint8), **changes}, do_compression=True)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def members():
    """The archive's files, in the order they are written: models first, the list among them, decoys everywhere."""
    return {
        "data/sprites/car_042_mesh.mat": b"a decoy in another folder",
        "data/shapes48.mat": b"a decoy of another set",
        "data/cars/car_007_mesh.mat": mat("car_007_mesh"),
        "data/cars/car_001_mesh.mat": b"a decoy that no list names",
        "data/cars/old/car_042_mesh.mat": b"a decoy further down",
        "data/cars/car_042_mesh.mat": mat("car_042_mesh"),
        "data/cars/list.txt": "\r\n".join(NAMES).encode() + b"\r\n\r\n",
        "data/cars/car_199_mesh.mat": mat("car_199_mesh"),
        "data/cars/car_200_mesh.mat": b"another decoy that no list names",
        "data/list.txt": b"car_001_mesh",
    }


def write(folder, members, prefix=""):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    path = folder / "nips2015-analogy-data.tar.gz"
    path.write_bytes(gzip.compress(buffer.getvalue(), 1))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cars3d, "FACTORS", (*cars3d.FACTORS[:2], Factor("object_type", (0.0, 1.0, 2.0))))
    return tmp_path


def refusal(folder):
    return refused_archive(cars3d, folder)


def halved(image):
    return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS))


def test_factors_of_the_official_set():
    assert [(factor.name, factor.size) for factor in cars3d.FACTORS] == [
        ("elevation", 4),
        ("azimuth", 24),
        ("object_type", 183),
    ]
    (file,) = cars3d.FILES
    assert file.urls == ("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",)
    assert file.checksum == "md5:4e866a7919c1beedf53964e6f7a23686"


@pytest.mark.parametrize("prefix", ["", "./"])
def test_every_image_stands_at_its_factors(folder, members, prefix):
    write(folder, members, prefix)
    data = cars3d.read(folder)
    assert (data.name, data.values, data.test, data.examples.shape) == ("cars3d", "unit", None, (3, 64, 64))
    assert data.note == f"halved to 64 x 64, cached in {folder / 'cache' / 'cars3d-64-v1.npy'}"
    assert len(data.examples) == 4 * 24 * 3
    for elevation, azimuth, model in [(2, 5, 1), (0, 0, 0), (3, 23, 2), (0, 1, 2), (1, 0, 0)]:
        number = data.factors.number(elevation=elevation, azimuth=azimuth, object_type=model)
        assert number == (elevation * 24 + azimuth) * 3 + model
        served = data.examples.batch(np.array([number]))[0].permute(1, 2, 0).numpy()
        expected = halved(picture(NAMES[model], azimuth, elevation))
        np.testing.assert_array_equal(served, expected * np.float32(1 / 255))


@pytest.mark.parametrize("reverse", [False, True])
def test_files_may_come_in_any_order(folder, members, reverse):
    listed = {name: content for name, content in members.items() if name.endswith("list.txt")}
    others = {name: content for name, content in members.items() if name not in listed}
    write(folder, {**others, **listed} if reverse else {**listed, **others})
    images = cars3d.read(folder).examples.array.reshape(4, 24, 3, 64, 64, 3)
    for model, name in enumerate(NAMES):
        np.testing.assert_array_equal(images[3, 17, model], halved(picture(name, 17, 3)))


def test_the_second_time_the_archive_is_not_needed(folder, members):
    path = write(folder, members)
    assert not cars3d.is_cached()
    first = cars3d.read(folder).examples.array
    assert cars3d.is_cached()
    path.unlink()
    again = cars3d.read(folder).examples.array
    assert isinstance(again, np.memmap)
    np.testing.assert_array_equal(again, first)


def test_progress(folder, members):
    write(folder, members)
    calls = []
    cars3d.read(folder, lambda *call: calls.append(call))
    assert calls[0] == ("halving Cars3D", 0, 3)
    assert calls[-1] == ("halving Cars3D", 3, 3)
    calls.clear()
    cars3d.read(folder, lambda *call: calls.append(call))
    assert calls == []


def test_no_archive(folder):
    assert "cannot be read (No such file or directory)" in refusal(folder)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_an_archive_cut_short(folder, members, keep):
    path = write(folder, members)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    assert "the file is damaged or not a .tar.gz file (" in refusal(folder)


def test_a_model_that_is_not_there(folder, members):
    write(folder, {name: content for name, content in members.items() if name != "data/cars/car_199_mesh.mat"})
    assert "tar.gz holds no data/cars/car_199_mesh.mat; delete it" in refusal(folder)


@pytest.mark.parametrize("name", ["car_007_mesh", "car_199_mesh"])  # before the list and after it
def test_a_model_that_is_damaged(folder, members, name):
    member = f"data/cars/{name}.mat"
    write(folder, {**members, member: members[member][:5000]})
    assert f"tar.gz: {member} is damaged (" in refusal(folder)
    write(folder, {**members, member: b"no matrices here"})
    assert f"tar.gz: {member} is damaged (" in refusal(folder)


def test_a_model_of_another_shape(folder, members):
    member = "data/cars/car_199_mesh.mat"
    write(folder, {**members, member: mat("car_199_mesh", im=np.zeros((128, 128, 3, 4, 24), np.uint8))})
    assert f"{member}: im holds uint8 (128, 128, 3, 4, 24), not uint8 (128, 128, 3, 24, 4)" in refusal(folder)
    write(folder, {**members, member: mat("car_199_mesh", im=np.zeros((128, 128, 3, 24, 4)))})
    assert f"{member}: im holds float64 (128, 128, 3, 24, 4), not uint8" in refusal(folder)


def test_a_list_of_other_length(folder, members):
    write(folder, {**members, "data/cars/list.txt": b"car_042_mesh\ncar_007_mesh\ncar_007_mesh\n"})
    assert "data/cars/list.txt names 2 models, not 3" in refusal(folder)
    write(folder, {name: content for name, content in members.items() if name != "data/cars/list.txt"})
    assert "data/cars/list.txt names 0 models, not 3" in refusal(folder)
