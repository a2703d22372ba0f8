"""CSV files: UTF-8 text, plain or gzipped, one header line and one row per line.

Fields are separated by commas, or by semicolons or tabs if those give the header more fields; empty lines are skipped.
A first line that holds only numbers is a row, and the columns are then called c1, c2 and so on; but 0, 1, 2, ... is the
header that pandas writes for columns without names. The type of a column is guessed from the first megabyte, and every
later field must have it.
"""

import contextlib
import csv
import gzip
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress
from narrows.data.readers.shared import CHUNK_BYTES, check_expansion, readable
from narrows.data.readers.tables import WITH_COMMA, no_rows, text_error

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 24
_MOST_EMPTY = 10_000  # lines before the first other one
_CONVERSION = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value '(.*)'", re.S)

_RAGGED = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.S)


class Csv:
    """A CSV file as a `Table`.

    pyarrow knows the columns by their positions, "0", "1", ..., because names may be missing or repeated.
    """

    count: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remark = ""
        self.gzipped = path.suffix.lower() == ".gz"
        with readable(path, "a CSV file"), gzip.open(path) if self.gzipped else path.open("rb") as stream:
            self.empty_lines, line = _first_line(stream)
            cells, self.delimiter = self._split(line)
        # Blocks of several hundred rows, because every column of every block has a cost; never less than a few rows.
        self.block = max(_BLOCK, min(CHUNK_BYTES, 256 * len(line)), 16 * len(line))
        self.header = not _is_row(cells)
        if self.header and not line.endswith((b"\n", b"\r")):
            raise no_rows(path)
        self.names = [cell if cell and self.header else f"c{i}" for i, cell in enumerate(cells, start=1)]
        if not self.header:
            self.remark = "; its first line holds only numbers and is taken as a row, not as names"
        elif "" in cells:
            self.remark = f"; column {cells.index('') + 1} has no name and is called c{cells.index('') + 1}"
        with self._reader(None, {}) as (_, reader):
            self.types: list[pa.DataType] = reader.schema.types

    @property
    def size(self) -> int:
        """See `Table`."""
        return self.path.stat().st_size

    def unpacked(self, places: Sequence[int]) -> int:
        """See `Table`; text states nothing, and what gzip states is used in `batches`."""
        return 0

    def batches(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator["pa.RecordBatch"]:
        """See `Table`; raise after the first block if the rest will be out of all proportion to the file."""
        import pyarrow as pa

        size, text = self.path.stat().st_size, self._length()
        kinds = {place: pa.bool_() if pa.types.is_boolean(self.types[place]) else pa.float64() for place in places}
        kinds.update({place: pa.string() for place in texts if place not in kinds or kinds[place] != pa.bool_()})
        with self._reader(places, kinds) as (file, reader):
            for i, batch in enumerate(reader):
                if i == 0:
                    check_expansion(str(self.path), size, batch.nbytes * text // self.block)
                yield batch
                progress(f"reading {self.path.name}", file.tell(), size)

    def example(self, place: int) -> tuple[int, str]:
        """See `Table`."""
        import pyarrow as pa
        from pyarrow.csv import ConvertOptions

        with self._reader([place], {place: pa.binary()}) as (_, reader):
            found = reader.read_next_batch().column(0).to_pylist()
            values = [(value or b"").decode(errors="replace") for value in found]
        absent = {*ConvertOptions().null_values, ""}
        rows = enumerate(values, start=1)
        return next(((row, value) for row, value in rows if value not in absent and not _number(value)), (1, values[0]))

    def texts(self, place: int) -> Iterator["pa.Array"]:
        """See `Table`."""
        import pyarrow as pa

        with self._reader([place], {place: pa.string()}) as (_, reader):
            for batch in reader:
                yield batch.column(0)

    def whole(
        self, places: Sequence[int], progress: Progress, texts: Collection[int] = ()
    ) -> Iterator[tuple["pa.RecordBatch", "pa.RecordBatch"]]:
        """See `Table`; both readers cut the file at the same bytes."""
        import pyarrow as pa

        every = range(len(self.names))
        with self._reader(every, dict.fromkeys(every, pa.string()), copy=True) as (_, reader):
            for numbers in self.batches(places, progress, texts):
                yield numbers, reader.read_next_batch()

    def _length(self) -> int:
        """Return the bytes of text, of a gzipped file as its end states them (of its last member, modulo 2^32)."""
        with self.path.open("rb") as file:
            length = file.seek(-4 if self.gzipped else 0, os.SEEK_END)
            return int.from_bytes(file.read(4), "little") if self.gzipped else length

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
        # The commas of decimals are no delimiters: 0,5;0,25 are two numbers.
        decimals = [split for split in splits if len(split[0]) > 1 and all(map(WITH_COMMA.fullmatch, split[0]))]
        cells, delimiter = max(decimals or splits, key=lambda split: len(split[0]))
        return [cell.strip() for cell in cells], delimiter

    @contextlib.contextmanager
    def _reader(
        self, places: Sequence[int] | None, kinds: dict[int, Any], copy: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Open the file; yield it, for its position, and its batches of the columns at `places`, all for None.

        With `copy` every text is what the file says, so that NA can also be the code of a country.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow

        reading = arrow.ReadOptions(
            use_threads=False,  # with threads, which are no faster here, errors do not state the row
            block_size=self.block,
            skip_rows=self.empty_lines,
            column_names=[str(place) for place in range(len(self.names))],
            skip_rows_after_names=int(self.header),
        )
        parsing = arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        converting = arrow.ConvertOptions(
            include_columns=None if places is None else [str(place) for place in places],
            column_types={str(place): kind for place, kind in kinds.items()},
            strings_can_be_null=not copy,
        )
        with readable(self.path, "a CSV file"):
            # Not a Python file, and not closed here: pyarrow reads ahead in a thread that may outlive this block.
            file = pa.OSFile(os.fsencode(self.path))
            stream = pa.CompressedInputStream(file, "gzip") if self.gzipped else file
            try:
                yield file, arrow.open_csv(stream, reading, parsing, converting)
            except pa.ArrowInvalid as error:
                raise self._invalid(str(error)) from None

    def _invalid(self, message: str) -> Exception:
        """Translate pyarrow's error, with rows counted from 1 below the header."""
        before = self.empty_lines + self.header
        if found := _RAGGED.match(message):
            row, expected, actual = map(int, found.group(1, 2, 3))
            remedy = f"fix it, and quote fields with {self.delimiter!r} in them"
            if (
                actual == 2 * expected
                and self.delimiter == ","
                and re.fullmatch(r"[-+,\d]+( \.\.\.)?", found[4].strip())
            ):
                remedy = "if these are decimal commas, write decimals with a point"
            return NarrowsError(
                f"{self.path}: row {row - before} has {actual} fields, not {expected} as the first line "
                f"({found[4][:40]!r}); {remedy}"
            )
        if found := _CONVERSION.match(message):
            return text_error(self, int(found[1]), int(found[2]) - before, found[3])
        if "straddling" in message:
            message = f"a row is longer than {self.block >> 20} MB; is a quote left open?"
        return ValueError(message)


def _first_line(stream: BinaryIO | gzip.GzipFile) -> tuple[int, bytes]:
    """Return the number of empty lines at the start, and the first other line, with any line ends inside quotes."""
    empty, quotes, line = 0, 0, bytearray()
    for part in iter(partial(stream.readline, _LONGEST_LINE), b""):
        for piece in part.splitlines(keepends=True):  # a lone \r ends a line too
            if not line and not piece.strip(b"\xef\xbb\xbf\r\n"):
                if (empty := empty + 1) > _MOST_EMPTY:
                    raise ValueError(f"its first {_MOST_EMPTY:,} lines are empty")
                continue
            line += piece
            quotes += piece.count(b'"')
            if quotes % 2 == 0 or len(line) > _LONGEST_LINE:
                return empty, bytes(line)
    return empty, bytes(line)


def _is_row(cells: list[str]) -> bool:
    """Return whether the cells are numbers, hence a row; 0, 1, 2, ... are names that pandas gives."""
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
