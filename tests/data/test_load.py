"""Names and files: what is found, what is chosen, and the text of every error."""

import io
import os
import subprocess
import sys
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data import absolute, load
from narrows.data.load import ENDINGS
from narrows.data.options import Kind, ReadOptions
from narrows.training.config import TrainConfig
from refusals import refused

ARRAY = np.random.default_rng(0).random((6, 5, 7, 3), dtype=np.float32)


def refusal(source, values="unit"):
    return refused(load, source, values)


def test_npy_is_mapped_not_read(tmp_path):
    path = tmp_path / "faces.npy"
    np.save(path, ARRAY)
    for source in (path, str(path)):
        data = load(source)
        assert (data.name, data.values, data.test) == ("faces", "unit", None)
        assert data.note == f"read from {path}"
        assert isinstance(data.examples.array.base, np.memmap)
        np.testing.assert_array_equal(data.examples.batch(np.arange(6)).permute(0, 2, 3, 1).numpy(), ARRAY)


def test_fortran_order(tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(ARRAY))
    np.testing.assert_array_equal(
        load(tmp_path / "f.npy").examples.batch(np.arange(6)).permute(0, 2, 3, 1).numpy(), ARRAY
    )


def test_a_key_is_for_archives(tmp_path):
    np.save(tmp_path / "one.npy", ARRAY)
    assert "holds one array without a name; leave out ::x" in refusal(f"{tmp_path / 'one.npy'}::x")


def test_the_checks_of_arrays_name_the_file(tmp_path):
    path = tmp_path / "wide.npy"
    np.save(path, ARRAY * 9)
    assert refusal(path).startswith(f"{path}: values range from ")
    assert load(path, values="any").values == "any"
    np.save(path, np.zeros((0, 5)))
    assert refusal(path) == f"{path}: shape (0, 5) is empty; every axis needs a length of 1 or more"
    np.save(path, np.array([{}, None]), allow_pickle=True)
    assert refusal(path).startswith(f"{path}: dtype object is not accepted")


@pytest.mark.parametrize("keep", [0, 5, 60, 0.5, -1])
def test_truncated_files(tmp_path, keep):
    buffer = io.BytesIO()
    np.save(buffer, ARRAY)
    content = buffer.getvalue()
    path = tmp_path / "cut.npy"
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    assert refusal(path).startswith(f"{path}: the file is damaged or not a .npy file (")


def test_files_of_something_else(tmp_path):
    path = tmp_path / "text.npy"
    path.write_text("these are not the bytes you are looking for")
    assert "is damaged or not a" in refusal(path)


@pytest.mark.parametrize(
    ("name", "save", "opener"), [("mine.npy", np.save, "numpy.load"), ("mine.npz", np.savez, "zipfile.ZipFile")]
)
def test_unreadable_file(tmp_path, monkeypatch, name, save, opener):
    save(tmp_path / name, ARRAY)

    def deny(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(opener, deny)
    assert f"{name} cannot be read (Permission denied)" in refusal(tmp_path / name)


KINDS = ".npy, .npz, .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .pq, .h5, .hdf5"
NAMES = "dsprites, shapes3d, cars3d, mnist, cifar100"


def test_unknown_names(tmp_path):
    assert refusal("foo") == f"no such file, folder or set: 'foo' (sets: {NAMES}; files: {KINDS})"
    assert refusal("dSprite").endswith("; did you mean 'dsprites'?")
    assert refusal("cifar-100").endswith("; did you mean 'cifar100'?")
    np.save(tmp_path / "faces.npy", ARRAY)
    assert refusal(tmp_path / "face.npy").endswith(f"; did you mean '{tmp_path / 'faces.npy'}'?")
    assert "no such file, folder or set" in refusal("x" * 5000)


def test_other_files(tmp_path):
    (tmp_path / "table.xlsx").write_text("1,2")
    assert f"files of this kind are not read (known: {KINDS}); save a table as table.csv, an array with" in refusal(
        tmp_path / "table.xlsx"
    )


def test_every_kind_finds_its_reader(tmp_path, monkeypatch):
    """One small file of each kind, by `load` alone."""
    h5py, parquet = pytest.importorskip("h5py"), pytest.importorskip("pyarrow.parquet")
    import pyarrow
    from PIL import Image

    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    np.savez(tmp_path / "a.npz", x=ARRAY)
    np.savez(tmp_path / "b.npz", x=ARRAY, mine=ARRAY[:, :, :, :1])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/x"] = ARRAY
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "a.parquet")
    (tmp_path / "pictures").mkdir()
    for i in range(3):
        Image.new("RGB", (30, 20), (i, 0, 0)).save(tmp_path / "pictures" / f"{i}.png")

    def shape(source, **options):
        return load(f"{tmp_path}/{source}", **options).examples.shape

    assert shape("a.npz") == (3, 5, 7)
    assert shape("b.npz::mine") == (1, 5, 7)
    assert shape("a.h5") == shape("a.h5::group/x") == (3, 5, 7)
    assert shape("a.csv") == (3,)
    assert shape("a.csv", columns="c, a") == shape("a.csv", columns=["c", "a"]) == (2,)
    assert load(tmp_path / "a.csv", columns="c,a").columns == ("c", "a")
    assert shape("a.parquet") == (2,)
    assert shape("pictures") == (3, 20, 30)
    assert shape("pictures", image_size=16) == (3, 16, 16)
    assert shape("pictures", image_size="16x24") == (3, 16, 24)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "drawn"}, "source is for sets that can be drawn (dsprites, shapes3d), and "),
        ({"image_size": 64}, "image_size is for folders of images and hf: sets, and "),
        ({"skip_broken": True}, "skip_broken is for folders of images, and "),
        ({"columns": "a"}, "columns is for tables (.csv, .tsv, .parquet), and "),
    ],
)
def test_options_that_do_nothing_are_refused(tmp_path, options, message):
    np.save(tmp_path / "a.npy", ARRAY)
    with pytest.raises(NarrowsError) as caught:
        load(tmp_path / "a.npy", **options)
    assert str(caught.value) == f"{message}{tmp_path / 'a.npy'} is none of them; leave it out"


@pytest.mark.parametrize("size", [(16, 300), "64 by 48", "", "x64", "16x257", 0])
def test_invalid_sizes(tmp_path, size):
    with pytest.raises(NarrowsError, match=r"image.size"):
        load(tmp_path, image_size=size)


def test_links_to_nothing(tmp_path):
    (tmp_path / "a.npy").symlink_to(tmp_path / "gone.npy")
    assert refusal(tmp_path / "a.npy").endswith("a.npy is a broken symlink; fix or remove it")


def test_a_path_may_hold_two_colons(tmp_path):
    (tmp_path / "we::ird").mkdir()
    np.save(tmp_path / "we::ird" / "a.npy", ARRAY)
    assert load(tmp_path / "we::ird" / "a.npy").examples.shape == (3, 5, 7)


def test_column_names_with_a_comma(tmp_path):
    (tmp_path / "a.csv").write_text('"a,b",c,d\n1,2,3\n')
    assert load(tmp_path / "a.csv", columns='d, "a,b"').columns == ("d", "a,b")


def test_an_unknown_source():
    with pytest.raises(NarrowsError, match="source must be auto, drawn or official; it is 'foo'"):
        load("dsprites", source="foo")


def test_empty_column_names(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(NarrowsError, match="columns has an empty name: 'a,,b'; write a,b,"):
        load(tmp_path / "a.csv", columns="a,,b")


def test_paths_become_absolute_and_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", ARRAY)
    assert absolute("a.npy") == str(tmp_path / "a.npy")
    assert absolute("a.npy::x") == f"{tmp_path / 'a.npy'}::x"
    (tmp_path / "mine").mkdir()
    assert absolute("hf:./mine::image") == f"hf:{tmp_path / 'mine'}::image"
    for name in ("mnist", "hf:some/set::image", "gone.npy"):
        assert absolute(name) == name


@pytest.mark.parametrize("kind", get_args(Kind))
def test_only_the_options_of_a_kind_are_left(kind):
    of_tables = ["categories", "group_column", "weight_column"]
    every = ReadOptions(
        "drawn",
        64,
        True,
        ("a",),
        "mask",
        "auto",
        "subject",
        "weight",
        "any",
        stream=True,
        split_by="shard",
        cache_size="2GB",
    )
    streamed = ["stream", "split_by", "cache_size"]
    assert every.given() == ["source", "image_size", "skip_broken", "columns", "missing", *of_tables, *streamed]
    left = every.only_for(kind)
    assert left.values == "any"
    assert left.given() == {
        "set": ["source"],
        "hub": ["image_size", *streamed],
        "folder": ["image_size", "skip_broken"],
        "npy": ["missing", *streamed],
        "npz": ["missing"],
        "hdf5": ["missing"],
        "table": ["columns", "missing", *of_tables, *streamed],
        "remote": ["image_size", "columns", *streamed],
    }.get(kind, [])


def test_a_run_reads_its_data_with_the_options_of_load():
    settings = {"source": "drawn", "image_size": "48x64", "skip_broken": True, "columns": "a,b", "values": "any"}
    settings |= {"stream": True, "split_by": "shard", "cache_size": "2GB", "missing": "mask", "categories": "auto"}
    settings |= {"group_column": "subject", "weight_column": "weight"}
    assert TrainConfig(**settings).reading() == ReadOptions(**settings)
    assert {field.name for field in fields(ReadOptions)} == set(settings)


@pytest.mark.parametrize("ending", [*ENDINGS, ".bin"])
def test_named_pipes_are_refused_at_once(tmp_path, ending):
    path = tmp_path / f"pipe{ending}"
    os.mkfifo(path)
    assert refusal(path) == f"{path} is a named pipe, not a file; write its content to a file and give that"


def test_a_folder_that_may_not_be_entered(tmp_path):
    """Not "no such file": the file may well be there."""
    (tmp_path / "shut").mkdir()
    np.save(tmp_path / "shut" / "x.npy", ARRAY)
    code = (
        "import os, sys, narrows\n"
        "load = narrows.load  # imported while everything may be read\n"
        "os.setuid(65534) if os.getuid() == 0 else None\n"
        "try: load(sys.argv[1])\n"
        "except narrows.NarrowsError as error: print(error)"
    )
    (tmp_path / "shut").chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o111)
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "shut" / "x.npy"], capture_output=True, text=True)
    (tmp_path / "shut").chmod(0o700)
    assert done.stdout == f"{tmp_path / 'shut' / 'x.npy'} cannot be read (Permission denied); check its path and mode\n"


@pytest.mark.parametrize("name", ["a" * 5000 + ".npy", "a\0b.npy", "a\x1b[31m.npy", "\udcff.npy", " ", "::", "::x"])
def test_names_of_nothing(name):
    assert refusal(name).startswith("no such file, folder or set: ")
