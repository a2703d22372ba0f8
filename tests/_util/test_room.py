"""Room: what is free is asked for, within a container's and the process's limits, and some of every disk stays free."""

import errno
import resource
import shutil
from collections import namedtuple

import psutil
import pytest

from narrows._util import room

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (40e9, "40 GB"),
        (1.54e9, "1.5 GB"),
        (3e5, "0.3 MB"),
        (2e8, "0.2 GB"),
        (1432, "1,432 bytes"),
        (4e16, "40,000,000 GB"),
    ],
)
def test_amounts(nbytes, text):
    assert room.amount(nbytes) == text


def test_some_of_a_disk_stays_free(tmp_path, monkeypatch):
    for usage, free in (
        (Usage(10**12, 0, 10**11), 99 * 10**9),
        (Usage(10**6, 0, 10**5), 50_000),
        (Usage(100, 0, 1), 0),
    ):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        assert room.free_disk(tmp_path) == free
        room.check_disk(free, tmp_path)
        with pytest.raises(OSError, match=r"it needs .*, and .* are free") as caught:
            room.check_disk(free + 1, tmp_path)
        assert caught.value.errno == errno.ENOSPC


def test_a_disk_that_does_not_say(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    room.check_disk(10**15, tmp_path)


def test_memory_within_the_limit_of_a_container(tmp_path, monkeypatch):
    available = psutil.virtual_memory().available
    monkeypatch.setattr(room, "_CGROUPS", tmp_path)
    assert 0 < room.free_memory() <= psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\ninactive_file 200000\n")
    assert room.free_memory() == 500_000 < available
    (tmp_path / "memory.max").write_text("max\n")
    assert room.free_memory() > 500_000


def test_memory_within_the_limit_of_the_process():
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 10**9, limits[1]))
    try:
        assert 0 < room.free_memory() <= 10**9
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
