"""A real file system that is soon full."""

import contextlib

import pytest

from faults import disks


@pytest.fixture
def small_disk(tmp_path):
    """Mount file systems of some kilobytes for the length of a test: small_disk(160) gives a folder."""
    if not disks.can_mount():
        pytest.skip("mounting a small file system is not permitted here")
    with contextlib.ExitStack() as mounts:
        yield lambda kilobytes: mounts.enter_context(disks.small_disk(tmp_path / "disk", kilobytes))
