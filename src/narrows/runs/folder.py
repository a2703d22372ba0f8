"""The run folder: which files a run leaves, and how they are written and read.

config.json        every setting; `narrows train --config` accepts it
metrics.csv        one row per `log_every` batches (`MetricRow`)
decisions.csv      which gates closed and reopened, and when (`DecisionRow`; recipes that decide)
costs.csv          each dimension's cost of removal at the same batches, empty once it is closed (the same recipes)
checkpoints/       the complete state, twice; `narrows resume` continues from the newest good one
plain/             with --as-good-as: the run of the plain VAE that set tau
settled.ckpt       in a front: the state in which the size was found, from which the next tau continues
model.safetensors  the narrowed model with its description; loading it runs no code
result.json        the answer and its certificate (`Result`); present once the run has ended
curves.png, .svg   the paper's four curves
evaluation.json    after `narrows evaluate`: the model on the test split, and its samples beside real examples
report.html        one page with all of the above and what the model does to held-out examples; with --live, while the
                   run is training, its curves
tensorboard/ ...   with --track: the trackers' own files
"""

import contextlib
import itertools
import json
import math
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import append_line, filter_lines, whole_lines, write_atomic
from narrows.runs.records import CsvRow, DecisionRow, MetricRow, Result

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

Row = TypeVar("Row", bound=CsvRow)


class RunFolder:
    """One run's files. Creating the object touches nothing on disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.csv"
        self.decisions = self.path / "decisions.csv"
        self.costs = self.path / "costs.csv"
        self.result = self.path / "result.json"
        self.model = self.path / "model.safetensors"
        self.checkpoints = self.path / "checkpoints"
        self.settled = self.path / "settled.ckpt"
        self.plain = self.path / "plain"
        self.figure = self.path / "curves.png"
        self.evaluation = self.path / "evaluation.json"
        self.report = self.path / "report.html"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder while training in it, so that no second process does (where the system has flock)."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        handle = os.open(self.checkpoints, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NarrowsError(f"{self.path} is being trained by another process; wait for it or stop it") from None
        else:
            yield
        finally:
            os.close(handle)

    def read_config(self) -> dict[str, Any]:
        """Return the run's settings.

        Raises:
            NarrowsError: The folder is not a run's, or its config.json is damaged.
        """
        if not self.config.exists():
            raise NarrowsError(f"{self.path} is not a run folder: it has no readable config.json")
        return read_settings(self.config)

    def write_config(self, settings: dict[str, Any]) -> None:
        """Store the run's settings."""
        write_atomic(self.config, json.dumps(settings, indent=2) + "\n")

    def read_result(self) -> Result | None:
        """Return the answer, or None while the run has not ended.

        Raises:
            NarrowsError: result.json is damaged.
        """
        if not self.result.exists():
            return None
        try:
            return Result.from_json(self.result.read_text())
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            again = f"delete it, and `narrows resume {self.path}` writes it again"
            remedy = again if self.checkpoints.is_dir() else "copy it again from its source, or delete it"
            raise NarrowsError(f"{self.result} is damaged ({error}); {remedy}") from error

    def write_result(self, result: Result) -> None:
        """Store the answer."""
        write_atomic(self.result, result.to_json())

    def append_row(self, row: MetricRow) -> None:
        """Add one row to metrics.csv, with the header if it is the first."""
        append_line(self.metrics, row.columns(), row.cells())

    def append_decision(self, row: DecisionRow) -> None:
        """Add one row to decisions.csv, with the header if it is the first."""
        append_line(self.decisions, row.columns(), row.cells())

    def append_costs(self, step: int, costs: list[float]) -> None:
        """Add one row to costs.csv: the cost of removal of each dimension, empty where it is nan."""
        cells = ("" if math.isnan(cost) else f"{cost:.4g}" for cost in costs)
        append_line(self.costs, ["step", *map(str, range(len(costs)))], [str(step), *cells])

    def read_rows(self) -> list[MetricRow]:
        """Return the metrics so far; a half-written last line (of a killed run) is left out."""
        return _read(self.metrics, MetricRow, "curves")

    def read_decisions(self) -> list[DecisionRow]:
        """Return the decisions so far; the list is empty for recipes that make none."""
        return _read(self.decisions, DecisionRow, "figures")

    def read_first_costs(self) -> list[float | None]:
        """Return each dimension's cost of removal as first measured, None where it was closed by then."""
        try:
            lines = whole_lines(self.costs)
            return [float(cell) if cell else None for cell in lines[0].split(",")[1:]] if lines else []
        except (ValueError, OSError) as error:
            raise NarrowsError(f"{self.costs} is damaged ({error}); delete it: only the figures need it") from None

    def truncate_rows(self, step: int, every: int) -> None:
        """Drop the rows after batch `step`, before a run continues from there, and the row that only its end wrote."""
        kept = {str(row.step) for row in self.read_rows() if row.step <= step and row.step % every == 0}
        for path in (self.metrics, self.costs):
            filter_lines(path, lambda first: first in kept)
        filter_lines(self.decisions, lambda first: int(first) <= step)


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a .json or .toml file, such as a run's config.json.

    Raises:
        NarrowsError: The file cannot be read, or does not hold one object of settings.
    """
    try:
        text = path.read_text()
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise NarrowsError(f"cannot read the config file {path}: {error.strerror}") from error
    except ValueError as error:
        kind = path.suffix[1:] or "JSON"
        raise NarrowsError(f"the config file {path} is damaged: it is not valid {kind} ({error})") from error
    if not isinstance(content, dict):
        raise NarrowsError(f"the config file {path} is damaged: it is not one object of settings")
    return content


def _read(path: Path, kind: type[Row], needed_by: str) -> list[Row]:
    rows: list[Row] = []
    try:
        rows.extend(map(kind.parse, whole_lines(path)))
    except (ValueError, OSError) as error:
        raise NarrowsError(
            f"{path} is damaged near line {len(rows) + 2} ({error}); delete it: only the {needed_by} need it"
        ) from None
    return rows


def claim_folder(out: Path | str | None, stem: str) -> Path:
    """Create the folder that a user named, or the first free runs/STEM-1, runs/STEM-2, ...

    A folder with anything in it is refused, and two runs that start at once get two folders.

    Raises:
        NarrowsError: The folder is not empty, or cannot be created.
    """
    try:
        if out is None:
            return _next_free(Path("runs"), stem)
        path = Path(out)
        path.mkdir(parents=True, exist_ok=True)
        occupied = any(path.iterdir())
    except OSError as error:
        where = out or Path("runs") / stem
        raise NarrowsError(
            f"cannot create the folder {where}: {error.strerror}; choose another {setting('out')}"
        ) from error
    if occupied:
        resume = f", or continue that run with `narrows resume {path}`" if RunFolder(path).config.exists() else ""
        raise NarrowsError(
            f"the folder {path} exists and is not empty, and nothing is overwritten; choose another "
            f"{setting('out')}{resume}"
        )
    return path


def _next_free(parent: Path, stem: str) -> Path:
    for number in itertools.count(1):
        path = parent / f"{stem}-{number}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            break
    return path
