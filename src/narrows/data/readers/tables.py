"""Tables: CSV and Parquet files whose columns are numbers, read with pyarrow into one array (rows, columns).

Whole numbers, floats, decimals and true / false are numbers. Text, dates and lists are not, and a vector cannot hold a
missing value (an empty field, null, NA, NaN, an infinity): both raise an error that names the column and the row,
counted from 1 below the header. The array is float32 if every column fits into it exactly (bool, floats of up to 32
bits, integers of up to 16), else float64, as for all numbers in a CSV file.

Both kinds of files (csv.py, parquet.py) are streamed, some rows at a time, so memory holds little more than the array.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from narrows._util.errors import NarrowsError, OptionError, did_you_mean, setting
from narrows._util.progress import Progress, silent
from narrows._util.text import printable
from narrows.data.cache import converted_array, file_digest
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.readers.shards import check_alike, set_name, shards_note, shards_of
from narrows.data.readers.shared import LISTED, LONGEST_NAME, check_expansion, listed

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST = 1e100  # columns are standardised in double precision before anything else
WITH_COMMA = re.compile(r"\s*[-+]?[\d.]*\d(,\d+)+(e[-+]?\d+)?\s*", re.I)
"""A number with a comma: a decimal as many countries write it, or thousands."""


class Table(Protocol):
    """A file of columns, some of which are numbers."""

    path: Path
    names: list[str]
    types: list["pa.DataType"]
    count: int | None  # rows, if the file states it
    remark: str  # how the file was understood, for the user
    delimiter: str  # of text; empty for files that store numbers

    @property
    def size(self) -> int:
        """Bytes of the file."""
        ...

    def unpacked(self, places: Sequence[int]) -> int:
        """Return how many bytes the columns at `places` unpack to, by what the file states; 0 if it does not."""
        ...

    def batches(self, places: Sequence[int], progress: Progress) -> Iterator["pa.RecordBatch"]:
        """Yield the columns at `places`, in that order, some rows at a time."""
        ...

    def example(self, place: int) -> tuple[int, str]:
        """Return the row and the text of a value in this column that is not a number."""
        ...


def is_number(kind: "pa.DataType") -> bool:
    """Return whether values of this type are numbers."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def text_error(table: Table, place: int, row: int, value: str) -> NarrowsError:
    """Return the error for a column that holds something other than numbers."""
    where = f"{table.path}: column {table.names[place]!r}"
    if WITH_COMMA.fullmatch(value):
        return NarrowsError(f"{where} writes numbers with a comma ({value!r} in row {row}); {_points(table, value)}")
    kind = str(table.types[place])
    if is_number(table.types[place]) or kind in ("string", "large_string", "string_view", "binary"):
        kind = "text"
    numbers = [name for i, name in enumerate(table.names) if i != place and is_number(table.types[i])]
    if numbers:
        more = f" (the first {LISTED} of {len(numbers)} columns of numbers)" if len(numbers) > LISTED else ""
        advice = f"keep only columns of numbers, with {setting('columns', ','.join(numbers[:LISTED]))}{more}"
        otherwise = "write the columns of numbers to another file"
    else:
        advice = otherwise = "no other column holds numbers either; encode them as numbers"
    shown = repr(value if len(value) <= 40 else value[:37] + "...")
    return OptionError(f"{where} holds {kind}, not numbers ({shown} in row {row})", advice, otherwise)


def _points(table: Table, value: str) -> str:
    """Return how to write a table's numbers with points."""
    if not table.delimiter:
        return "store the column as numbers"
    means, other = "decimal=','", ""
    if "." in value:
        means += ", thousands='.'"
    elif re.fullmatch(r"\s*[-+]?\d{1,3}(,\d{3})+\s*", value):
        means, other = "thousands=','", "; if it is a decimal, replace thousands by decimal there"
    read = f"pandas.read_csv({table.path.name!r}, sep={table.delimiter!r}, {means})"
    return f"write decimals with a point, for example with `{read}.to_csv('points.csv', index=False)`{other}"


def no_rows(path: Path) -> NarrowsError:
    """Return the error for an empty table."""
    return NarrowsError(f"{path} holds no rows of values; check how it was written")


def load_table(path: Path, columns: Sequence[str] | None = None, progress: Progress = silent) -> Data:
    """Return a table, or some of its columns in this order.

    Arguments:
        path: A file (.csv, .tsv, either with .gz, or .parquet), or what shards.py reads as several of them.
        columns: Names; all columns by default.
        progress: Called while rows are read.
    """
    check_tables()
    tables = [_open_table(one) for one in shards_of(path)]
    for table in tables[1:]:
        check_alike(tables[0].path, _columns_of(tables[0]), table.path, _columns_of(table))
    chosen = [numeric(table, columns) for table in tables]
    kinds = [table.types[place] for table, places in zip(tables, chosen, strict=True) for place in places]
    dtype = np.dtype(np.float32 if all(map(fits_float32, kinds)) else np.float64)
    names = tuple(tables[0].names[place] for place in chosen[0])
    for table, places in zip(tables, chosen, strict=True):
        declared = max((table.count or 0) * len(names) * dtype.itemsize, table.unpacked(places))
        check_expansion(str(table.path), table.size, declared)
    counts = [table.count for table in tables if table.count is not None]
    count = sum(counts) if len(counts) == len(tables) else None

    def rows() -> Iterator[np.ndarray]:
        for table, places in zip(tables, chosen, strict=True):
            yield from read_rows(table, places, dtype, progress)

    digest = file_digest(path, names) if len(tables) == 1 else _digest(tables, names)
    array, where = converted_array(f"table-{digest}.npy", (len(names),), dtype, rows, count, str(path))
    if not len(array):
        raise no_rows(path)
    note = f"{len(array)} rows of {len(names)} columns {shards_note([t.path for t in tables])}{where}{tables[0].remark}"
    name = re.sub(r"\.(csv|tsv)$", "", path.stem, flags=re.I) if path.is_file() else set_name(path)
    return Data(name, ArrayExamples(array), "any", note=note, columns=names)


def check_tables() -> None:
    """Raise if what reads tables is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise NarrowsError("reading CSV and Parquet files needs pyarrow: pip install 'narrows[tables]'") from None


def _open_table(path: Path) -> Table:
    from narrows.data.readers.csv import Csv
    from narrows.data.readers.parquet import Parquet

    return Parquet(path) if path.suffix.lower() in (".parquet", ".pq") else Csv(path)


def _columns_of(table: Table) -> tuple[str, ...]:
    return "the columns", *(f"{printable(name, LONGEST_NAME)}," for name in table.names)


def _digest(tables: Sequence[Table], names: tuple[str, ...]) -> str:
    every = [file_digest(table.path) for table in tables]
    return file_digest(tables[0].path, names, every)


def numeric(table: Table, columns: Sequence[str] | None) -> list[int]:
    """Return the positions of the chosen columns; raise if one of them does not hold numbers."""
    places = _chosen(table, columns)
    for place in places:
        if not is_number(table.types[place]):
            raise text_error(table, place, *table.example(place))
    return places


def _chosen(table: Table, columns: Sequence[str] | None) -> list[int]:
    """Return the positions of the chosen columns."""
    if not table.names:
        raise NarrowsError(f"{table.path} has no columns; check how it was written")
    if columns is None:
        columns = [name for name in table.names if not re.fullmatch(r"__index_level_\d+__", name)]  # pandas' row labels
    if not columns:
        raise NarrowsError(f"{table.path}: no columns are chosen; name one or more of {listed(table.names)}")
    places = {name: place for place, name in enumerate(table.names)}
    times, asked = Counter(table.names), Counter(columns)
    for name in asked:
        if name not in places:
            hint = did_you_mean(name, table.names)
            raise NarrowsError(f"{table.path} has no column {name!r}; its columns: {listed(table.names)}{hint}")
        if times[name] > 1:
            raise NarrowsError(
                f"{table.path} has {times[name]} columns called {name!r}; give each column a different name"
            )
        if asked[name] > 1:
            raise NarrowsError(f"{table.path}: column {name!r} is chosen twice; name it once")
    return [places[name] for name in columns]


def fits_float32(kind: "pa.DataType") -> bool:
    """Return whether single precision holds every value of this type."""
    from pyarrow import types

    small = types.is_integer(kind) and kind.bit_width <= 16
    return small or types.is_boolean(kind) or (types.is_floating(kind) and kind.bit_width <= 32)


def read_rows(table: Table, places: Sequence[int], dtype: np.dtype, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the rows as arrays; raise for missing or huge values at the end, when their number is known."""
    names, size = [table.names[place] for place in places], table.size
    missing, first = np.zeros((2, len(names)), np.int64)
    low, high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    seen = 0
    for batch in table.batches(places, progress):
        rows = _matrix(batch, dtype)
        absent = ~np.isfinite(rows)
        if absent.any():
            found = absent.sum(axis=0)
            first = np.where((missing == 0) & (found > 0), seen + 1 + absent.argmax(axis=0), first)
            missing += found
        seen += len(rows)
        check_expansion(str(table.path), size, seen * len(names) * dtype.itemsize)
        if table.count is not None and seen > table.count:
            break
        if not missing.any() and len(rows):
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            yield rows
    if table.count not in (None, seen):
        raise NarrowsError(f"{table.path} is damaged: it declares {table.count:,} rows and has others; write it again")
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        columns = np.count_nonzero(missing)
        raise NarrowsError(
            f"{table.path}: column {names[at]!r} lacks {missing[at]} of {seen} values (empty, NaN or infinite), "
            f"first in row {first[at]}{f' ({columns} columns lack some)' if columns > 1 else ''}; "
            "fill them in, or leave out those rows or columns"
        )
    huge = np.flatnonzero(np.maximum(-low, high) > _LARGEST)
    if len(huge):
        raise NarrowsError(
            f"{table.path}: column {names[huge[0]]!r} runs from {low[huge[0]]:.6g} to {high[huge[0]]:.6g}, "
            f"more than can be squared and summed ({_LARGEST:.3g}); rescale it"
        )


def _matrix(batch: "pa.RecordBatch", dtype: np.dtype) -> np.ndarray:
    """Return a batch as (rows, columns), NaN where a value is missing."""
    import pyarrow as pa

    wanted = pa.from_numpy_dtype(dtype)
    rows = np.empty((batch.num_rows, batch.num_columns), dtype)
    for j, column in enumerate(batch.columns):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type != wanted:
            column = column.cast(wanted, safe=False)
        rows[:, j] = column.to_numpy(zero_copy_only=False)
    return rows
