"""The table of a sweep: one row per run, or per tau of each front, in files and in Python.

The columns of the files are those of `Row`, with the swept settings in the middle: run, status, reason, seed, tau, dims
and so on. A setting has the name that it has in the sweep file. The results have names that no setting has, except tau
and n: what the run made of `explained` or of "auto" is in the same column as what was asked for.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

from narrows._util.files import atomic_file, write_atomic
from narrows._util.text import printable
from narrows.runs.records import Result

Status = Literal["done", "failed", "not yet"]
SHOWN = 80
"""Characters of a cell that the printed table shows."""


@dataclass(frozen=True)
class Row:
    """One run of a sweep, or one tau of a front."""

    run: str
    """Its folder, relative to that of the sweep."""
    status: Status
    reason: str = ""
    """Why it failed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings in which the runs differ."""
    tau: float | None = None
    """The promise: the error that it was allowed."""
    n: int | None = None
    """Latent dimensions at the start."""
    dims: int | None = None
    """Latent dimensions of the saved model."""
    met: bool | None = None
    """Whether the promise is certified."""
    test_error: float | None = None
    """The error on the test split."""
    test_high: float | None = None
    """The upper end of that."""
    batches: int | None = None
    """Batches trained."""
    seconds: float | None = None
    """Training time."""

    def flat(self) -> dict[str, Any]:
        """Return the row as one level of columns; a result takes the place of a setting of the same name."""
        columns = asdict(self)
        settings = columns.pop("settings")
        first = {name: columns.pop(name) for name in ("run", "status", "reason")}
        known = {name: value for name, value in columns.items() if value is not None or name not in settings}
        return {**first, **settings, **known}


def row_of(run: str, settings: dict[str, Any], result: Result) -> Row:
    """Return the row of a run that has ended."""
    held = result.heldout
    return Row(
        run, "done", "", settings, result.tau, result.n, result.dims, result.met,
        held.error, held.high, result.steps, result.seconds,
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class SweepTable(Sequence[Row]):
    """The rows of a sweep, in the order of its settings.

    `pandas.DataFrame(table.records())` makes a frame of it, and so does `pandas.read_parquet` of table.parquet.
    """

    rows: tuple[Row, ...]
    """The rows."""
    folder: Path
    """The sweep's folder: the runs, table.csv, table.json, table.parquet and compare.html."""

    @property
    def failed(self) -> list[Row]:
        """The rows without an answer."""
        return [row for row in self.rows if row.status != "done"]

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per row, with the same columns for all."""
        records = [row.flat() for row in self.rows]
        columns = dict.fromkeys(name for record in records for name in record)
        return [{name: record.get(name) for name in columns} for record in records]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __repr__(self) -> str:
        columns = {
            name: [name, *map(_cell, values)] for name, values in self.columns().items() if set(values) - {None, ""}
        }
        widths = [max(map(len, column)) for column in columns.values()]
        lines = zip(*columns.values(), strict=True)
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def columns(self) -> dict[str, list[Any]]:
        """Return the values of each column."""
        records = self.records()
        return {name: [record[name] for record in records] for name in records[0]} if records else {}


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return f"{value:.4g}" if isinstance(value, float) else printable(value, SHOWN)


def write_table(path: Path, table: SweepTable) -> None:
    """Write a table as PATH.csv, PATH.json and, if pyarrow is installed, PATH.parquet."""
    records = table.records()
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in record.items()})
    write_atomic(path.with_suffix(".csv"), lines.getvalue())
    write_atomic(path.with_suffix(".json"), json.dumps(records, indent=2) + "\n")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return
    columns = table.columns()
    with atomic_file(path.with_suffix(".parquet")) as file:
        pyarrow.parquet.write_table(pyarrow.table({name: _of_one_type(v) for name, v in columns.items()}), file)


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return a column in which all values are of one type; numbers among texts ("auto", 8) become texts."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2 or kinds == {int, float}:
        return values
    return [None if value is None else str(value) for value in values]
