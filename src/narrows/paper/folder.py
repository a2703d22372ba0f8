"""The folder of an experiment.

experiment.json     the name of the experiment, and the options that all its runs share
KEY/                one folder per run (for a front from one run: a folder of runs)
KEY/rows.json       the rows of a job, written when it has ended: a job that has them is done
table.csv, .json    all rows, written whenever a job ends
page.md, .html      the rows beside the paper's numbers, with figures
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from narrows._util.checks import OBJECT, check, list_of, one_of
from narrows._util.errors import NarrowsError, setting
from narrows._util.files import read_json, write_atomic
from narrows._util.records import read_record
from narrows.paper.plan import COMPARED, Job, Name, Options, Row
from narrows.paper.table import SETS
from narrows.runs.folder import is_free
from narrows.runs.records import without_low

SHARED = ("budget", "width")
"""Options that all runs of a folder share; the others may differ from one call to the next, and add rows."""


@dataclass(frozen=True)
class About:
    """What experiment.json holds."""

    experiment: str
    budget: float = 1.0
    width: int = 32


class ExperimentFolder:
    """The files of an experiment. Creating the object touches nothing on disk."""

    def __init__(self, path: Path, name: Name) -> None:
        self.path, self.name = path, name
        self.about = path / "experiment.json"
        self.table = path / "table.csv"

    def open(self, options: Options, resume: bool) -> None:
        """Create the folder, or continue in one of the same experiment.

        Raises:
            NarrowsError: The folder holds anything else, or cannot be created.
        """
        elsewhere = f"choose another {setting('out')}"
        shared = {option: getattr(options, option) for option in SHARED}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if is_free(self.path):
                _write(self.about, {"experiment": self.name, **shared})
                return
        except OSError as error:
            raise NarrowsError(f"cannot create the folder {self.path}: {error.strerror}; {elsewhere}") from error
        known = self._read_about()
        if known is None:
            raise NarrowsError(f"{self.path} is not empty and holds no experiment; {elsewhere}")
        if known.experiment != self.name:
            raise NarrowsError(f"{self.path} holds the experiment {known.experiment}, not {self.name}; {elsewhere}")
        if not resume:
            raise NarrowsError(f"{self.path} already holds this experiment; add {setting('resume')}, or {elsewhere}")
        for option, value in shared.items():
            if getattr(known, option) != value:
                before = setting(option, getattr(known, option))
                raise NarrowsError(f"{self.path} was started with {before}, not {value:g}; {elsewhere}")

    def budget(self) -> float:
        """Return the share of the paper's batches that the runs have."""
        about = self._read_about()
        return 1.0 if about is None else about.budget

    def _read_about(self) -> "About | None":
        about: About | None = _read(self.about, partial(read_record, About))
        return about

    def read_rows(self, key: str) -> list[Row] | None:
        """Return the rows of a job; None if it is not done."""
        rows: list[Row] | None = _read(self.path / key / "rows.json", _rows)
        return rows

    def write_rows(self, key: str, rows: Sequence[Row]) -> None:
        """Store the rows of a job that has ended."""
        _write(self.path / key / "rows.json", [asdict(row) for row in rows])

    def rows(self, jobs: Sequence[Job] = (), unfinished: dict[str, list[Row]] | None = None) -> list[Row]:
        """Return the rows of all jobs that are done, and those of `jobs` that are not, as `unfinished` has them."""
        done = {path.parent.name for path in self.path.glob("*/rows.json")}
        rows = [row for key in done for row in self.read_rows(key) or []]
        for job in jobs:
            if job.key not in done:
                rows += (unfinished or {}).get(job.key) or job.rows("not yet")
        return sorted(rows, key=self._order)

    def _order(self, row: Row) -> tuple[Any, ...]:
        """Return the key of the paper's order: set, size, tau (which in the table is a result), recipe, seed."""
        tau = 0.0 if self.name == "table" else row.tau
        return (SETS.index(row.set), row.n, tau, COMPARED.index(row.recipe), row.one_run, row.seed, row.run)

    def write_table(self, rows: Sequence[Row]) -> None:
        """Write table.csv and table.json."""
        lines = io.StringIO()
        writer = csv.DictWriter(lines, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = {name: " ".join(map(str, v)) if isinstance(v, tuple) else v for name, v in asdict(row).items()}
            writer.writerow({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in cells.items()})
        write_atomic(self.table, lines.getvalue())
        _write(self.table.with_suffix(".json"), [asdict(row) for row in rows])


def _read(path: Path, parse: Callable[[Any], Any]) -> Any:
    """Return what a file holds; None if there is no such file."""
    if not path.exists():
        return None
    content = read_json(path)
    try:
        return parse(content)
    except NarrowsError as error:
        raise NarrowsError(f"{path} is damaged ({error.marked}); delete it and run the command again") from None


def _rows(content: Any) -> list[Row]:
    check({"content": content}, {"content": list_of(OBJECT)})
    rules = {"set": one_of(SETS), "recipe": one_of(COMPARED)}  # what the order of a table needs
    for row in content:
        check(row, rules)
    return [read_record(Row, without_low(row)) for row in content]


def _write(path: Path, content: object) -> None:
    write_atomic(path, json.dumps(content, indent=2) + "\n")
