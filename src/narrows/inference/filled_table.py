"""A table with its missing values filled in: the same columns, in the same order, of the same types.

Only fields that were empty in columns that the model knows are written anew; everything else, such as names and dates,
is copied as it stands. A column of whole numbers or of true and false is filled with such values.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import atomic_file
from narrows._util.progress import Progress, silent
from narrows.data.decoded import as_column, filled
from narrows.data.mixed import Column, collapse, expand, stored_order, widths_of
from narrows.data.readers.tables import Table, as_matrix, check_known, check_tables, open_table, places_of
from narrows.inference.trained import Trained

if TYPE_CHECKING:
    import pyarrow as pa


def fill_table(trained: Trained, source: Path, out: Path, progress: Progress = silent) -> tuple[int, int]:
    """Write the table `source` with its missing values filled in, and return the numbers of rows and of values.

    Arguments:
        trained: A model that takes missing values, trained on columns of these names.
        source: The table.
        out: The file to write, with the ending of `source`.
        progress: Called while rows are read.

    Raises:
        NarrowsError: The table lacks a column, or a file cannot be written.
    """
    check_tables()
    if out.suffix.lower() != source.suffix.lower() or out.suffix.lower() == ".gz":
        plain = source.with_suffix("").suffix if source.suffix.lower() == ".gz" else source.suffix
        raise NarrowsError(f"{out}: a table is written as it was read; give {setting('out')} the ending {plain}")
    if out.exists() and out.samefile(source):
        raise NarrowsError(f"{out} is the table that is read; give {setting('out')} another name, so that both remain")
    table = open_table(source)
    spec = trained.table or tuple(Column(name) for name in trained.about["columns"])
    spec = tuple(spec[i] for i in stored_order(spec))
    places = places_of(table, [column.name for column in spec])
    check_known(table, places, spec)
    counts = [0, 0]
    try:
        with atomic_file(out) as file:
            writer: Any = None
            for batch in _filled(trained, table, places, spec, counts, progress):
                writer = writer or _writer(table, batch.schema, file)
                writer.write(batch)
            if writer is not None:
                writer.close()
    except OSError as error:
        raise NarrowsError(f"cannot write {out}: {error.strerror}; choose another {setting('out')}") from error
    return counts[0], counts[1]


@torch.no_grad()
def _filled(
    trained: Trained,
    table: Table,
    places: list[int],
    spec: Sequence[Column],
    counts: list[int],
    progress: Progress,
) -> Iterator["pa.RecordBatch"]:
    """Yield all columns of the table, filled in, some rows at a time; `counts` grow by rows and filled values."""
    called = [f"{table.path}: column {column.name!r}" for column in spec]
    levels, widths = [column.levels for column in spec], widths_of(spec)
    texts = [place for place, own in zip(places, levels, strict=True) if own]
    for numbers, whole in table.whole(places, progress, texts):
        x = as_matrix(numbers, np.dtype(np.float64), called, levels, counts[0])
        gaps = np.isnan(x)
        y = collapse(trained.filled(expand(torch.from_numpy(x), widths)).numpy(), widths)
        columns = list(whole.columns)
        for j, place in enumerate(places):
            if gaps[:, j].any():
                columns[place] = _filled_column(columns[place], table.types[place], spec[j], y[:, j], gaps[:, j])
        counts[0] += len(x)
        counts[1] += int(gaps.sum())
        yield whole.from_arrays(columns, schema=_schema(whole.schema, columns))


def _schema(schema: "pa.Schema", columns: list["pa.Array"]) -> "pa.Schema":
    """Return the schema of a table whose columns without any value have been filled in."""
    for place, column in enumerate(columns):
        if schema.field(place).type != column.type:
            schema = schema.set(place, schema.field(place).with_type(column.type))
    return schema


def _filled_column(
    column: "pa.Array", kind: "pa.DataType", what: Column, values: np.ndarray, gaps: np.ndarray
) -> "pa.Array":
    """Return a column with values where there are gaps; `kind` is what the column holds, also if it came as text."""
    import pyarrow as pa

    new = as_column(values[gaps], what, kind)
    if pa.types.is_string(column.type):
        written = [f"{one:.9g}" if isinstance(one, float) else one for one in new.to_pylist()]
        if pa.types.is_boolean(kind):  # as the file writes them: true, True or TRUE
            spelled = {str(one).lower(): one for one in column.unique().to_pylist()}
            written = [spelled.get(str(one).lower(), str(one).lower()) for one in written]
        new = pa.array(map(str, written), pa.string())
    return filled(column, gaps, new)


def _writer(table: Table, schema: "pa.Schema", file: BinaryIO) -> Any:
    """Return what writes batches, with a method `write` and a method `close`."""
    if table.delimiter:
        return _Text(file, table)
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema)


class _Text:
    """Writes batches of texts as a CSV file, with quotes only where they are needed."""

    def __init__(self, file: BinaryIO, table: Table) -> None:
        self.stream = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self.writer = csv.writer(self.stream, delimiter=table.delimiter, lineterminator="\n")
        self.writer.writerow(table.names)

    def write(self, batch: "pa.RecordBatch") -> None:
        self.writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def close(self) -> None:
        self.stream.detach()
