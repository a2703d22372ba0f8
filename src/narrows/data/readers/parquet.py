"""Parquet files, which state the types of their columns and the number of their rows."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, counted, silent
from narrows._util.room import amount, free_memory
from narrows.data.readers.parquet_pages import page_sizes
from narrows.data.readers.shared import CHUNK_BYTES, readable

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER = 1 << 20


class Parquet:
    """A Parquet file as a `Table`."""

    remark = delimiter = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as file:
            self.names: list[str] = file.schema_arrow.names
            self.types: list[pa.DataType] = file.schema_arrow.types
            self.count: int | None = file.metadata.num_rows

    @property
    def size(self) -> int:
        """See `Table`."""
        return self.path.stat().st_size

    def _source(self) -> Any:
        """Open the file for pyarrow."""
        import pyarrow as pa

        return pa.OSFile(os.fsencode(self.path))

    @contextlib.contextmanager
    def _opened(self, columns: int = 1) -> Iterator[Any]:
        from pyarrow import parquet

        # Without a buffer for each column, a row group is read as a whole, however large it is.
        buffer = min(_BUFFER, max(1 << 13, CHUNK_BYTES // columns))
        with (
            readable(self.path, "a Parquet file"),
            self._source() as source,
            parquet.ParquetFile(source, buffer_size=buffer) as file,
        ):
            yield file

    def unpacked(self, places: Sequence[int]) -> int:
        """See `Table`; the larger of what the footer and what the pages declare.

        Raises:
            NarrowsError: A page is damaged, or needs more memory than is free.
        """
        names, total, largest = {self.names[place] for place in places}, 0, 0
        with self._opened() as file:
            for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
                for chunk in map(group.column, range(group.num_columns)):
                    if chunk.path_in_schema not in names:  # columns of numbers are not nested
                        continue
                    start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
                    pages = list(page_sizes(self.path, start, start + chunk.total_compressed_size))
                    total += max(chunk.total_uncompressed_size, sum(pages))
                    largest = max(largest, *pages, 0)
        if largest > (free := free_memory()):
            raise NarrowsError(
                f"{self.path} declares a page of {amount(largest)}, and {amount(free)} of memory are free; write it "
                f"again with smaller pages"
            )
        return total

    def batches(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = (), rows: int | None = None
    ) -> Iterator["pa.RecordBatch"]:
        """See `Table`; `rows` at a time, by default as many as numbers of a few megabytes."""
        names = [self.names[place] for place in places]
        with self._opened(len(names)) as file:
            batches = file.iter_batches(rows or max(1, CHUNK_BYTES // (8 * len(names))), columns=names)
            for batch in counted(batches, self.count or 0, f"reading {os.path.basename(self.path)}", progress):
                yield batch.select(names)

    def whole(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator[tuple["pa.RecordBatch", "pa.RecordBatch"]]:
        """See `Table`."""
        with self._opened(len(self.names)) as file:
            for batch in file.iter_batches(max(1, CHUNK_BYTES // (8 * len(self.names)))):
                yield batch.select([self.names[place] for place in places]), batch

    def texts(self, place: int) -> Iterator["pa.Array"]:
        """See `Table`."""
        import pyarrow as pa

        for batch in self.batches([place], silent):
            column = batch.column(0)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            yield column.cast(pa.string())

    def example(self, place: int) -> tuple[int, str]:
        """See `Table`."""
        with self._opened() as file:
            first = next(file.iter_batches(1000, columns=[self.names[place]]), None)
            for row, value in enumerate(first.column(0).to_pylist() if first is not None else [], start=1):
                if value is not None:
                    return row, str(value)
        return 1, "null"
