"""Parquet files as shards: columns of numbers, or one column of images, read by ranges and never downloaded as a whole.

A column of images is what the sets of the Hugging Face hub have: structs of bytes and a path. Only the bytes are
decoded, by the rules of readers/images.py; a path could name any file of yours. Without a size all must be alike.
"""

import io
import math
from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import silent
from narrows.data.cache import write_array
from narrows.data.readers.archives import read_header
from narrows.data.readers.images import LARGEST, opened, to_array
from narrows.data.readers.parquet import Parquet
from narrows.data.readers.shared import check_expansion
from narrows.data.readers.tables import check_tables, fits_float32, numeric, read_rows
from narrows.data.streams.shards import MOST_COLUMNS
from narrows.data.streams.transfer import File, check_unchanged, read_range, shown

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
IMAGES_AT_ONCE = 256


def open_parquet(file: File, columns: Sequence[str] | None, size: tuple[int, int] | None) -> "ParquetShard":
    """Read the footer of a Parquet file: its column of images if it has one or one is named, else its numbers."""
    check_tables()
    table = RemoteParquet(file)
    pictures = [name for name, kind in zip(table.names, table.types, strict=True) if _is_picture(kind)]
    if (len(pictures) == 1 and columns is None) or (columns is not None and list(columns) == pictures[:1]):
        return PictureShard(file, table, table.names.index(pictures[0]), size)
    if size is not None:
        raise NarrowsError(f"{shown(file.address)} has no column of images; leave out {setting('image_size')}")
    return ParquetShard(file, table, columns)


def _is_picture(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return types.is_struct(kind) and {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}


class ParquetShard:
    """A Parquet file of columns of numbers; only the columns that are used are read, converted to one array."""

    by_range = False

    def __init__(self, file: File, table: "RemoteParquet", columns: Sequence[str] | None) -> None:
        self.file, self.table = file, table
        self.places = numeric(self.table, columns)
        self.columns = tuple(self.table.names[place] for place in self.places)
        if len(self.columns) > MOST_COLUMNS:
            raise NarrowsError(f"{shown(file.address)} has {len(self.columns):,} columns; choose some of them")
        kinds = [self.table.types[place] for place in self.places]
        self.dtype = np.dtype(np.float32 if all(map(fits_float32, kinds)) else np.float64)
        self.count, self.row = self.table.count or 0, self._row()
        check_expansion(shown(file.address), file.size, self.cached)

    @property
    def layout(self) -> tuple[object, ...]:
        """See `Shard`."""
        return ("the columns", *(f"{name}," for name in self.columns), "as", self.dtype)

    @property
    def cached(self) -> int:
        """See `Shard`."""
        return self.count * math.prod(self.row) * self.dtype.itemsize

    def _row(self) -> tuple[int, ...]:
        return (len(self.columns),)

    def _chunks(self) -> Iterator[np.ndarray]:
        return read_rows(self.table, self.places, self.dtype, silent)

    def fetch(self, out: BinaryIO, ended: Event) -> None:
        """See `Shard`."""
        check_unchanged(self.file)
        write_array(out, self.row, self.dtype, self._chunks())
        check_unchanged(self.file)

    def mapped(self, file: BinaryIO) -> np.ndarray:
        """See `Shard`."""
        file.seek(0)
        header = read_header(file, shown(self.file.address))
        return np.memmap(file, self.dtype, "r", header.start, (self.count, *self.row))

    def rows(self, index: np.ndarray) -> np.ndarray:
        """See `Shard`; the whole file is read, because its rows are compressed together."""
        found, seen = [np.empty((0, *self.row), self.dtype)], 0
        for chunk in self._chunks():
            here = index[(index >= seen) & (index < seen + len(chunk))] - seen
            found.append(chunk[here])
            seen += len(chunk)
            if not len(index) or index[-1] < seen:
                break
        return np.concatenate(found)


class PictureShard(ParquetShard):
    """A Parquet file with a column of images."""

    def __init__(self, file: File, table: "RemoteParquet", place: int, size: tuple[int, int] | None) -> None:
        self.file, self.table, self.places, self.size = file, table, [place], size
        self.columns, self.dtype, self.count = (), np.dtype(np.uint8), table.count or 0
        self.row: tuple[int, ...] = ()
        self.row = next(self._decoded(1)).shape[1:]
        if size is None and max(self.row[:2]) > LARGEST:
            raise NarrowsError(
                f"{shown(file.address)}: images of {self.row[0]} x {self.row[1]} pixels, not of 1 to {LARGEST}; scale "
                f"all to one size with {setting('image_size', 64)}"
            )

    @property
    def layout(self) -> tuple[object, ...]:
        """See `Shard`."""
        return ("images of", self.row, self.dtype)

    def _chunks(self) -> Iterator[np.ndarray]:
        return self._decoded(IMAGES_AT_ONCE)

    def _decoded(self, at_once: int) -> Iterator[np.ndarray]:
        """Yield the images, decoded, at most `at_once` together."""
        seen, name = 0, shown(self.file.address)
        channels = self.row[2] if self.row else None
        for batch in self.table.batches(self.places, silent, rows=at_once):
            images: list[np.ndarray] = []
            for content in batch.column(0).field("bytes").to_pylist():
                image = opened(io.BytesIO(content or b""), FORMATS, lambda one: to_array(one, self.size, channels))
                if isinstance(image, str):
                    raise NarrowsError(f"{name}: row {seen + len(images) + 1} is a broken image ({image}); repair it")
                if self.row and image.shape != self.row:
                    raise NarrowsError(
                        f"{name}: row {seen + len(images) + 1} is an image of {image.shape}, and the first is one of "
                        f"{self.row}; scale all to one size with {setting('image_size', 64)}"
                    )
                images.append(image)
            seen += len(images)
            if images:
                yield np.stack(images)
        if not seen:
            raise NarrowsError(f"{name} holds no images; leave it out")


class RemoteParquet(Parquet):
    """A Parquet file that is read by ranges, as a `Table`."""

    def __init__(self, file: File) -> None:
        self.file = file
        super().__init__(shown(file.address))  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    def _source(self) -> Any:
        import pyarrow as pa

        return pa.PythonFile(RangeFile(self.file), mode="r")


class RangeFile(io.RawIOBase):
    """A remote file as a Python file: every read asks for a range."""

    def __init__(self, file: File) -> None:
        super().__init__()
        self.file, self.at = file, 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it has positions."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.file.size}[whence]
        return self.at

    def size(self) -> int:
        """Return the size, which pyarrow asks for."""
        return self.file.size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        stop = self.file.size if size < 0 else min(self.at + size, self.file.size)
        content = read_range(self.file, self.at, stop) if stop > self.at else b""
        self.at += len(content)
        return content
