"""The split by a hash: what it promises of a random one, and that it never changes."""

import hashlib

import numpy as np
import pytest

from narrows.data.streams.split import HashSplit, uniform
from refusals import refused

NAMES = [f"part-{i}.npy" for i in range(40)]


def test_the_hash_is_that_of_the_first_release():
    """A run that was split by it must find the same rows in ten years."""
    np.testing.assert_array_equal(uniform(0, "part-0.npy", 3), FIRST)
    np.testing.assert_array_equal(uniform(0, "part-0.npy", 9)[:3], FIRST)


def test_the_hash_is_splitmix64():
    """Once more, in Python's whole numbers: the third number of the generator that starts at the key."""
    x = int.from_bytes(hashlib.blake2b(b"7 a.npy", digest_size=8).digest(), "little") + 3 * 0x9E3779B97F4A7C15
    x = ((x := x % 2**64) ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    assert uniform(7, "a.npy", 3)[2] == ((x ^ (x >> 31)) >> 11) / 2**53


FIRST = [0.1608492060937038, 0.9732783928873777, 0.09388605952573503]


def test_the_hash_is_uniform_and_independent_between_seeds_and_shards():
    u = [uniform(seed, name, 100_000) for seed in (0, 1) for name in NAMES[:2]]
    for x in u:
        counts = np.bincount((x * 100).astype(int), minlength=100)
        assert len(counts) == 100
        assert ((counts - 1000) ** 2 / 1000).sum() < 149  # chi-squared with 99 degrees of freedom, p = 0.001
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.011
    assert np.abs(np.corrcoef(u) - np.eye(4)).max() < 0.011


@pytest.mark.parametrize("by", ["row", "shard"])
def test_every_row_is_in_one_part(by):
    rule = HashSplit(NAMES, [300] * 40, seed=3, by=by)
    parts = [rule.parts(i) for i in range(40)]
    sizes = np.array([[len(part) for part in one] for one in parts])
    for one in parts:
        together = np.concatenate(one)
        assert len(np.unique(together)) == len(together)
    if by == "row":
        assert (sizes.sum(axis=1) == 300).all()
        assert sizes.sum(axis=0) == pytest.approx([9600, 1200, 1200], rel=0.1)
    else:
        assert ((sizes > 0).sum(axis=1) == 1).all(), "a shard is in one part as a whole"
        assert (sizes > 0).sum(axis=0).tolist() == [32, 4, 4]
        assert sizes.sum(axis=0).tolist() == [9600, 1200, 1200]


def test_large_sets_hold_out_as_many_rows_as_files_do():
    rows = HashSplit(NAMES, [10_000] * 40, seed=0)
    sizes = np.sum([[len(part) for part in rows.parts(i)] for i in range(40)], axis=0)
    assert sizes[1:] == pytest.approx([5_000, 10_000], rel=0.05)
    shards = HashSplit(NAMES, [10_000] * 40, seed=0, by="shard")
    sizes = np.sum([[len(part) for part in shards.parts(i)] for i in range(40)], axis=0)
    assert sizes.tolist() == [320_000, 5_000, 10_000]


def test_few_shards():
    assert "needs 3 shards or more, and there are 2" in refused(HashSplit, NAMES[:2], [9, 9], 0, "shard")
    sizes = [[len(part) for part in HashSplit(NAMES[:3], [20] * 3, 0, "shard").parts(i)] for i in range(3)]
    assert sorted(sizes) == [[0, 0, 6], [0, 6, 0], [20, 0, 0]]
