"""Every set from its name to its images: served on loopback, verified, unpacked and compared.

The files are the small, format-exact ones of the readers' own tests; the catalogue and the readers get their
addresses, checksums and counts; everything else is as for users.
"""

import dataclasses
import hashlib
import importlib
import os
import pkgutil
import shutil
import threading

import numpy as np
import pytest

from data.named import test_cars3d, test_cifar100, test_mnist, test_official
from http_server import LocalServer
from narrows._util.errors import NarrowsError
from narrows.cli import main
from narrows.data import SETS, load, named
from narrows.data.factors import Factor
from narrows.data.named import cars3d, cifar100, dsprites, mnist, shapes3d


def dsprites_files(folder, patch):
    patch.setattr(dsprites, "FACTORS", test_official.SPRITES)
    test_official.write_npz(folder)


def shapes3d_files(folder, patch):
    patch.setattr(shapes3d, "FACTORS", test_official.ROOMS)
    test_official.write_h5(folder)


def cars3d_files(folder, patch):
    patch.setattr(cars3d, "FACTORS", (*cars3d.FACTORS[:2], Factor("object_type", (0.0, 1.0, 2.0))))
    names = test_cars3d.NAMES
    members = {f"data/cars/{name}.mat": test_cars3d.mat(name) for name in sorted(names)}
    test_cars3d.write(folder, {**members, "data/cars/list.txt": "\n".join(names).encode()})


def mnist_files(folder, patch):
    patch.setattr(mnist, "TRAIN", 100)
    patch.setattr(mnist, "TEST", 20)
    shutil.copytree(test_mnist.SAMPLES, folder, dirs_exist_ok=True)  # true digits


def cifar100_files(folder, patch):
    patch.setattr(cifar100, "TRAIN", test_cifar100.TRAIN)
    patch.setattr(cifar100, "TEST", test_cifar100.TEST)
    test_cifar100.write(folder)


def check_dsprites(data, picture):
    number = data.factors.number(shape=1, x=2, y=3)
    np.testing.assert_array_equal(picture(number)[..., 0], test_official.BITS[1 * 20 + 2 * 5 + 3])


def check_shapes3d(data, picture):
    number = data.factors.number(floor_hue=2, shape=1, orientation=4)
    np.testing.assert_array_equal(picture(number), test_official.PIXELS[2 * 20 + 5 + 4] * np.float32(1 / 255))


def check_cars3d(data, picture):
    number = data.factors.number(elevation=2, azimuth=5, object_type=1)
    true = test_cars3d.halved(test_cars3d.picture("car_007_mesh", azimuth=5, elevation=2))
    np.testing.assert_array_equal(picture(number), true * np.float32(1 / 255))


def check_mnist(data, picture):
    assert data.factors.of(np.arange(10))[:, 0].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.factors.of(data.test[:5])[:, 0].tolist() == [7, 2, 1, 0, 4]
    assert picture(0).sum() == pytest.approx(27_525 / 255)  # the first five of MNIST


def check_cifar100(data, picture):
    true = test_cifar100.upscaled(test_cifar100.IMAGES[9])
    np.testing.assert_array_equal(picture(9), true * np.float32(1 / 255))
    assert data.factors.of(np.array([3]))[0].tolist() == [19, 99]
    assert data.test.tolist() == list(range(7, 12))


CASES = {
    "dsprites": (dsprites_files, check_dsprites),
    "shapes3d": (shapes3d_files, check_shapes3d),
    "cars3d": (cars3d_files, check_cars3d),
    "mnist": (mnist_files, check_mnist),
    "cifar100": (cifar100_files, check_cifar100),
}


class Served:
    """One set whose files come from a server of our own, and an empty cache."""

    def __init__(self, name, folder, patch):
        self.name, self.patch, self.cache = name, patch, folder / "cache"
        raw = folder / "raw"
        raw.mkdir()
        files, self.check = CASES[name]
        files(raw, patch)
        contents = {path.name: path.read_bytes() for path in raw.iterdir()}
        self.server = LocalServer(contents)
        self.checksums = {path: f"sha256:{hashlib.sha256(content).hexdigest()}" for path, content in contents.items()}

    def address(self, before=(), checksums=None):
        """Let the catalogue know where the files are, some dead mirrors first."""
        files = tuple(
            dataclasses.replace(
                file,
                urls=(*(f"{url}/{file.name}" for url in before), f"{self.server.url}/{file.name}"),
                checksum=(checksums or self.checksums)[file.name],
                size=None,
            )
            for file in SETS[self.name].files
        )
        self.patch.setitem(SETS, self.name, dataclasses.replace(SETS[self.name], files=files))

    def get(self):
        return main(["data", "get", self.name])

    def assert_right(self):
        data = load(self.name, source="official" if SETS[self.name].draw else "auto")
        self.check(data, lambda i: data.examples.batch(np.array([i]))[0].permute(1, 2, 0).numpy())

    def files(self):
        """All files of the cache, wherever they are, but locks, which hold nothing."""
        return [name for _, _, names in os.walk(self.cache) for name in names if not name.endswith(".lock")]


@pytest.fixture(params=list(CASES))
def served(request, tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    one = Served(request.param, tmp_path, monkeypatch)
    with one.server:
        one.address()
        yield one


def test_the_right_images_in_the_right_order(served, capsys):
    assert not SETS[served.name].is_cached
    assert served.get() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{served.name}: ")
    assert SETS[served.name].is_cached
    served.assert_right()
    requests = len(served.server.requests)
    assert requests == len(SETS[served.name].files)
    assert served.get() == 0
    assert len(served.server.requests) == requests, "what is cached is not fetched again"


def test_a_wrong_checksum(served, capsys):
    served.address(checksums=dict.fromkeys(served.checksums, "md5:" + "0" * 32))
    assert served.get() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "checksum md5:" in error
    assert served.files() == []


def test_a_cut_connection_is_resumed(served, monkeypatch):
    monkeypatch.setattr("narrows.data.named.download._PAUSE", 0.01)
    page = served.server.pages[SETS[served.name].files[0].name]
    page.cuts, page.cut_after = 1, len(page.content) // 2
    assert served.get() == 0
    assert f"bytes={page.cut_after}-" in [asked for _, asked in served.server.requests]
    served.assert_right()


def test_a_dead_first_mirror(served):
    served.address(before=("http://127.0.0.1:9",))
    assert served.get() == 0
    served.assert_right()


def test_two_at_once(served):
    """Two threads with locks of their own, as two processes have (real processes: test_download.py)."""
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(served.get())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    assert len(served.server.requests) == len(SETS[served.name].files)
    served.assert_right()
    assert not [name for name in served.files() if "part" in name or name.endswith(".lock")]


def test_a_full_disk(served, small_disk, monkeypatch, capsys):
    """On a file system of 8 kB no set's first file finds room."""
    served.cache = small_disk(8)
    monkeypatch.setenv("NARROWS_CACHE", str(served.cache))
    assert served.get() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cannot keep" in error
    assert served.files() == []


@pytest.mark.parametrize("served", ["dsprites", "cifar100"], indirect=True)
def test_room_for_the_file_but_not_for_its_array(served, small_disk, monkeypatch, capsys):
    """On 44 kB the download fits and the array does not: it is made in memory, and nothing half is left."""
    served.cache = small_disk(44)
    monkeypatch.setenv("NARROWS_CACHE", str(served.cache))
    assert served.get() == 0
    assert "kept in memory, because " in capsys.readouterr().out
    served.assert_right()
    assert not [name for name in served.files() if "part" in name]


def test_what_can_be_drawn_is_drawn_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path))
    data = load("shapes3d")
    assert data.source == "drawn"
    assert data.note.startswith("drawn (no download)")
    assert data.note.endswith("for the official file: narrows data get shapes3d")
    with pytest.raises(NarrowsError, match=r"mnist cannot be drawn \(only dsprites and shapes3d can\); leave out"):
        load("mnist", source="drawn")


def test_the_official_form_is_preferred_once_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    one = Served("shapes3d", tmp_path, monkeypatch)
    with one.server:
        one.address()
        assert one.get() == 0
    assert load("shapes3d").source == "official"


def test_without_a_network_the_error_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    one = Served("mnist", tmp_path, monkeypatch)
    one.server.url = "http://127.0.0.1:9"
    one.address()
    assert main(["train", "mnist", "--tau", "10", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    place = tmp_path / "cache" / "mnist" / "train-images-idx3-ubyte.gz"
    assert f"check the network, or put the file yourself at {place} (sha256:" in error
    assert not (tmp_path / "run").exists()
    place.parent.mkdir(parents=True, exist_ok=True)
    for path in test_mnist.SAMPLES.iterdir():
        shutil.copy(path, place.parent)
    assert main(["data", "get", "mnist"]) == 0


def test_the_list_has_every_fact(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path))
    assert main(["data", "list"]) == 0
    text = capsys.readouterr().out
    for one in SETS.values():
        for fact in (one.name, f"{one.count:,} images", one.licence, one.home, *(f.name for f in one.factors)):
            assert fact in text
        assert np.prod([f.size for f in one.factors]) == one.count or one.name in ("mnist", "cifar100")


def test_where_things_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path))
    assert main(["data", "path"]) == 0
    assert main(["data", "path", "mnist"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}\n{tmp_path / 'mnist'}\n"
    assert main(["data", "path", "minst"]) == 2
    assert main(["data", "get", "minst"]) == 2
    error = f"narrows: error: no such set: 'minst' (sets: {', '.join(SETS)}); did you mean 'mnist'?\n"
    assert capsys.readouterr().err == error * 2


def test_every_module_of_a_set_is_listed_and_the_list_is_printed_in_full(capsys):
    """A module in named/ with FILES is a set; its name, and nothing else, is what users type."""
    modules = [importlib.import_module(f"narrows.data.named.{m.name}") for m in pkgutil.iter_modules(named.__path__)]
    sets = {module.__name__.rpartition(".")[2]: module for module in modules if hasattr(module, "FILES")}
    assert set(sets) == set(SETS)
    for name, module in sets.items():
        listed = SETS[name]
        assert (listed.name, listed.files, listed.factors) == (name, module.FILES, module.FACTORS)
        assert (listed.is_unpacked, listed.read) == (module.is_cached, module.read)
        assert listed.draw == getattr(module, "drawn", None)
    assert main(["data", "list"]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    assert headings == [f"{name}: {SETS[name].about}" for name in SETS]
