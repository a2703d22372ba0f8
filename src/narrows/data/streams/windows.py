"""The order in which a stream trains: a two-level shuffle.

Epoch e of a stream with seed s takes the shards in a random order and cuts it into windows, each of as many shards as
half of the cache holds (and at most MOST_SHARDS). Within a window, all training rows of its shards come in one random
order. Batches run on over the borders of windows. While one window trains, the next one is fetched into the other half.

Both orders are drawn from (s, e) and (s, e, window) alone, so a position is two integers, as in batches.py, and a run
goes on from any batch with exactly the batches it would have had. The order depends on the size of the cache, because
the windows do. How far it is from a full shuffle is measured in docs/shards.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows._util.room import amount
from narrows.data.splits import shuffled

MOST_SHARDS = 100
"""Shards of one window: each holds two files open."""


@dataclass(frozen=True, eq=False)
class WindowedRows:
    """All training rows of a stream, as `Batches` takes them."""

    offsets: np.ndarray
    """Number of the first row of each shard in the whole set."""
    counts: Sequence[int]
    """Training rows of each shard."""
    sizes: Sequence[int]
    """Bytes of each shard in the cache."""
    room: int
    """Bytes of one window: half of the cache."""
    training: Callable[[int], np.ndarray]
    """Returns the numbers of a shard's training rows, by its own count."""
    want: Callable[[Sequence[int]], None]
    """Hears which shards are needed now and next, in the order of need."""

    def __post_init__(self) -> None:
        largest = max(self.sizes)
        if largest > self.room:
            raise NarrowsError(
                f"{setting('cache_size', amount(2 * self.room))} has room for windows of {amount(self.room)}, and the "
                f"largest shard takes {amount(largest)}; use {setting('cache_size', amount(2.2 * largest))} or more, "
                "or smaller shards"
            )

    def __len__(self) -> int:
        return sum(self.counts)

    def epoch(self, seed: int, epoch: int) -> "WindowedEpoch":
        """Return the rows in the order of one epoch."""
        return WindowedEpoch(self, seed, epoch)

    def windows(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the windows of one epoch, each the numbers of its shards, without those that train nothing."""
        windows: list[list[int]] = []
        filled = 0
        for shard in shuffled(len(self.counts), seed, epoch).tolist():
            if not self.counts[shard]:
                continue
            filled += self.sizes[shard]
            if not windows or filled > self.room or len(windows[-1]) == MOST_SHARDS:
                windows.append([])
                filled = self.sizes[shard]
            windows[-1].append(shard)
        return [np.array(window) for window in windows]


class WindowedEpoch:
    """The training rows in the order of one epoch; slices of it give rows. Two windows are in memory at most."""

    def __init__(self, rows: WindowedRows, seed: int, epoch: int) -> None:
        self.rows, self.seed, self.epoch = rows, seed, epoch
        self.windows = rows.windows(seed, epoch)
        counts = [sum(rows.counts[shard] for shard in window) for window in self.windows]
        self.ends = np.cumsum(counts)
        self._orders: dict[int, np.ndarray] = {}

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(int(self.ends[-1]))
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right").tolist()
        self._enter(first, last)
        begins = [0, *self.ends.tolist()]
        return np.concatenate(
            [self._orders[w][max(start - begins[w], 0) : stop - begins[w]] for w in range(first, last + 1)]
        )

    def _enter(self, first: int, last: int) -> None:
        """Draw the orders of the windows from `first` to `last`, and have their shards and the next ones fetched."""
        if not (first in self._orders and last in self._orders):
            self._orders = {w: self._orders[w] if w in self._orders else self._order(w) for w in range(first, last + 1)}
        elif len(self._orders) > last - first + 1:
            self._orders = {w: self._orders[w] for w in range(first, last + 1)}
        ahead = max(last, first + 1)
        wanted = self.windows[first : ahead + 1]
        if ahead == len(self.windows):
            wanted = [*wanted, self.rows.windows(self.seed, self.epoch + 1)[0]]
        self.rows.want(list(dict.fromkeys(int(shard) for window in wanted for shard in window)))

    def _order(self, window: int) -> np.ndarray:
        parts = [self.rows.offsets[shard] + self.rows.training(int(shard)) for shard in self.windows[window]]
        rows = np.concatenate(parts)
        return rows[shuffled(len(rows), self.seed, self.epoch, window)]
