"""The two kinds of table files, CSV and Parquet, as a reader of columns sees them.

A CSV file is UTF-8, plain or gzipped, one header line, fields parted by commas, or by semicolons or tabs if those give
the header more fields; empty lines are skipped. A first line of numbers only is a row, and the columns are then c1, c2
and so on; but 0, 1, 2, ... is the header that pandas writes for columns without names. Types are guessed from the
first megabyte, and every later field is held to them.
"""

import contextlib
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from narrows.data.own.origin import CHUNK_BYTES
from narrows.data.progress import Progress
from narrows.errors import NarrowsError, OptionError

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 24
_LISTED = 8
_CONVERSION = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value '(.*)'", re.S)


class Table(Protocol):
    """A file of columns, of which some are numbers."""

    path: Path
    names: list[str]
    types: list["pa.DataType"]
    count: int | None  # rows, where known beforehand
    remark: str  # on how the file was understood, for the user

    def batches(self, places: Sequence[int], progress: Progress) -> Iterator["pa.RecordBatch"]:
        """Yield the columns at `places`, in that order, some rows at a time."""
        ...

    def example(self, place: int) -> tuple[int, str]:
        """Return the row and the text of a value that keeps this column from being numbers."""
        ...


def is_number(kind: "pa.DataType") -> bool:
    """Tell whether values of this type are numbers."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def text_error(table: Table, place: int, row: int, value: str) -> NarrowsError:
    """Return the refusal of a column that holds something else than numbers."""
    kind = str(table.types[place])
    kind = (
        "text" if kind in ("string", "large_string", "string_view", "binary") or is_number(table.types[place]) else kind
    )
    numbers = [name for i, name in enumerate(table.names) if i != place and is_number(table.types[i])]
    if numbers:
        more = f" (the first {_LISTED} of {len(numbers)} columns of numbers)" if len(numbers) > _LISTED else ""
        advice = f"choose columns with --columns {','.join(numbers[:_LISTED])}{more}"
        otherwise = "write the columns of numbers into a file of their own"
    else:
        advice = otherwise = "no other column holds numbers either; write what it says in numbers"
    if re.fullmatch(r"[-+]?[\d.]+,\d+", value):
        advice, otherwise = (f"write decimals with a point, or {one}" for one in (advice, otherwise))
    shown = repr(value if len(value) <= 40 else value[:37] + "...")
    problem = f"{table.path}: column {table.names[place]!r} holds {kind}, not numbers ({shown} in row {row})"
    return OptionError(problem, advice, otherwise)


def no_rows(path: Path) -> NarrowsError:
    """Return the refusal of an empty table."""
    return NarrowsError(f"{path} holds no rows of values; check how it was written")


def listed(names: Sequence[str]) -> str:
    """Return the first few names and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


@contextlib.contextmanager
def _translated(path: Path, kind: str) -> Iterator[None]:
    """Say in one line what kept the file from being read."""
    try:
        yield
    except NarrowsError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except Exception as error:  # a damaged file can break a reader in any way
        reason = str(error).partition("\n")[0][:200]
        raise NarrowsError(
            f"{path}: the file is damaged or not a {kind} file ({reason}); fetch or write it again"
        ) from None


class Parquet:
    """A Parquet file, which knows its columns' types and its number of rows."""

    remark = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as file:
            self.names: list[str] = file.schema_arrow.names
            self.types: list[pa.DataType] = file.schema_arrow.types
            self.count: int | None = file.metadata.num_rows

    @contextlib.contextmanager
    def _opened(self, columns: int = 1) -> Iterator[Any]:
        from pyarrow import parquet

        # Without a buffer, one for each column, a row group is read whole, however large.
        buffer = min(_BLOCK, max(1 << 13, CHUNK_BYTES // columns))
        with _translated(self.path, "Parquet"), parquet.ParquetFile(str(self.path), buffer_size=buffer) as file:
            yield file

    def batches(self, places: Sequence[int], progress: Progress) -> Iterator["pa.RecordBatch"]:
        """See Table."""
        names = [self.names[place] for place in places]
        done = 0
        with self._opened(len(names)) as file:
            for batch in file.iter_batches(max(1, CHUNK_BYTES // (8 * len(names))), columns=names):
                yield batch.select(names)
                done += batch.num_rows
                progress(f"reading {self.path.name}", done, self.count or 0)

    def example(self, place: int) -> tuple[int, str]:
        """See Table."""
        with self._opened() as file:
            first = next(file.iter_batches(1000, columns=[self.names[place]]), None)
            for row, value in enumerate(first.column(0).to_pylist() if first is not None else [], start=1):
                if value is not None:
                    return row, str(value)
        return 1, "null"


class Csv:
    """A CSV file. pyarrow knows its columns by their places, "0", "1", ..., since names may be missing or repeated."""

    count: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remark = ""
        self.gzipped = path.suffix.lower() == ".gz"
        with _translated(path, "CSV"), gzip.open(path) if self.gzipped else path.open("rb") as stream:
            self.empty_lines, line = _first_line(stream)
            cells, self.delimiter = self._split(line)
        # Blocks of several hundred rows, since each column of each has a cost; never less than a few rows.
        self.block = max(_BLOCK, min(CHUNK_BYTES, 256 * len(line)), 16 * len(line))
        self.header = not _is_row(cells)
        if self.header and not line.endswith((b"\n", b"\r")):
            raise no_rows(path)
        self.names = [cell or f"c{i}" for i, cell in enumerate(cells, start=1)]
        if not self.header:
            self.names = [f"c{i}" for i in range(1, len(cells) + 1)]
            self.remark = "; its first line is numbers, so it is taken as a row and not as names"
        elif "" in cells:
            self.remark = f"; column {cells.index('') + 1} has no name and is called c{cells.index('') + 1}"
        with self._reader(None, {}) as (_, reader):
            self.types: list[pa.DataType] = reader.schema.types

    def batches(self, places: Sequence[int], progress: Progress) -> Iterator["pa.RecordBatch"]:
        """See Table."""
        import pyarrow as pa

        size = self.path.stat().st_size
        kinds = {place: pa.bool_() if pa.types.is_boolean(self.types[place]) else pa.float64() for place in places}
        with self._reader(places, kinds) as (file, reader):
            for batch in reader:
                yield batch
                progress(f"reading {self.path.name}", file.tell(), size)

    def example(self, place: int) -> tuple[int, str]:
        """See Table."""
        import pyarrow as pa
        from pyarrow.csv import ConvertOptions

        with self._reader([place], {place: pa.binary()}) as (_, reader):
            values = [value.decode(errors="replace") for value in reader.read_next_batch().column(0).to_pylist()]
        absent = {*ConvertOptions().null_values, ""}
        rows = enumerate(values, start=1)
        return next(((row, value) for row, value in rows if value not in absent and not _number(value)), (1, values[0]))

    def _split(self, line: bytes) -> tuple[list[str], str]:
        """Return the cells of the first line, and the delimiter that gives most of them."""
        try:
            text = line.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError as error:
            found = f"byte 0x{line[error.start]:02x} in its first line"
            raise NarrowsError(f"{self.path} is not UTF-8 text ({found}); save it as CSV in UTF-8") from None
        if not text:
            raise NarrowsError(f"{self.path} is empty; check how it was written")
        if "\0" in text:
            raise NarrowsError(f"{self.path} is not UTF-8 text (zero bytes in its first line); save it as CSV in UTF-8")
        tabs = ".tsv" in (suffix.lower() for suffix in self.path.suffixes[-2:])
        splits = [(next(csv.reader(io.StringIO(text, newline=""), delimiter=d)), d) for d in ("\t" if tabs else ",;\t")]
        cells, delimiter = max(splits, key=lambda split: len(split[0]))
        return [cell.strip() for cell in cells], delimiter

    @contextlib.contextmanager
    def _reader(self, places: Sequence[int] | None, kinds: dict[int, Any]) -> Iterator[tuple[Any, Any]]:
        """Open the file; yield it, for the place reached, and its batches of the columns at `places`, None for all."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        ragged: list[Any] = []

        def note(row: Any) -> str:
            ragged.append(row)
            return "error"

        reading = arrow.ReadOptions(
            use_threads=False,  # with threads, which are no faster here, errors do not tell the row
            block_size=self.block,
            skip_rows=self.empty_lines,
            column_names=[str(place) for place in range(len(self.names))],
            skip_rows_after_names=int(self.header),
        )
        parsing = arrow.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            invalid_row_handler=note,
        )
        converting = arrow.ConvertOptions(
            include_columns=None if places is None else [str(place) for place in places],
            column_types={str(place): kind for place, kind in kinds.items()},
        )
        with _translated(self.path, "CSV"):
            # Not a Python file, and not closed here: pyarrow reads ahead in a thread that may outlive this block.
            file = pa.OSFile(str(self.path))
            stream = pa.CompressedInputStream(file, "gzip") if self.gzipped else file
            try:
                yield file, arrow.open_csv(stream, reading, parsing, converting)
            except pa.ArrowInvalid as error:
                raise self._invalid(str(error), ragged) from None

    def _invalid(self, said: str, ragged: list[Any]) -> Exception:
        """Put pyarrow's complaint in our words, with rows counted from 1 below the header."""
        before = self.empty_lines + self.header
        if ragged:
            row = ragged[-1]
            return NarrowsError(
                f"{self.path}: row {row.number - before} has {row.actual_columns} fields, not {row.expected_columns} "
                f"as the first line ({row.text[:40]!r}); mend it, and quote fields with {self.delimiter!r} in them"
            )
        found = _CONVERSION.match(said)
        if found:
            return text_error(self, int(found[1]), int(found[2]) - before, found[3])
        if "straddling" in said:
            said = f"a row is longer than {self.block >> 20} MB; is a quote left open?"
        return ValueError(said)


def _first_line(stream: BinaryIO | gzip.GzipFile) -> tuple[int, bytes]:
    """Return how many empty lines come first, and the first other line; line ends within quotes are part of it."""
    empty, quotes, line = 0, 0, bytearray()
    for part in iter(partial(stream.readline, _LONGEST_LINE), b""):
        for piece in part.splitlines(keepends=True):  # a lone \r ends a line too
            if not line and not piece.strip(b"\xef\xbb\xbf\r\n"):
                empty += 1
                continue
            line += piece
            quotes += piece.count(b'"')
            if quotes % 2 == 0 or len(line) > _LONGEST_LINE:
                return empty, bytes(line)
    return empty, bytes(line)


def _is_row(cells: list[str]) -> bool:
    """Tell numbers, which are a row, from names; 0, 1, 2, ... are the names pandas gives."""
    named = cells if cells[0] else cells[1:]
    if len(named) > 2 and named == [str(i) for i in range(len(named))]:
        return False
    return any(cells) and all(not cell or _number(cell) for cell in cells)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
