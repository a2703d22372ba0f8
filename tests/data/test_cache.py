"""The cache: whole files or none, damaged ones made anew, memory where nothing can be written."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import platformdirs
import pytest

from narrows._util.errors import NarrowsError
from narrows.data.cache import cache_folder, cached_array

MADE = np.arange(60, dtype=np.uint8).reshape(12, 5)
FILE = "made-v1.npy"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def rows():
    yield MADE[:5]
    yield MADE[5:]


def get(chunks=rows, count=12):
    return cached_array(FILE, (5,), np.uint8, chunks, count)


def never():
    raise AssertionError("must come from the cache")


def test_folder_from_the_environment(folder, monkeypatch):
    assert cache_folder() == folder
    for unset in (
        lambda: monkeypatch.setenv("NARROWS_CACHE", ""),
        lambda: monkeypatch.delenv("NARROWS_CACHE"),
    ):
        unset()
        assert cache_folder() == Path(platformdirs.user_cache_dir("narrows"))


def test_written_once_then_mapped(folder):
    for make in (rows, never):
        array, where = get(make)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, MADE)
        assert where == f"cached in {folder / FILE}"
    assert os.listdir(folder) == [FILE]


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "shape", "dtype", "archive"])
def test_damaged_files_are_written_again(folder, damage):
    get()
    path = folder / FILE
    if damage == "shape":
        np.save(path, MADE[:-1])
    elif damage == "dtype":
        np.save(path, MADE.astype(np.int8))
    elif damage == "archive":
        with path.open("wb") as file:
            np.savez(file, MADE)
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-1], "text": b"hello"}[damage])
    np.testing.assert_array_equal(get()[0], MADE)
    np.testing.assert_array_equal(get(never)[0], MADE)


def test_no_place_for_a_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "file" / "cache"))
    array, where = get()
    np.testing.assert_array_equal(array, MADE)
    assert where.startswith(f"kept in memory, because {tmp_path / 'file' / 'cache' / FILE} cannot be written (")


def test_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    array, where = get()
    np.testing.assert_array_equal(array, MADE)
    assert where == f"kept in memory, because {folder / FILE} cannot be written (No space left on device)"
    assert os.listdir(folder) == []


def test_rows_may_be_counted_only_at_the_end(folder):
    array, _ = get(count=None)
    np.testing.assert_array_equal(array, MADE)
    np.testing.assert_array_equal(get(never, count=None)[0], MADE)


def test_what_may_be_too_large_for_memory_is_refused_where_nothing_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(NarrowsError, match="choose another folder with NARROWS_CACHE"):
        get(count=None)
    monkeypatch.setattr("narrows.data.cache.MEMORY_SHARE", 0.0)
    with pytest.raises(NarrowsError, match="choose another folder with NARROWS_CACHE"):
        get()


def test_what_killed_processes_left_is_cleared_away(folder):
    folder.mkdir()
    (folder / f".{FILE}.abc.part").write_bytes(b"half")
    get()
    assert os.listdir(folder) == [FILE]


def test_two_makers_at_once_both_end_well(folder):
    together = threading.Barrier(2, timeout=300)
    results = []

    def make():
        together.wait()  # both have found the cache empty
        return rows()

    threads = [threading.Thread(target=lambda: results.append(get(make))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for array, where in results:
        np.testing.assert_array_equal(array, MADE)
        assert where.startswith("cached in ")
    assert os.listdir(folder) == [FILE]
