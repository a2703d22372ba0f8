"""The run folder: which files a run leaves, and how they are written and read.

config.json        every setting; `narrows train --config` accepts it
request.json       the settings as they were asked for, by which the same command, sent again, finds its run
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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from narrows._util.checks import path_argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.files import (
    append_line,
    cannot_read,
    hold,
    is_leftover,
    read_json,
    read_text,
    remove_leftovers,
    whole_lines,
    write_atomic,
)
from narrows._util.text import printable, shell_word
from narrows.runs.records import DecisionRow, MetricRow, Result, cost_columns, parse_costs

Row = TypeVar("Row")
IN_MEMORY = "(an array in memory)"
"""What the settings of a run say instead of a path, if its data were passed from Python."""
Records = dict[str, list[str]]
"""The lines of a run's .csv files by name, without their headers."""
REQUEST = "request.json"
HEADERS = {"metrics.csv": MetricRow.columns(), "decisions.csv": DecisionRow.columns()}


class InUse(NarrowsError):
    """A run's folder is held by another process."""


class RunFolder:
    """One run's files. Creating the object touches nothing on disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_argument("path", path)
        self.config = self.path / "config.json"
        self.request = self.path / REQUEST
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
        """Hold the folder while training in it, so that no second process does (where the system has flock).

        Raises:
            NarrowsError: Another process trains in it, or an entry is a symlink and could lead anywhere.
        """
        if has_begun(self.path.parent) and self.path.is_symlink():  # a part of a run or a front
            raise _link_error(self.path)
        check_links(self.path)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        with hold(self.checkpoints, InUse(f"{self.path} is being trained by another process; wait for it or stop it")):
            remove_leftovers(self.path)
            remove_leftovers(self.checkpoints)
            yield

    def began(self) -> float:
        """Return when the run began: the time of a file that is written then, and hardly edited later."""
        return (self.request if self.request.exists() else self.config).stat().st_mtime

    def is_untouched(self) -> bool:
        """Return whether nothing but the settings was written: the run was killed before its first checkpoint."""
        written = (self.metrics, self.decisions, self.costs, self.result, self.model)
        begun = any(self.checkpoints.glob("*.ckpt")) or any(path.exists() for path in written)
        return self.config.exists() and not begun

    def read_config(self) -> dict[str, Any]:
        """Return the run's settings.

        Raises:
            NarrowsError: The folder is not a run's, or its config.json is damaged.
        """
        if not self.config.exists():
            if not self.path.exists() or (self.path.is_dir() and is_free(self.path)):
                what = "is empty" if self.path.exists() else "does not exist"
                raise NarrowsError(
                    f"{self.path} is not a run folder: it {what}; check the path, or, if its run was stopped before it "
                    f"began, {way_on(self.path)}"
                )
            raise NarrowsError(f"{self.path} is not a run folder: it has no config.json; check the path")
        settings = read_settings(self.config)
        if "data" not in settings:
            raise NarrowsError(
                f"{self.config} is damaged: it does not say which data the run is about; add `data` to it"
            )
        return settings

    def write_config(self, settings: dict[str, Any], new: bool = False) -> None:
        """Store the run's settings; with `new`, raise if there are some already."""
        write_first(self.config, json.dumps(settings, indent=2) + "\n", new)

    def write_request(self, settings: dict[str, Any]) -> None:
        """Store the settings as they were asked for."""
        write_atomic(self.request, json.dumps(settings, indent=2) + "\n")

    def read_result(self) -> Result | None:
        """Return the answer, or None while the run has not ended.

        Raises:
            NarrowsError: result.json cannot be read, or is damaged.
        """
        if not self.result.exists():
            return None
        try:
            return Result.from_json(read_text(self.result))
        except OSError as error:
            raise cannot_read(self.result, error) from error
        except ValueError as error:
            again = f"delete it, and `{resuming(self.path)}` writes it again"
            remedy = again if self.checkpoints.is_dir() else "copy it again from its source, or delete it"
            raise NarrowsError(f"{self.result} is damaged ({error}); {remedy}") from error

    def write_result(self, result: Result) -> None:
        """Store the answer."""
        write_atomic(self.result, result.to_json())

    def append_row(self, row: MetricRow) -> str:
        """Add one row to metrics.csv, with the header if it is the first, and return its line."""
        return append_line(self.metrics, row.columns(), row.cells())

    def append_decision(self, row: DecisionRow) -> str:
        """Add one row to decisions.csv, with the header if it is the first, and return its line."""
        return append_line(self.decisions, row.columns(), row.cells())

    def append_costs(self, step: int, costs: list[float]) -> str:
        """Add one row to costs.csv, the cost of removal of each dimension, empty where it is nan; return its line."""
        cells = ("" if math.isnan(cost) else f"{cost:.4g}" for cost in costs)
        return append_line(self.costs, cost_columns(len(costs)), [str(step), *cells])

    def read_rows(self) -> list[MetricRow]:
        """Return the metrics so far; a half-written last line (of a killed run) is left out."""
        return _read(self.metrics, MetricRow.parse, "curves")

    def read_decisions(self, n: int | None = None) -> list[DecisionRow]:
        """Return the decisions so far; the list is empty for recipes that make none.

        Arguments:
            n: Latent dimensions at the start, if known: a gate beyond them is an error.
        """
        return _read(self.decisions, partial(DecisionRow.parse, n=n), "figures")

    def read_first_costs(self) -> list[float | None]:
        """Return each dimension's cost of removal as first measured, None where it was closed by then."""
        rows = _read(self.costs, parse_costs, "figures")
        return rows[0] if rows else []

    def write_records(self, records: Records) -> None:
        """Write metrics.csv, decisions.csv and costs.csv anew, before a run continues."""
        for name, lines in records.items():
            path = self.path / name
            if lines:
                header = HEADERS.get(name) or cost_columns(lines[0].count(","))
                write_atomic(path, "\n".join([",".join(header), *lines]) + "\n")
            else:
                path.unlink(missing_ok=True)


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a .json or .toml file, such as a run's config.json.

    Raises:
        NarrowsError: The file cannot be read, or does not hold one object of settings.
    """
    if path.suffix == ".toml":
        try:
            content: Any = tomllib.loads(read_text(path))
        except OSError as error:
            raise cannot_read(path, error, "the config file") from error
        except NarrowsError:
            raise
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise NarrowsError(f"the config file {path} is damaged: it is not valid TOML ({why})") from error
    else:
        content = read_json(path, "the config file")
    if not isinstance(content, dict):
        raise NarrowsError(f"the config file {path} is damaged: it is not one object of settings")
    return content


def _read(path: Path, parse: Callable[[str], Row], needed_by: str) -> list[Row]:
    rows: list[Row] = []
    try:
        rows.extend(map(parse, whole_lines(path)))
    except NarrowsError:
        raise
    except ValueError as error:
        where = f"near line {len(rows) + 2} ({printable(error)})"
        raise NarrowsError(f"{path} is damaged {where}; delete it: only the {needed_by} need it") from None
    except OSError as error:
        raise cannot_read(path, error) from error
    return rows


def check_links(path: Path) -> None:
    """Raise if an entry of a run's or front's folder is a symlink: training would write where a stranger's leads to."""
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        if entry.is_symlink():
            raise _link_error(entry)


def _link_error(link: Path) -> NarrowsError:
    return NarrowsError(
        f"{link} is a symlink to {printable(os.readlink(link))}, and a run writes only into its own folder; put what "
        f"it names in its place, or remove it"
    )


def is_free(path: Path) -> bool:
    """Return whether a folder holds nothing, or only what a run leaves that was killed before it began."""
    return all(
        is_leftover(entry)
        or entry.name == REQUEST
        or (entry.name == "checkpoints" and entry.is_dir() and is_free(entry))
        for entry in path.iterdir()
    )


def has_begun(path: Path) -> bool:
    """Return whether a folder has the settings of a run or a front, so that it can be resumed."""
    return any((path / name).exists() for name in ("config.json", "front.json"))


def way_on(path: Path) -> str:
    """Return how a run or front that was stopped goes on, whenever that was: the end of a message about it."""
    return f"continue with: {resuming(path)}" if has_begun(path) else "start it again with the same command"


def resuming(path: Path, steps: int | None = None) -> str:
    """Return what continues a run or a front: a command, or a call in Python if its data were an array in memory.

    Arguments:
        path: The folder of the run or front.
        steps: Train a run to this many batches.
    """
    for name, function in (("front.json", "resume_front"), ("config.json", "resume")):
        with contextlib.suppress(NarrowsError, AttributeError):  # missing or damaged: whoever reads it says so
            stored = read_json(path / name)
            if stored.get("config", stored).get("data") == IN_MEMORY:
                more = "" if steps is None else f"steps={steps}, "
                return f"narrows.{function}({str(path)!r}, {more}data=...)"
    return f"narrows resume {shell_word(path)}{'' if steps is None else f' --steps {steps}'}"


def data_moved(data: str, file: Path, otherwise: str) -> NarrowsError:
    """Return the error for data that are not where a run's settings say, for example on another machine.

    Arguments:
        data: The data, as the settings name them.
        file: The file with the settings.
        otherwise: What can be done without a change of that file.
    """
    return NarrowsError(
        f"{file} names data that are not on this machine: {printable(data, 200)}; write where they are now as its "
        f'"data", or {otherwise}'
    )


def write_first(path: Path, content: str, new: bool) -> None:
    """Write a file that makes a folder a run's or a front's; with `new`, raise if another process has just done so."""
    try:
        write_atomic(path, content, new)
    except FileExistsError:
        raise NarrowsError(f"another process has just begun a run in {path.parent}; choose another folder") from None


def claim_folder(out: str | os.PathLike[str] | None, stem: str) -> Path:
    """Create the folder that a user named, or the first free runs/STEM-1, runs/STEM-2, ...

    A folder with anything in it is refused, unless that is what a run left which was killed before it began. Two runs
    that start at once get two folders.

    Raises:
        NarrowsError: The folder is not empty, or cannot be created.
    """
    try:
        if out is None:
            return _next_free(Path("runs"), stem)
        path = path_argument("out", out)
        path.mkdir(parents=True, exist_ok=True)
        occupied = not is_free(path)
    except OSError as error:
        where = out or Path("runs") / stem
        raise NarrowsError(
            f"cannot create the folder {where}: {error.strerror}; choose another {setting('out')}"
        ) from error
    if occupied:
        resume = f", or continue that run with `{resuming(path)}`" if has_begun(path) else ""
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
