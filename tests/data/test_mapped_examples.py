"""A mapped file larger than its share does not stay in memory, and reading it again gives the same."""

import os
import subprocess
import sys

import numpy as np
import pytest

from narrows.data import ArrayExamples, from_array
from narrows.data.examples import release

linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are released on Linux only")

PEAK = """
import sys
import numpy as np
from narrows.data import load

def resident():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("RssFile")).split()[1]) / 1024

examples = load(sys.argv[1]).examples
most = resident()
random = np.random.default_rng(0)
for _ in range(600):
    examples.batch(random.integers(0, len(examples), 64))
    most = max(most, resident())
print(most)
"""


@linux
def test_random_batches_of_a_large_file_stay_small(tmp_path):
    """512 MB on disk: the check at loading and 38,400 random rows leave hardly any of it resident."""
    path = tmp_path / "large.npy"
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (1 << 17, 64, 64))
    array[:, 0, 0] = np.arange(1 << 17, dtype=np.uint32).astype(np.uint8)
    del array
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    # The libraries of torch and numpy are files too, about 80 MB of them; the file alone would add 512.
    assert float(done.stdout) < 250
    os.unlink(path)


def test_released_pages_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("narrows.data.examples.SMALL_MAP", 0)
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (100, 16, 16, 3), dtype=np.uint8))
    mapped = np.load(path, mmap_mode="r")
    before = mapped.copy()
    release(mapped)
    release(mapped.transpose(0, 3, 1, 2)[..., np.newaxis])
    np.testing.assert_array_equal(mapped, before)


def test_changes_of_private_maps_and_arrays_in_memory_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("narrows.data.examples.SMALL_MAP", 0)
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((10, 4), np.float32))
    private = np.load(path, mmap_mode="c")
    private[:] = 1
    release(private)
    assert private.all()
    release(np.ones(3))


def test_shift_and_scale_a_column():
    array = np.array([[1.7e9, 2.0], [1.7e9 + 1, 4.0], [1.7e9 + 3, 8.0]])
    examples = ArrayExamples(array, scale=np.array([1.0, 0.5]), shift=np.array([1.7e9, 2.0]))
    np.testing.assert_array_equal(examples.batch(np.array([2, 0, 1])).numpy(), [[3, 3], [0, 0], [1, 1]])
    single = from_array(array.astype(np.float32), values="any").examples
    assert single.batch(np.arange(3)).dtype == examples.batch(np.arange(3)).dtype
