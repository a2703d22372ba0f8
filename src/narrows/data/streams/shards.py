"""One shard of a stream: what its header says, some of its rows, and all of them as a local .npy file.

Nothing of a shard is unpickled. What its header declares is compared with its size before anything else is read, and a
shard that holds more or less than it declares is refused. Values are checked as they arrive.
"""

import io
from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows.data.arrays import channels_last, check_dtype, check_floats
from narrows.data.dataset import Values
from narrows.data.readers.archives import read_header
from narrows.data.readers.shared import readable
from narrows.data.streams.transfer import File, check_unchanged, pieces, read_range, shown

if TYPE_CHECKING:
    pass

HEADER = 1 << 14
"""Bytes read from the start of an .npy file; headers of arrays are smaller."""
GAP = 1 << 17
"""Bytes between two wanted rows that are read and dropped, because another request would take longer."""
RUN = 1 << 21
"""Bytes that are read at once for some rows of a shard: several threads hold as many."""
MOST_COLUMNS = 100_000


class Shard(Protocol):
    """A file of a stream."""

    file: File

    @property
    def count(self) -> int:
        """Number of rows."""
        ...

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of one row as it is served: (H, W, C) or (D,)."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a table's columns; empty for arrays."""
        ...

    @property
    def layout(self) -> tuple[object, ...]:
        """What all shards of a set have in common, for errors."""
        ...

    @property
    def cached(self) -> int:
        """Bytes that `fetch` writes, without the header."""
        ...

    @property
    def by_range(self) -> bool:
        """Whether some rows can be read without the others."""
        ...

    def fetch(self, out: BinaryIO, ended: Event) -> None:
        """Write all rows to a file that `mapped` reads."""
        ...

    def mapped(self, file: BinaryIO) -> np.ndarray:
        """Map a file that `fetch` wrote, `(count, *row)`."""
        ...

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return some rows, `(len(index), *row)`; `index` is sorted."""
        ...


def open_shard(file: File, columns: Sequence[str] | None, size: tuple[int, int] | None = None) -> Shard:
    """Read the header of a shard; `columns` are for tables, and `size` (height, width) is for columns of images."""
    if file.path.lower().endswith(".npy"):
        if columns is not None:
            raise NarrowsError(
                f"{setting('columns')} is for tables, and {shown(file.address)} is an array; leave it out"
            )
        return NpyShard(file)
    if file.path.lower().endswith((".parquet", ".pq")):
        from narrows.data.streams.parquet_shards import open_parquet

        return open_parquet(file, columns, size)
    raise NarrowsError(f"{shown(file.address)}: streamed shards are .npy or .parquet files; convert it to one of these")


class NpyShard:
    """An .npy file; its rows are copied as they are."""

    columns: tuple[str, ...] = ()
    by_range = True

    def __init__(self, file: File) -> None:
        self.file, name = file, shown(file.address)
        head = read_range(file, 0, min(HEADER, file.size))
        with readable(name, "a .npy file", remedy="write it again with numpy"):  # type: ignore[arg-type]
            self.header = header = read_header(io.BytesIO(head), name)
            if any(side < 0 for side in header.shape) or file.size != header.start + header.nbytes:
                raise ValueError(f"{file.size:,} bytes for shape {header.shape} of {header.dtype}")
        check_dtype(header.dtype, name)
        if header.fortran:
            raise NarrowsError(f"{name} is in Fortran order, in which rows are scattered; save numpy.ascontiguousarray")
        self.count, self.dtype = header.shape[0] if header.shape else 0, header.dtype
        self.row = channels_last(np.broadcast_to(np.zeros((), header.dtype), header.shape), name).shape[1:]

    @property
    def layout(self) -> tuple[object, ...]:
        """See `Shard`."""
        return ("rows of", self.header.shape[1:], self.dtype)

    @property
    def cached(self) -> int:
        """See `Shard`."""
        return self.file.size

    def fetch(self, out: BinaryIO, ended: Event) -> None:
        """See `Shard`."""
        check_unchanged(self.file)
        for piece in pieces(self.file, ended=ended):
            out.write(piece)
        check_unchanged(self.file)

    def mapped(self, file: BinaryIO) -> np.ndarray:
        """See `Shard`."""
        array = np.memmap(file, self.dtype, "r", self.header.start, self.header.shape)
        return channels_last(array, shown(self.file.address))

    def rows(self, index: np.ndarray) -> np.ndarray:
        """See `Shard`; rows that lie close together are read at once."""
        width = self.header.nbytes // self.count
        stored = np.empty((len(index), *self.header.shape[1:]), self.dtype)
        for part in _runs(index, max(1, GAP // width), max(1, RUN // width)):
            first, last = int(index[part.start]), int(index[part.stop - 1])
            start = self.header.start + first * width
            content = read_range(self.file, start, start + (last - first + 1) * width)
            run = np.frombuffer(content, self.dtype).reshape(-1, *self.header.shape[1:])
            stored[part] = run[index[part] - first]
        return np.ascontiguousarray(channels_last(stored, shown(self.file.address))) if len(index) else _empty(self)


def _runs(index: np.ndarray, gap: int, most: int) -> Iterator[slice]:
    """Yield the parts of a sorted index that are read at once: with gaps of at most `gap` rows, over `most` rows."""
    start = 0
    for stop in range(1, len(index) + 1):
        if stop == len(index) or index[stop] - index[stop - 1] > gap or index[stop] - index[start] >= most:
            yield slice(start, stop)
            start = stop


def _empty(shard: Shard) -> np.ndarray:
    return np.empty((0, *shard.row), shard.dtype)


def check_values(rows: np.ndarray, values: Values, scale: float, name: str) -> None:
    """Raise if values that have arrived cannot be used: the checks of arrays.py, one shard at a time."""
    if rows.dtype.kind == "f" and len(rows):
        check_floats(rows, values, name)
    elif rows.dtype == np.uint8 and scale == 1 and len(rows) and rows.max() > 1:
        raise NarrowsError(
            f"{name} holds bytes above 1, and the first rows of the set hold only 0 and 1; convert one or the other"
        )
