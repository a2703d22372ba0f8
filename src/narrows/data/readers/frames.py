"""Tables in memory: data frames of pandas and polars, and tables of pyarrow, read as files are.

A column of pandas' or polars' categories is a category; a column of texts is one if categories="auto". Decoded values
go back the same way: `to_frame` makes a table of the same kind, whose columns have the names and types that they had.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from narrows._util.checks import TEXT, argument, one_of, several
from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import Progress, silent
from narrows._util.text import brief
from narrows.data.arrays import check_missing
from narrows.data.counting import Counting
from narrows.data.dataset import Categories, Data, Missing
from narrows.data.decoded import as_column, filled
from narrows.data.mixed import Column, collapse, stored_order, widths_of
from narrows.data.readers.tables import (
    NO_ROLES,
    check_known,
    check_tables,
    count_missing,
    data_of,
    describe,
    fits_float32,
    read_rows,
    usable,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 65_536
TIMES_OF_PANDAS = ("datetime64", "datetime", "date", "timedelta64", "timedelta", "period", "interval")


def is_frame(x: Any) -> bool:
    """Return whether x is a data frame of pandas or polars, or a table of pyarrow."""
    return _home(x) in ("pandas", "polars", "pyarrow") and type(x).__name__ in ("DataFrame", "Table")


def names_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    return list(map(str, frame.column_names if _home(frame) == "pyarrow" else frame.columns))


def is_numeric(frame: Any, categories: Categories) -> bool:
    """Return whether all columns state that they hold numbers; true and false are, unless categories="auto"."""
    home = _home(frame)
    if home == "pandas":
        numbers = "iuf" if categories == "auto" else "iufb"
        return all(getattr(kind, "kind", "O") in numbers for kind in frame.dtypes)
    if home == "polars":
        flags = [str(kind) == "Boolean" and categories == "refuse" for kind in frame.dtypes]
        return all(flag or kind.is_numeric() for flag, kind in zip(flags, frame.dtypes, strict=True))
    from pyarrow import types

    flags = [types.is_boolean(kind) and categories == "refuse" for kind in frame.schema.types]
    numbers_of = [types.is_integer(kind) or types.is_floating(kind) for kind in frame.schema.types]
    return all(map(any, zip(flags, numbers_of, strict=True)))


def _home(frame: Any) -> str:
    """Return the library that a frame comes from."""
    return type(frame).__module__.partition(".")[0]


def to_arrow(x: Any, name: str = "X") -> "pa.Table":
    """Return a data frame as a table of pyarrow; a pandas index is left out."""
    check_tables()
    import pyarrow as pa

    if isinstance(x, pa.Table):
        return x
    if times := [column for column, count in Counter(map(str, x.columns)).items() if count > 1]:
        raise NarrowsError(f"{name} has several columns called {times[0]!r}; give each column a different name")
    try:
        if hasattr(x, "to_arrow"):
            return x.to_arrow()
        named = x.set_axis([str(column) for column in x.columns], axis=1)
        return pa.Table.from_pandas(_with_texts(named), preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        found = re.search(r"column (.+) with type", str(error))
        which = "a column" if found is None else f"column {found[1]!r}"
        reason = re.split(r"[.\"]", str(error).lstrip('("'))[0]
        raise NarrowsError(f"{name}: {which} cannot be read ({reason}); convert it to numbers or texts") from None


def _with_texts(frame: Any) -> Any:
    """Return a pandas frame in which categories that are not texts, such as 1, 2 and 3, are texts."""
    for name, kind in frame.dtypes.items():
        if str(kind) == "category" and kind.categories.inferred_type not in ("string", "empty", *TIMES_OF_PANDAS):
            frame = frame.assign(**{name: frame[name].cat.rename_categories(list(map(str, kind.categories)))})
    return frame


def from_table(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: Missing = "refuse",
    categories: Categories = "refuse",
    weights: Any = None,
    groups: Any = None,
    name: str = "table",
) -> Data:
    """Check a table that you hold, and return it as `Data` for `narrows.train`.

    Arguments:
        table: A data frame of pandas or polars, or a table of pyarrow.
        columns: The names of the columns to take; by default all.
        missing: "mask" if an empty field stands for a value that was not observed.
        categories: "auto" if columns of texts, and of true and false, are categories.
        weights: How much each row counts, (N,).
        groups: The group of each row, (N,); a group is never divided between splits.
        name: What errors and run folders call the data.

    Raises:
        NarrowsError: A column is neither numbers nor a category, or a value is missing.
    """
    argument("name", name, TEXT)
    check_missing(missing)
    argument("categories", categories, one_of(get_args(Categories)))
    if not is_frame(table):
        raise NarrowsError(
            f"{setting('table')} must be a data frame of pandas or polars, or a table of pyarrow; it is {brief(table)}"
        )
    if columns is not None:
        columns = several("columns", columns, TEXT, "names of columns")
    data = read_frame(table, name, columns, missing, categories)
    counting = Counting.of(len(data.examples), weights, groups)
    return Data(**{**vars(data), "counting": counting})


def read_frame(
    frame: Any,
    name: str,
    columns: Sequence[str] | None = None,
    missing: Missing = "refuse",
    categories: Categories = "refuse",
    known: Sequence[Column] = (),
) -> Data:
    """Return a frame as data; `known` are the columns that a model was trained on, with their levels."""
    table = Frame(to_arrow(frame, name), name)
    places = usable(table, [column.name for column in known] if known else columns, NO_ROLES)
    check_known(table, places, known)
    spec = tuple(known) or describe([table], [places], categories)
    order = stored_order(spec)
    places, levels = [places[i] for i in order], [spec[i].levels for i in order]
    small = all(own or fits_float32(table.types[place]) for place, own in zip(places, levels, strict=True))
    parts = list(read_rows(table, places, np.dtype(np.float32 if small else np.float64), silent, missing, levels))
    if not parts:
        raise NarrowsError(f"{name} has no rows; check how it was made")
    array = np.concatenate(parts)
    names = [table.names[place] for place in places]
    absent = 0 if missing == "refuse" else count_missing(array, names, name, known=bool(known))
    return data_of(name, array, spec, absent)


def columns_of(frame: Any) -> tuple[Column, ...]:
    """Return what each column of a frame of numbers holds."""
    table = Frame(to_arrow(frame), "X")
    return describe([table], [range(len(table.names))], "refuse")


@dataclass(frozen=True)
class FrameKind:
    """What kind of table a frame is, and the types of its columns."""

    home: str
    """pandas, polars or pyarrow."""
    schema: "pa.Schema"
    dtypes: dict[Any, Any]
    """The types as pandas and polars name them, by column."""

    @classmethod
    def of(cls, frame: Any) -> "FrameKind":
        """Return the kind of a frame."""
        home, schema = _home(frame), to_arrow(frame).schema
        return cls(home, schema, {} if home == "pyarrow" else dict(zip(frame.columns, frame.dtypes, strict=True)))


def to_frame(values: np.ndarray, spec: Sequence[Column], kind: FrameKind) -> Any:
    """Return vectors, (N, values), as a table of this kind with the columns of `spec`.

    Arguments:
        values: Numbers, and a block for each category, of which the largest counts.
        spec: The columns, in the order of the table.
        kind: The kind of table, and the types of its columns.
    """
    import pyarrow as pa

    rows, arrays = collapse(values, widths_of(spec)), {}
    for place, j in enumerate(stored_order(spec)):
        arrays[spec[j].name] = as_column(rows[:, place], spec[j], kind.schema.field(spec[j].name).type)
    table = pa.table({column.name: arrays[column.name] for column in spec})
    if kind.home == "pyarrow":
        return table
    if kind.home == "polars":
        import polars

        return polars.from_arrow(table).cast({name: kind.dtypes[name] for name in table.column_names})
    frame = table.to_pandas().rename(columns={str(name): name for name in kind.dtypes})
    for name in frame.columns:
        frame[name] = _typed(frame[name], kind.dtypes[name])
    return frame


def fill_frame(frame: Any, values: np.ndarray, gaps: np.ndarray, spec: Sequence[Column]) -> Any:
    """Return a frame with values in place of what is missing; everything else stays as it is.

    Arguments:
        frame: The frame, with the columns of `spec` and perhaps others.
        values: Numbers and codes as `spec` stores them, (N, columns).
        gaps: Where values are missing, (N, columns).
        spec: The columns, in the order of the table.
    """
    kind, table, found = FrameKind.of(frame), to_arrow(frame), {}
    for place, j in enumerate(stored_order(spec)):
        lacking, name = gaps[:, place], spec[j].name
        if lacking.any():
            column = table.column(name).combine_chunks()
            found[name] = filled(column, lacking, as_column(values[lacking, place], spec[j], column.type))
    if kind.home == "pyarrow":
        for name, column in found.items():
            field = table.schema.field(name).with_type(column.type)
            table = table.set_column(table.column_names.index(name), field, column)
        return table
    if kind.home == "polars":
        import polars

        series = {name: polars.from_arrow(column) for name, column in found.items()}
        return frame.with_columns(
            (one if kind.dtypes[name] == polars.Null else one.cast(kind.dtypes[name])).alias(name)
            for name, one in series.items()
        )
    names, out = {str(name): name for name in kind.dtypes}, frame.copy()
    for name, column in found.items():
        out[names[name]] = _typed(column.to_pandas(), kind.dtypes[names[name]]).set_axis(frame.index)
    return out


def _typed(series: Any, kind: Any) -> Any:
    """Return a series of pandas with this type; categories that are not texts are found by their texts."""
    if str(kind) == "category":
        series = series.astype(object).map({str(level): level for level in kind.categories})
    return series.astype(kind)


class Frame:
    """A table of pyarrow, read as tables.py reads files."""

    delimiter = remark = ""

    def __init__(self, table: "pa.Table", name: str) -> None:
        self.table, self.path = table, Path(name)
        self.names: list[str] = table.column_names
        self.types: list[pa.DataType] = table.schema.types
        self.count: int | None = table.num_rows

    @property
    def size(self) -> int:
        """Bytes; a table in memory unpacks to nothing larger."""
        return max(1 << 20, self.table.nbytes)

    def unpacked(self, places: Sequence[int]) -> int:
        """See `Table`."""
        return 0

    def batches(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator["pa.RecordBatch"]:
        """See `Table`."""
        yield from self.table.select(list(places)).to_batches(max_chunksize=ROWS)

    def texts(self, place: int) -> Iterator["pa.Array"]:
        """See `Table`."""
        import pyarrow as pa

        for batch in self.batches([place], silent):
            column = batch.column(0)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            yield column.cast(pa.string())

    def whole(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator[tuple["pa.RecordBatch", "pa.RecordBatch"]]:
        """See `Table`."""
        for batch in self.table.to_batches(max_chunksize=ROWS):
            yield batch.select([self.names[place] for place in places]), batch

    def example(self, place: int) -> tuple[int, str]:
        """See `Table`."""
        for row, value in enumerate(self.table.column(place).to_pylist()[:1000], start=1):
            if value is not None:
                return row, str(value)
        return 1, "null"
