"""Tables: CSV and Parquet files whose columns are numbers, read with pyarrow into one array (rows, columns).

Whole numbers, floats, decimals and true / false are numbers. Text, dates and lists are not, and a vector cannot hold a
missing value (an empty field, null, NA, NaN, an infinity), unless `missing` is "mask": both raise an error that names
the column and the row, counted from 1 below the header. The array is float32 if every column fits into it exactly
(bool, floats of up to 32 bits, integers of up to 16), else float64, as for all numbers in a CSV file.

Both kinds of files (csv.py, parquet.py) are streamed, some rows at a time, so memory holds little more than the array.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from narrows._util.errors import NarrowsError, OptionError, did_you_mean, setting
from narrows._util.progress import Progress, silent, steps
from narrows._util.text import brief, printable
from narrows.data.arrays import MASK
from narrows.data.cache import converted_array, file_digest
from narrows.data.counting import PLAIN, Counting
from narrows.data.dataset import Categories, Data, Missing
from narrows.data.examples import ArrayExamples, Examples, release
from narrows.data.mixed import Column, MixedExamples, stored_order, value_names, widths_of
from narrows.data.readers.levels import TIMES, codes_of, is_category, is_text, is_time, levels_of
from narrows.data.readers.shards import check_alike, set_name, shards_note, shards_of
from narrows.data.readers.shared import LISTED, LONGEST_NAME, check_expansion, listed

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 65_536
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

    def batches(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator["pa.RecordBatch"]:
        """Yield the columns at `places`, in that order, some rows at a time; those of `texts` need not be numbers."""
        ...

    def example(self, place: int) -> tuple[int, str]:
        """Return the row and the text of a value in this column that is not a number."""
        ...

    def texts(self, place: int) -> Iterator["pa.Array"]:
        """Yield the column at `place` as texts, some rows at a time; null where a field is empty."""
        ...

    def whole(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator[tuple["pa.RecordBatch", "pa.RecordBatch"]]:
        """Yield rows twice: as `batches` does, and all columns, of text files as their texts."""
        ...


@dataclass(frozen=True)
class Roles:
    """The columns of a table that say something about its rows, and are not trained on."""

    group: str | None = None
    weight: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns that have a role."""
        return [name for name in (self.group, self.weight) if name is not None]


NO_ROLES = Roles()


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
    shown = repr(value if len(value) <= 40 else value[:37] + "...")
    if is_time(table.types[place]):
        return NarrowsError(f"{where} holds dates or times ({shown} in row {row}); {TIMES}")
    if numbers:
        more = f" (the first {LISTED} of {len(numbers)} columns of numbers)" if len(numbers) > LISTED else ""
        advice = f"keep only columns of numbers, with {setting('columns', ','.join(numbers[:LISTED]))}{more}"
        otherwise = "write the columns of numbers to another file"
    else:
        advice = otherwise = "no other column holds numbers either; encode them as numbers"
    if kind == "text":
        advice += f", or train on it as a category, with {setting('categories', 'auto')}"
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


def load_table(
    path: Path,
    columns: Sequence[str] | None = None,
    progress: Progress = silent,
    missing: Missing = "refuse",
    roles: Roles = NO_ROLES,
    categories: Categories = "refuse",
    known: Sequence[Column] = (),
) -> Data:
    """Return a table, or some of its columns in this order.

    Arguments:
        path: A file (.csv, .tsv, either with .gz, or .parquet), or what shards.py reads as several of them.
        columns: Names; all columns by default.
        progress: Called while rows are read.
        missing: Whether an empty field is refused, or stands for a value that was not observed.
        roles: The columns with groups and weights.
        categories: "auto" if columns of texts, and of true and false, are categories.
        known: The columns of the table that a model was trained on; the categories then have these levels.
    """
    check_tables()
    tables = [open_table(one) for one in shards_of(path)]
    for table in tables[1:]:
        check_alike(tables[0].path, _columns_of(tables[0]), table.path, _columns_of(table))
    if known:
        columns = [column.name for column in known]
    chosen = [usable(table, columns, roles) for table in tables]
    for table, places in zip(tables, chosen, strict=True):
        check_known(table, places, known)
    spec = tuple(known) or describe(tables, chosen, categories)
    order = stored_order(spec)
    chosen, stored = [[places[i] for i in order] for places in chosen], [spec[i] for i in order]
    kinds = [
        table.types[place]
        for table, places in zip(tables, chosen, strict=True)
        for place, column in zip(places, stored, strict=True)
        if column.kind != "category"
    ]
    dtype = np.dtype(np.float32 if all(map(fits_float32, kinds)) else np.float64)
    names = tuple(column.name for column in stored)
    for table, places in zip(tables, chosen, strict=True):
        declared = max((table.count or 0) * len(names) * dtype.itemsize, table.unpacked(places))
        check_expansion(str(table.path), table.size, declared)
    counts = [table.count for table in tables if table.count is not None]
    count = sum(counts) if len(counts) == len(tables) else None

    def rows() -> Iterator[np.ndarray]:
        for table, places in zip(tables, chosen, strict=True):
            yield from read_rows(table, places, dtype, progress, missing, [column.levels for column in stored])

    key: tuple[object, ...] = names
    if missing == "mask" or widths_of(spec):
        key = (names, missing, [column.levels for column in stored])
    digest = file_digest(path, key) if len(tables) == 1 else _digest(tables, key)
    array, where = converted_array(f"table-{digest}.npy", (len(names),), dtype, rows, count, str(path))
    if not len(array):
        raise no_rows(path)
    note = f"{len(array)} rows of {len(names)} columns {shards_note([t.path for t in tables])}{where}{tables[0].remark}"
    name = re.sub(r"\.(csv|tsv)$", "", path.stem, flags=re.I) if path.is_file() else set_name(path)
    absent = 0 if missing == "refuse" else count_missing(array, names, str(path), known=bool(known))
    return data_of(name, array, spec, absent, note, _counting(tables, roles, len(array)))


def data_of(
    name: str, array: np.ndarray, spec: tuple[Column, ...], missing: int, note: str = "", counting: Counting = PLAIN
) -> Data:
    """Return the columns of `spec`, stored in `array` with the categories last, as data."""
    examples: Examples = ArrayExamples(array)
    if widths := widths_of(spec):
        examples = MixedExamples(ArrayExamples(array), widths)
    values = value_names(spec)
    return Data(name, examples, "any", note=note, columns=values, table=spec, missing=missing, counting=counting)


def describe(tables: Sequence[Table], chosen: Sequence[Sequence[int]], categories: Categories) -> tuple[Column, ...]:
    """Return what each of the chosen columns holds; raise for one that is neither numbers nor a category."""
    from pyarrow import types

    found = []
    for number, place in enumerate(chosen[0]):
        table, kind = tables[0], tables[0].types[place]
        name, flag = table.names[place], types.is_boolean(kind)
        if is_category(kind) or (categories == "auto" and (flag or is_text(kind))):
            parts = (part for one, places in zip(tables, chosen, strict=True) for part in one.texts(places[number]))
            levels = levels_of(f"{table.path}: column {name!r}", parts)
            found.append(Column(name, "category", ("false", "true") if flag else levels))
        elif not is_number(kind):
            raise text_error(table, place, *table.example(place))
        else:
            found.append(Column(name, "flag" if flag else "whole" if types.is_integer(kind) else "number"))
    return tuple(found)


def count_missing(array: np.ndarray, names: Sequence[str], where: str, known: bool = False) -> int:
    """Return how many values are missing; raise if a column has none at all, unless a model knows it."""
    lacking = np.zeros(len(names), np.int64)
    for part in steps(len(array), _ROWS):
        lacking += np.isnan(array[part]).sum(0)
        release(array)
    if (lacking == len(array)).any() and not known:
        empty = names[int((lacking == len(array)).argmax())]
        raise NarrowsError(f"{where}: column {empty!r} has no value in any of {len(array)} rows; leave it out")
    return int(lacking.sum())


def _counting(tables: Sequence[Table], roles: Roles, rows: int) -> Counting:
    """Read the columns with groups and weights."""
    if not roles.names:
        return PLAIN
    found = {}
    for role, name in (("group", roles.group), ("weight", roles.weight)):
        if name is not None:
            texts = [part.to_numpy(zero_copy_only=False) for t in tables for part in t.texts(places_of(t, [name])[0])]
            found[role] = np.concatenate(texts)
    called = [f"{tables[0].path}: column {name!r}" for name in (roles.weight, roles.group)]
    return Counting.of(rows, found.get("weight"), found.get("group"), (called[0], called[1]), first=1)


def check_tables() -> None:
    """Raise if what reads tables is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise NarrowsError("reading CSV and Parquet files needs pyarrow: pip install 'narrows[tables]'") from None


def open_table(path: Path) -> Table:
    """Open one file of a table."""
    from narrows.data.readers.csv import Csv
    from narrows.data.readers.parquet import Parquet

    return Parquet(path) if path.suffix.lower() in (".parquet", ".pq") else Csv(path)


def _columns_of(table: Table) -> tuple[str, ...]:
    return "the columns", *(f"{printable(name, LONGEST_NAME)}," for name in table.names)


def _digest(tables: Sequence[Table], names: object) -> str:
    every = [file_digest(table.path) for table in tables]
    return file_digest(tables[0].path, names, every)


def numeric(table: Table, columns: Sequence[str] | None) -> list[int]:
    """Return the positions of the chosen columns; raise if one of them does not hold numbers."""
    places = usable(table, columns, NO_ROLES)
    for place in places:
        if not is_number(table.types[place]):
            raise text_error(table, place, *table.example(place))
    return places


def check_known(table: Table, places: Sequence[int], known: Sequence[Column]) -> None:
    """Raise if a column in which the model knows numbers holds something else."""
    for place, column in zip(places, known, strict=bool(known)):
        if column.kind != "category" and not is_number(table.types[place]):
            row, value = table.example(place)
            raise NarrowsError(
                f"{table.path}: column {column.name!r} must hold numbers, as in the table that the model was trained "
                f"on; it holds {table.types[place]} ({brief(value)} in row {row})"
            )


def usable(table: Table, columns: Sequence[str] | None, roles: Roles) -> list[int]:
    """Return the positions of the chosen columns, without those that have a role."""
    special = _places_of_roles(table, roles)
    places = [place for place in places_of(table, columns) if columns is not None or place not in special]
    for place in special:
        if place in places:
            raise NarrowsError(
                f"{table.path}: column {table.names[place]!r} says how rows count and cannot be trained on as well; "
                f"leave it out of {setting('columns')}"
            )
    if not places:
        raise NarrowsError(f"{table.path} has no columns left to train on; check {setting('columns')}")
    return places


def _places_of_roles(table: Table, roles: Roles) -> list[int]:
    """Return the positions of the columns with groups and weights."""
    if roles.group is not None and roles.group == roles.weight:
        raise NarrowsError(
            f"{setting('group_column')} and {setting('weight_column')} both name {roles.group!r}; name two columns, or "
            f"leave one out"
        )
    for option, name in (("group_column", roles.group), ("weight_column", roles.weight)):
        if name is not None and name not in table.names:
            hint = did_you_mean(name, table.names)
            raise NarrowsError(
                f"{setting(option, name)}: {table.path} has no such column; its columns: {listed(table.names)}{hint}"
            )
    return places_of(table, roles.names) if roles.names else []


def places_of(table: Table, columns: Sequence[str] | None) -> list[int]:
    """Return the positions of the chosen columns, all for None."""
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


def read_rows(
    table: Table,
    places: Sequence[int],
    dtype: np.dtype,
    progress: Progress,
    allowed: Missing = "refuse",
    levels: Sequence[Sequence[str]] | None = None,
) -> Iterator[np.ndarray]:
    """Yield the rows as arrays; raise for missing or huge values at the end, when their number is known.

    Arguments:
        table: The file.
        places: The columns.
        dtype: Of the arrays.
        progress: Called while rows are read.
        allowed: Whether values may be missing.
        levels: For each column that is a category its levels; for the others nothing.
    """
    levels = levels or [()] * len(places)
    texts = [place for place, own in zip(places, levels, strict=True) if own]
    names, size = [table.names[place] for place in places], table.size
    missing, first = np.zeros((2, len(names)), np.int64)
    low, high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    seen = 0
    for batch in table.batches(places, progress, texts):
        rows = as_matrix(batch, dtype, [f"{table.path}: column {name!r}" for name in names], levels, seen)
        absent = np.isinf(rows) if allowed == "mask" else ~np.isfinite(rows)
        if absent.any():
            found = absent.sum(axis=0)
            first = np.where((missing == 0) & (found > 0), seen + 1 + absent.argmax(axis=0), first)
            missing += found
        seen += len(rows)
        check_expansion(str(table.path), size, seen * len(names) * dtype.itemsize)
        if table.count is not None and seen > table.count:
            break
        if not missing.any() and len(rows):
            low, high = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
            yield rows
    if table.count not in (None, seen):
        raise NarrowsError(f"{table.path} is damaged: it declares {table.count:,} rows and has others; write it again")
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        columns = np.count_nonzero(missing)
        kind = "infinite" if allowed == "mask" else "empty, NaN or infinite"
        advice = "fill them in, or leave out those rows or columns"
        raise OptionError(
            f"{table.path}: column {names[at]!r} lacks {missing[at]} of {seen} values ({kind}), "
            f"first in row {first[at]}{f' ({columns} columns lack some)' if columns > 1 else ''}",
            advice if allowed == "mask" else f"{advice}, or train on what was observed with {MASK}",
            advice,
        )
    huge = np.flatnonzero(np.maximum(-low, high) > _LARGEST)
    if len(huge):
        raise NarrowsError(
            f"{table.path}: column {names[huge[0]]!r} runs from {low[huge[0]]:.6g} to {high[huge[0]]:.6g}, "
            f"more than can be squared and summed ({_LARGEST:.3g}); rescale it"
        )


def as_matrix(
    batch: "pa.RecordBatch", dtype: np.dtype, called: Sequence[str], levels: Sequence[Sequence[str]], start: int = 0
) -> np.ndarray:
    """Return a batch as (rows, columns), with codes for categories, and NaN where a value is missing.

    Arguments:
        batch: The columns.
        dtype: Of the array.
        called: What the columns are called in errors.
        levels: For each column that is a category its levels; for the others nothing.
        start: How many rows came before.
    """
    import pyarrow as pa

    wanted = pa.from_numpy_dtype(dtype)
    rows = np.empty((batch.num_rows, batch.num_columns), dtype)
    for j, column in enumerate(batch.columns):
        if levels[j]:
            rows[:, j] = codes_of(called[j], column, levels[j], start)
            continue
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type != wanted:
            column = column.cast(wanted, safe=False)
        rows[:, j] = column.to_numpy(zero_copy_only=False)
    return rows
