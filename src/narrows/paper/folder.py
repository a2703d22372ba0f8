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
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import write_atomic
from narrows.paper.plan import COMPARED, Job, Name, Options, Row
from narrows.paper.table import SETS

SHARED = ("budget", "width")
"""Options that all runs of a folder share; the others may differ from one call to the next, and add rows."""


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
            if not any(self.path.iterdir()):
                _write(self.about, {"experiment": self.name, **shared})
                return
        except OSError as error:
            raise NarrowsError(f"cannot create the folder {self.path}: {error.strerror}; {elsewhere}") from error
        known = _read(self.about)
        if not isinstance(known, dict) or "experiment" not in known:
            raise NarrowsError(f"{self.path} is not empty and holds no experiment; {elsewhere}")
        if known["experiment"] != self.name:
            raise NarrowsError(f"{self.path} holds the experiment {known['experiment']}, not {self.name}; {elsewhere}")
        if not resume:
            raise NarrowsError(f"{self.path} already holds this experiment; add {setting('resume')}, or {elsewhere}")
        for option, value in shared.items():
            if known.get(option) != value:
                before = setting(option, known.get(option))
                raise NarrowsError(f"{self.path} was started with {before}, not {value:g}; {elsewhere}")

    def budget(self) -> float:
        """Return the share of the paper's batches that the runs have."""
        return float((_read(self.about) or {}).get("budget", 1.0))

    def read_rows(self, key: str) -> list[Row] | None:
        """Return the rows of a job; None if it is not done."""
        content = _read(self.path / key / "rows.json")
        if content is None:
            return None
        return [_row(row) for row in content]

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


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError:
        return None
    except ValueError as error:
        raise NarrowsError(f"{path} is damaged ({error}); delete it and run the command again") from None


def _write(path: Path, content: object) -> None:
    write_atomic(path, json.dumps(content, indent=2) + "\n")


def _row(content: dict[str, Any]) -> Row:
    known = {name: value for name, value in content.items() if name != "low"}  # stored by versions up to 0.1
    return Row(**{**known, "marks": tuple(known["marks"]), "open": tuple(known["open"])})
