"""A real file system that is soon full."""

import contextlib
import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """Mount file systems of some kilobytes for the length of a test: small_disk(160) gives a folder."""
    with contextlib.ExitStack() as mounts:

        def mount(kilobytes):
            disk = tmp_path / "disk"
            disk.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "narrows-test", str(disk)]
            try:
                mounted = subprocess.run(command, capture_output=True, check=False)
            except FileNotFoundError:
                pytest.skip("there is no mount command")
            if mounted.returncode:
                pytest.skip("mounting a small file system is not permitted here")
            mounts.callback(subprocess.run, ["umount", str(disk)], check=True)
            return disk

        yield mount
