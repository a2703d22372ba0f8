"""Shards on disk: found, sorted, read as one set without a copy, and refused in one line."""

import os

import numpy as np
import pytest
import torch

from narrows.data import load, split
from narrows.data.load import absolute
from narrows.data.readers import shards
from narrows.data.readers.shards import expanded, natural
from narrows.data.rows import JoinedRows
from refusals import refused

IMAGES = np.random.default_rng(0).integers(0, 256, (23, 6, 5, 3), np.uint8)
COUNTS = (4, 1, 7, 11)


@pytest.fixture
def parts(tmp_path):
    """Four shards of 23 images, whose natural order is not the alphabetical one."""
    folder = tmp_path / "parts"
    folder.mkdir()
    pieces = np.split(IMAGES, np.cumsum(COUNTS)[:-1])
    for name, piece in zip(("part-1", "part-2", "part-10", "part-11"), pieces, strict=True):
        np.save(folder / f"{name}.npy", piece)
    return folder


def batch(data, index):
    return data.examples.batch(np.asarray(index))


@pytest.mark.parametrize("form", ["{}", "{}/*.npy", "{}/part-*.npy", "{}/../p*ts/part-[0-9]*.npy"])
def test_shards_are_one_set_in_natural_order(parts, form):
    np.save(parts.parent / "one.npy", IMAGES)
    one, many = load(parts.parent / "one.npy"), load(form.format(parts))
    assert (len(many.examples), many.examples.shape, many.values) == (23, (3, 6, 5), "unit")
    for index in (np.arange(23), [22, 0, 0, 5, 3, 4, 11], np.random.default_rng(1).permutation(23)):
        assert torch.equal(batch(many, index), batch(one, index))
    np.testing.assert_array_equal(split(many).test, split(one).test)
    if ".." not in form:
        assert many.note == f"read from 4 shards, sorted by name from {parts / 'part-1.npy'} to part-11.npy"
        assert many.name == "parts"


def test_no_shard_is_read_into_memory(parts):
    rows = load(parts).examples.array
    assert isinstance(rows, JoinedRows)
    assert all(isinstance(rows._part(i), np.memmap) for i in range(4))
    np.testing.assert_array_equal(rows[3:9:2], IMAGES[3:9:2])


def test_natural_order_and_ranges():
    names = ["b", "a10", "a2", "a02", "a", "10", "9", "a2b10", "a2b9"]
    assert sorted(names, key=natural) == ["9", "10", "a", "a02", "a2", "a2b9", "a2b10", "a10", "b"]
    assert expanded("s-{08..11}/x{1..2}") == [f"s-{i}/x{j}" for i in ("08", "09", "10", "11") for j in (1, 2)]
    assert expanded("plain") == ["plain"]
    for wrong in ("{3..1}", "{0..9999999}"):
        assert "must count up" in refused(expanded, wrong)


@pytest.mark.parametrize("kind", ["vectors", "channels first", "grey", "float64", "fortran"])
def test_every_layout_of_one_file_is_one_of_shards(tmp_path, kind):
    rng = np.random.default_rng(2)
    array = {
        "vectors": rng.random((10, 4), np.float32),
        "channels first": rng.integers(0, 9, (10, 3, 8, 8), np.uint8),
        "grey": rng.integers(0, 2, (10, 8, 8), np.uint8),
        "float64": rng.random((10, 4)),
        "fortran": np.asfortranarray(rng.random((10, 5, 5))),
    }[kind]
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "one.npy", array)
    np.save(tmp_path / "parts" / "a.npy", array[:3])
    np.save(tmp_path / "parts" / "b.npy", array[3:])
    one, many = load(tmp_path / "one.npy"), load(tmp_path / "parts")
    index = np.array([9, 2, 3, 0])
    assert torch.equal(batch(many, index), batch(one, index))
    assert torch.equal(many.exact.batch(index), one.exact.batch(index))


def test_more_shards_than_files_may_be_open(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MOST_OPEN", 3)
    for i in range(9):
        np.save(tmp_path / f"{i}.npy", np.full((2, 3), i / 10))
    examples = load(tmp_path).examples
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        np.testing.assert_allclose(batch_column(examples), np.repeat(np.arange(9) / 10, 2))
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3


def batch_column(examples):
    return examples.batch(np.arange(18))[:, 0].numpy()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_tables_are_one_table(tmp_path, ending):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    values = np.random.default_rng(0).random((12, 3))
    write = csv.write_csv if ending == ".csv" else parquet.write_table
    (tmp_path / "t").mkdir()
    for i, part in enumerate(np.split(values, 3)):
        write(pyarrow.table({name: part[:, j] for j, name in enumerate("abc")}), tmp_path / "t" / f"t{i}{ending}")
    data = load(tmp_path / "t", columns="c,a")
    np.testing.assert_allclose(data.examples.array, values[:, [2, 0]])
    assert (data.name, data.columns) == ("t", ("c", "a"))
    assert "12 rows of 2 columns read from 3 shards" in data.note

    write(pyarrow.table({"a": [1.0], "x": [1.0], "c": [2.0]}), tmp_path / "t" / f"t9{ending}")
    text = refused(load, tmp_path / "t")
    assert text.startswith(f"{tmp_path / 't' / f't9{ending}'} holds the columns a, x, c")
    assert f"and {tmp_path / 't' / f't0{ending}'} holds the columns a, b, c" in text


def test_what_is_no_set_of_shards(parts, tmp_path):
    assert refused(load, f"{tmp_path}/none/*.npy").startswith(f"no shards match {tmp_path}/none/*.npy")
    assert f"the shard {parts}/part-3.npy does not exist" in refused(load, f"{parts}/part-{{1..3}}.npy")
    (parts / "notes.txt").write_text("mine")
    kinds = "a folder that is one set holds only .npy files, only tables (.csv, .tsv, .parquet), or images"
    pattern = f"give a pattern such as '{parts}/*.npy'"
    assert refused(load, parts) == f"{parts} holds 4 .npy, 1 .txt files; {kinds}: {pattern}"
    assert refused(load, parts, columns="a").startswith(f"{parts} holds 4 .npy, 1 .txt files")
    (parts / "t.parquet").touch()
    assert refused(load, parts).startswith(f"{parts} holds 4 .npy, 1 ")
    (parts / "t.parquet").unlink()
    (parts / "images").mkdir()  # notes and tables beside a folder of images are usual
    assert "holds no images" in refused(load, parts)
    (parts / "images").rmdir()
    assert "matches 4 .npy, 1 .txt files" in refused(load, f"{parts}/*")
    (parts / "notes.txt").rename(parts / "_notes.txt")
    assert len(load(parts).examples) == 23
    np.save(parts / "part-20.npy", np.zeros((2, 6, 5, 1), np.uint8))
    text = refused(load, parts)
    assert text.startswith(f"{parts}/part-20.npy holds rows of (6, 5, 1) uint8, and {parts}/part-1.npy holds rows of")
    np.save(parts / "part-20.npy", np.zeros((2, 6, 5, 3)))
    assert "float64" in refused(load, parts)
    (parts / "part-20.npy").write_bytes(b"nothing")
    assert refused(load, parts).startswith(f"{parts}/part-20.npy: the file is damaged or not a .npy file")
    (parts / "part-20.npy").unlink()
    os.symlink("nowhere", parts / "part-20.npy")
    assert refused(load, parts) == f"{parts}/part-20.npy is a broken symlink; fix or remove it"
    (parts / "part-20.npy").unlink()
    os.mkfifo(parts / "part-20.npy")
    assert "part-20.npy is a named pipe" in refused(load, parts)


def test_a_value_that_cannot_be_used_is_found_in_any_shard(parts):
    for name, piece in (("part-1", np.zeros((4, 3))), ("part-2", np.full((1, 3), np.nan))):
        np.save(parts / f"{name}.npy", piece)
    (parts / "part-10.npy").unlink()
    (parts / "part-11.npy").unlink()
    assert "3 of 15 values are NaN or infinite, first in example 4" in refused(load, parts)


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_shard_that_is_not_there_any_more_is_named(parts, monkeypatch, change):
    monkeypatch.setattr(shards, "MOST_OPEN", 1)
    examples = load(parts).examples
    if change == "gone":
        (parts / "part-10.npy").unlink()
    else:
        np.save(parts / "part-10.npy", IMAGES)
    text = refused(examples.batch, np.arange(23))
    assert text.startswith(f"the shard {parts / 'part-10.npy'} ")
    assert "go on with `narrows resume`" in text


def test_paths_of_runs_are_absolute(parts, monkeypatch):
    monkeypatch.chdir(parts.parent)
    assert absolute("parts/*.npy") == f"{parts}/*.npy"
    assert absolute("parts") == str(parts)
