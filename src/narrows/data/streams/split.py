"""Train, validation and test by a hash: a rule that needs no list of all rows.

by row     u = h(seed, shard, row), uniform in [0, 1): validation if u < v, test if v <= u < v + t, else train, with v
           and t such that as many rows are expected as splits.py would take (a tenth, at most 5,000 and 10,000)
by shard   the shards are sorted by h(seed, shard); the first tenth is validation and the next tenth is test, at least
           one shard each. Groups that lie in one shard, such as the frames of a video, stay together. Of these rows as
           many are used, evenly spaced, as above; the others are left out.

h mixes the row's number into a key from blake2b(seed, name of the shard) with the finaliser of splitmix64 (Steele, Lea
and Flood, 2014). It depends on the names of the shards below their common folder and on nothing else, so it is the same
on every machine, and a set that is moved keeps its split.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows.data.options import SplitBy
from narrows.data.splits import MOST_TEST, MOST_VALIDATION, thinned


def uniform(seed: int, name: str, count: int) -> np.ndarray:
    """Return h(seed, name, row) for rows 0 to count - 1, (count,) float64 in [0, 1)."""
    x = np.arange(1, count + 1, dtype=np.uint64)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(_key(seed, name))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)) * 2.0**-53


def _key(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class HashSplit:
    """Which rows of which shard belong to which part, computed for one shard at a time."""

    names: Sequence[str]
    """The shards, below their common folder."""
    counts: Sequence[int]
    """Rows of each shard."""
    seed: int
    by: SplitBy = "row"

    def __post_init__(self) -> None:
        if self.by == "shard" and len(self.names) < 3:
            raise NarrowsError(
                f"{setting('split_by', 'shard')} needs 3 shards or more, and there are {len(self.names)}; use "
                f"{setting('split_by', 'row')}"
            )

    @property
    def rule(self) -> str:
        """The rule in a few words."""
        return f"by a hash of each {self.by}"

    def parts(self, shard: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the numbers of one shard's rows that train, validate and test, sorted."""
        count = self.counts[shard]
        if self.by == "row":
            u, (v, t) = uniform(self.seed, self.names[shard], count), self._shares()
            return np.flatnonzero(u >= v + t), np.flatnonzero(u < v), np.flatnonzero((v <= u) & (u < v + t))
        every, none = np.arange(count), np.arange(0)
        validation, test = self._held_shards()
        for held, most in ((validation, MOST_VALIDATION), (test, MOST_TEST)):
            if shard in held:
                used = thinned(every, max(1, self._limit(most) * count // sum(self.counts[one] for one in held)))
                return (none, used, none) if held is validation else (none, none, used)
        return every, none, none

    def training(self, shard: int) -> np.ndarray:
        """Return the numbers of one shard's rows that train."""
        return self.parts(shard)[0]

    def _limit(self, most: int) -> int:
        return min(most, sum(self.counts) // 10)

    def _shares(self) -> tuple[float, float]:
        total = sum(self.counts)
        return self._limit(MOST_VALIDATION) / total, self._limit(MOST_TEST) / total

    def _held_shards(self) -> tuple[list[int], list[int]]:
        order = sorted(range(len(self.names)), key=lambda i: (_key(self.seed, self.names[i]), self.names[i]))
        tenth = max(1, len(order) // 10)
        return order[:tenth], order[tenth : 2 * tenth]
