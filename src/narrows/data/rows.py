"""`JoinedRows`: the rows of many parts, in order, as one array that nobody has to build.

Row i of the whole lies in the part p with offsets[p] <= i < offsets[p + 1]; `np.searchsorted` finds it. A batch is one
gather per part that it touches, and the pages that were touched are unmapped after it (examples.py says why).
"""

from collections.abc import Callable, Sequence

import numpy as np

from narrows.data.examples import SMALL_MAP, unmap


class JoinedRows:
    """Rows of several arrays one after the other; indices, lists of indices and slices give arrays.

    Arguments:
        counts: Rows of each part.
        row: The shape of one row.
        dtype: The type of the values.
        part: Returns a part by its number, `(counts[number], *row)`, mapped or in memory.
    """

    def __init__(
        self, counts: Sequence[int], row: tuple[int, ...], dtype: np.dtype, part: Callable[[int], np.ndarray]
    ) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.shape, self.dtype = (int(self.offsets[-1]), *row), dtype
        self.nbytes = int(np.prod(self.shape, dtype=object)) * dtype.itemsize
        self._part = part

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: np.ndarray | Sequence[int] | slice) -> np.ndarray:
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        index = np.asarray(index, np.int64)
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        self.fill(out, np.arange(len(index)), index)
        return out

    def fill(self, out: np.ndarray, places: np.ndarray, index: np.ndarray) -> None:
        """Write row `index[i]` to `out[places[i]]`."""
        parts = np.searchsorted(self.offsets, index, side="right") - 1
        for number in np.unique(parts):
            here = parts == number
            rows = self._part(int(number))
            out[places[here]] = rows[index[here] - self.offsets[number]]
            if self.nbytes > SMALL_MAP:
                unmap(rows)
