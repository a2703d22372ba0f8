"""The endless stream of training batches, as indices.

Epoch e of a stream with seed s visits the examples in a permutation drawn from (s, e) alone, through numpy's
SeedSequence. Nothing is carried from one epoch to the next, so the position of a stream is two integers, the epoch and
the number of batches taken from it, and a resumed run continues with exactly the batches it would have had. The last,
incomplete batch of an epoch is dropped, so every step averages over the same number of examples. A streamed set has an
order of its own, in which its shards can be fetched (streams/windows.py); it is a function of (s, e) alone as well.
"""

from collections.abc import Mapping

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows.data.splits import ShuffledRows, TrainingRows


class Batches:
    """Batches of indices, epoch after epoch, each epoch in a new order.

    Arguments:
        rows: The training examples: their indices, int64, or a stream's `TrainingRows`.
        size: Examples per batch.
        seed: Of the order.

    Raises:
        NarrowsError: `rows` do not fill one batch.
    """

    def __init__(self, rows: np.ndarray | TrainingRows, size: int, seed: int) -> None:
        if size < 1:
            raise NarrowsError(f"{setting('batch')} must be at least 1; it is {size}")
        if len(rows) < size:
            raise NarrowsError(
                f"{len(rows)} training examples do not fill one batch of {size}; use a smaller {setting('batch')} or "
                "more data"
            )
        self.rows = ShuffledRows(rows) if isinstance(rows, np.ndarray) else rows
        self.size = size
        self.seed = seed
        self.per_epoch = len(rows) // size
        self._enter(epoch=0, position=0)

    def next(self) -> np.ndarray:
        """Return the next `size` indices."""
        if self.position == self.per_epoch:
            self._enter(self.epoch + 1, position=0)
        start = self.position * self.size
        self.position += 1
        return self._order[start : start + self.size]

    def state_dict(self) -> dict[str, int]:
        """Return the position of the stream."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore a position, of a stream with the same indices, size and seed."""
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position <= self.per_epoch:
            raise NarrowsError(
                f"the saved position is batch {position} of epoch {epoch}, but an epoch has {self.per_epoch} "
                f"batches; resume with the data and the {setting('batch')} that the run was started with"
            )
        self._enter(epoch, position)

    def _enter(self, epoch: int, position: int) -> None:
        self.epoch = epoch
        self.position = position  # batches already taken from this epoch
        self._order = self.rows.epoch(self.seed, epoch)
