"""An experiment's folder: which there are, which rows they have so far, and the table of all.

experiment.json     which experiment, and what all its runs share
KEY/                one run each (a front from one run: one folder of runs)
KEY/rows.json       its rows, written when it has ended: what has them is done
table.csv, .json    all rows, anew whenever one is there
page.md, .html      the rows beside the paper's numbers, with figures (made by the report)
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError
from narrows.experiments import front, reconstructions, table, training
from narrows.experiments.plan import RECIPES, Job, Name, Options, Row, select
from narrows.files import write_atomic

JOBS: dict[Name, Callable[[Options], list[Job]]] = {
    "training": training.jobs,
    "front": front.jobs,
    "reconstructions": reconstructions.jobs,
    "table": table.jobs,
}
SAME = ("budget", "width")
"""Options that all runs of a folder share; the others may differ from one call to the next, and add rows."""


def plan(name: Name, options: Options) -> list[Job]:
    """Return the jobs that the options ask for."""
    options = options.checked(name)
    return select(JOBS[name](options), options.wanted())


@dataclass(frozen=True)
class Board:
    """The folder of an experiment."""

    path: Path
    name: Name

    @property
    def table(self) -> Path:
        """The rows; table.json beside it has the same."""
        return self.path / "table.csv"

    def open(self, options: Options, go_on: bool) -> None:
        """Make the folder, or take up one of the same experiment; anything else in it is never touched."""
        about = self.path / "experiment.json"
        if self.path.exists() and not self.path.is_dir():
            raise NarrowsError(f"{self.path} is a file; choose another --out")
        if self.path.exists() and any(self.path.iterdir()):
            known = _read(about)
            if not isinstance(known, dict) or "experiment" not in known:
                raise NarrowsError(
                    f"{self.path} is not empty and holds no experiment: nothing is touched; choose another --out"
                )
            if known["experiment"] != self.name:
                raise NarrowsError(
                    f"{self.path} holds the experiment {known['experiment']!r}; choose another --out for {self.name}"
                )
            if not go_on:
                raise NarrowsError(
                    f"{self.path} has this experiment already: go on with it with --resume, or choose another --out"
                )
            for option in SAME:
                if known.get(option) != getattr(options, option):
                    raise NarrowsError(
                        f"{self.path} was started with --{option} {known.get(option)}, not "
                        f"{getattr(options, option):g}; say the same, or choose another --out"
                    )
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            shared = {option: getattr(options, option) for option in SAME}
            write_atomic(about, json.dumps({"experiment": self.name, **shared}, indent=2) + "\n")
        except OSError as error:
            raise NarrowsError(
                f"cannot write the folder {self.path}: {error.strerror}; choose another --out"
            ) from error

    def budget(self) -> float:
        """Return the share of the paper's batches that its runs have."""
        return float((_read(self.path / "experiment.json") or {}).get("budget", 1.0))

    def done(self, key: str) -> list[Row] | None:
        """Return a job's rows; None while it has none."""
        content = _read(self.path / key / "rows.json")
        return None if content is None else [_row(one) for one in content]

    def keep(self, key: str, rows: Sequence[Row]) -> None:
        """Store the rows of a job that has ended."""
        write_atomic(self.path / key / "rows.json", json.dumps([asdict(row) for row in rows], indent=2) + "\n")

    def rows(self, jobs: Sequence[Job] = (), outcome: dict[str, list[Row]] | None = None) -> list[Row]:
        """Return the rows of all jobs done here so far, then those of `jobs` that are not, with what came of them."""
        found = sorted(path.parent.name for path in self.path.glob("*/rows.json"))
        rows = [row for key in found for row in self.done(key) or []]
        for job in jobs:
            if job.key not in found:
                rows += (outcome or {}).get(job.key) or job.rows("not yet")
        return sorted(rows, key=self._order)

    def _order(self, row: Row) -> tuple[Any, ...]:
        """As in the paper: by set, size and tau (which in the table comes out of the runs), its recipe first."""
        tau = 0.0 if self.name == "table" else row.tau
        return (table.SETS.index(row.set), row.n, tau, RECIPES.index(row.recipe), row.one_run, row.seed)

    def write_table(self, rows: Sequence[Row]) -> None:
        """Write table.csv and table.json anew."""
        lines = io.StringIO()
        writer = csv.DictWriter(lines, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = {name: " ".join(map(str, v)) if isinstance(v, tuple) else v for name, v in asdict(row).items()}
            writer.writerow({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in cells.items()})
        write_atomic(self.table, lines.getvalue())
        write_atomic(self.table.with_suffix(".json"), json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError:
        return None
    except ValueError as error:
        raise NarrowsError(f"{path} is damaged ({error}); delete it and go on again") from None


def _row(content: dict[str, Any]) -> Row:
    return Row(**{**content, "marks": tuple(content["marks"]), "open": tuple(content["open"])})
