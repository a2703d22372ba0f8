"""Keeping memory raises the C library's thresholds, and the C library says so."""

import subprocess
import sys

import pytest

CODE = """
from narrows._util.allocator import keep_memory, keeps_memory
from narrows.networks import NetworkConfig, build

def layers():
    return {conv.memory_kept for conv in build(NetworkConfig("conv", (1, 28, 28), 2, width=2))[1].convs}

assert not keeps_memory() and layers() == {False}
assert keep_memory()
assert keeps_memory() and layers() == {True}
print(bytearray(10**8)[-1])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone has these thresholds")
def test_freed_memory_stays_in_the_process_once_asked_for():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n"
