"""The run folder's contract: which files there are, what a row of metrics is, what a result says.

config.json        every setting; usable again with `narrows train --config`
metrics.csv        one row every `log_every` batches (`MetricRow`)
decisions.csv      what the fast recipe closed, opened again, and when (`DecisionRow`)
costs.csv          at the same batches each dimension's cost of removal, empty once it is closed (fast recipe)
checkpoints/       all state, the last two; `narrows resume` continues from the newest good one
plain/             with --as-good-as: the run of the plain VAE that set tau
settled.ckpt       in a front: the state in which the size was found, from which the next tau goes on
model.safetensors  the narrowed model with its description; loading it runs no code
result.json        the answer and its certificate (`Result`); present when the run has ended
curves.png, .svg   the paper's four curves
evaluation.json    after `narrows evaluate`: the model on the test split, its samples beside real examples
report.html        everything above as one page, with what the model does to held-out examples; with --live, while the
                   run is at work, its curves
tensorboard/ ...   with --track: the trackers' own files
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError
from narrows.files import append_line, filter_lines, whole_lines, write_atomic

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None


@dataclass(frozen=True)
class MetricRow:
    """One row of metrics.csv. Averages are over the batches since the row before."""

    step: int
    """Batches done."""
    error: float
    """Training error with sampled gates, averaged: what the constraint sees."""
    gate_sum: float
    """Sum of the gates' probabilities pi, now."""
    open: int
    """Gates with pi > 1/2, now."""
    multiplier: float
    """lambda', now; the column is called lambda."""
    hits: float
    """Fraction of the examples within the bound that training aims at, averaged."""
    kl: float
    """KL over the open gates, averaged."""
    loss: float
    """The loss as the paper writes it, averaged."""
    seconds: float
    """Training time so far."""
    watched: float = math.nan
    """Held-out error of the averaged weights, as the fast recipe measures it on the way; nan for the paper's."""


DECISION_COLUMNS = ("step", "action", "open", "error", "gates")
COLUMNS = tuple("lambda" if f.name == "multiplier" else f.name for f in fields(MetricRow))


@dataclass(frozen=True)
class DecisionRow:
    """One row of decisions.csv: what the fast recipe did after a batch, and why."""

    step: int
    action: str
    """close, reopen, restore (all weights of before the last closing), release (the last phase begins) or end."""
    open: int
    """Gates open before it."""
    error: float
    """Held-out error of the averaged weights then, as a share of its target."""
    gates: str
    """Which gates, separated by spaces."""


@dataclass(frozen=True)
class HeldOut:
    """Errors on data that trained nothing: summed squared error an input, hard gates."""

    error: float
    """Mean error with z sampled from the posterior: the number that must not exceed tau."""
    low: float
    """Lower end of the mean's 95% interval."""
    high: float
    """Upper end of the mean's 95% interval."""
    error_at_mean: float
    """Mean error with z = mu, as `reconstruct` gives it."""
    count: int
    """Inputs measured."""

    def meets(self, tau: float) -> bool:
        """Tell whether the error is within tau with confidence: the interval's upper end is."""
        return self.high <= tau


@dataclass(frozen=True)
class Dimension:
    """One latent dimension of the saved model, on test inputs."""

    kept: int
    """Which of the n it is."""
    cost: float
    """Cost of removal: how much the error rises when it is closed and nothing is trained on."""
    kl: float
    """KL of its posterior from the prior, averaged: what it says about an input, in nats."""
    mean: float
    """Mean of the aggregate posterior (over inputs and noise); the prior's is 0."""
    std: float
    """Its standard deviation; the prior's is 1."""

    def gap(self) -> float:
        """Return how far the aggregate posterior is from the prior: the KL of a normal with its mean and deviation."""
        variance = max(self.std**2, 1e-30)
        return 0.5 * (variance + self.mean**2 - 1 - math.log(variance))


@dataclass(frozen=True)
class Result:
    """The answer: how many dimensions, and what the model with that many does on the test split."""

    n: int
    """Latent dimensions at the start."""
    dims: int
    """Latent dimensions of the saved model."""
    kept: list[int]
    """Which of the n they are."""
    tau: float | None
    """The promised bound on the error; None for a plain VAE without one."""
    values: int
    """Values in one input; an error divided by this is the error per value."""
    variance: float | None
    """Squared errors: the training data's variance, summed over an input's values; one less error / variance is what
    PCA calls explained."""
    heldout: HeldOut
    """The saved model on the test split, seen once."""
    validation: HeldOut
    """The same model on the validation split, which chose it."""
    best_error: float
    """Smallest validation error seen while training, met or not; how near to tau the run came."""
    best_dims: int
    """Dimensions open when it was seen."""
    met: bool
    """True if the saved model met tau on validation and its test interval is within tau."""
    model: str
    """"smallest that met tau" or, when none did on validation, "last"."""
    model_step: int
    """Batches after which the saved model was taken."""
    steps: int
    """Batches trained in all."""
    seconds: float
    """Training time in all, without loading data and the last test."""
    seed: int
    """Of initial weights, noise and the order of batches."""
    versions: dict[str, str]
    """What it was trained with, by name."""
    dimensions: list[Dimension]
    """The saved model's dimensions, in its order: by cost of removal, largest first."""

    def to_json(self) -> str:
        """Return the text of result.json."""
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Result":
        """Read result.json again."""
        content = json.loads(text, parse_constant=_refuse)
        for key in ("heldout", "validation"):
            numbers: dict[str, Any] = {name: float(number) for name, number in content[key].items()}
            content[key] = HeldOut(**{**numbers, "count": int(numbers["count"])})
        dimensions = [Dimension(**one) for one in content["dimensions"]]
        return cls(
            **{**content, "dimensions": dimensions, "tau": _float_or_none(content["tau"]), "dims": int(content["dims"])}
        )


class RunFolder:
    """One run's files. Making the object touches nothing; `create` makes the folder."""

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

    def create(self, prepared: bool = False) -> None:
        """Make the folder; one that has anything in it is never touched, unless we `prepared` it ourselves."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not prepared:
                go_on = f", or continue that run with `narrows resume {self.path}`" if self.config.exists() else ""
                raise NarrowsError(
                    f"the run folder {self.path} exists and is not empty: nothing is overwritten; choose another "
                    f"--out{go_on}"
                )
            self.checkpoints.mkdir(exist_ok=prepared)
        except OSError as error:
            raise NarrowsError(
                f"cannot write the run folder {self.path}: {error.strerror}; choose another --out"
            ) from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder while training in it, so that no second process does (where the system has flock)."""
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
        """Return the run's settings; fail clearly where there is no run."""
        try:
            content = json.loads(self.config.read_text())
        except OSError as error:
            raise NarrowsError(f"{self.path} is no run folder: it has no readable config.json") from error
        except ValueError as error:
            raise NarrowsError(f"{self.config} is damaged: {error}") from error
        if not isinstance(content, dict):
            raise NarrowsError(f"{self.config} is damaged: not a JSON object")
        return content

    def write_config(self, settings: dict[str, Any]) -> None:
        """Store the run's settings."""
        write_atomic(self.config, json.dumps(settings, indent=2) + "\n")

    def read_result(self) -> Result | None:
        """Return the answer, or None while the run has not ended."""
        if not self.result.exists():
            return None
        try:
            return Result.from_json(self.result.read_text())
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            again = f"delete it, and `narrows resume {self.path}` writes it again"
            remedy = again if self.checkpoints.is_dir() else "get it again from where it came, or delete it"
            raise NarrowsError(f"{self.result} is damaged ({error}); {remedy}") from error

    def write_result(self, result: Result) -> None:
        """Store the answer."""
        write_atomic(self.result, result.to_json())

    def append_row(self, row: MetricRow) -> None:
        """Add one row to metrics.csv, with the header when it is the first."""
        append_line(self.metrics, COLUMNS, (_format(value) for value in asdict(row).values()))

    def append_decision(self, row: DecisionRow) -> None:
        """Add one row to decisions.csv."""
        append_line(self.decisions, DECISION_COLUMNS, (_format(value) for value in asdict(row).values()))

    def append_costs(self, step: int, costs: list[float]) -> None:
        """Add one row to costs.csv: the cost of removal of each dimension, empty where it has none."""
        cells = ("" if math.isnan(cost) else f"{cost:.4g}" for cost in costs)
        append_line(self.costs, ["step", *map(str, range(len(costs)))], [str(step), *cells])

    def read_rows(self) -> list[MetricRow]:
        """Return the metrics so far; a half-written last line (a killed run) is left out."""
        rows: list[MetricRow] = []
        try:
            rows.extend(map(parse_row, whole_lines(self.metrics)))
        except (ValueError, OSError) as error:
            raise NarrowsError(
                f"{self.metrics} is damaged near line {len(rows) + 2} ({error}); remove it: only the curves need it"
            ) from None
        return rows

    def read_decisions(self) -> list[DecisionRow]:
        """Return the decisions so far; none for the paper's recipe."""
        rows: list[DecisionRow] = []
        try:
            rows.extend(map(parse_decision, whole_lines(self.decisions)))
        except (ValueError, OSError) as error:
            raise NarrowsError(
                f"{self.decisions} is damaged near line {len(rows) + 2} ({error}); remove it: only the figures need it"
            ) from None
        return rows

    def read_first_costs(self) -> list[float | None]:
        """Return each dimension's cost of removal as first measured, None where it was closed; none if it never was."""
        try:
            lines = whole_lines(self.costs)
            return [float(cell) if cell else None for cell in lines[0].split(",")[1:]] if lines else []
        except (ValueError, OSError) as error:
            raise NarrowsError(f"{self.costs} is damaged ({error}); remove it: only the figures need it") from None

    def truncate_rows(self, step: int, every: int) -> None:
        """Before going on from a checkpoint, drop the rows after its batch, and one that only the run's end made."""
        kept = [row for row in self.read_rows() if row.step <= step and row.step % every == 0]
        lines = [",".join(COLUMNS), *(",".join(_format(v) for v in asdict(row).values()) for row in kept)]
        write_atomic(self.metrics, "\n".join(lines) + "\n")
        steps = {str(row.step) for row in kept}
        filter_lines(self.costs, lambda first: first in steps)
        filter_lines(self.decisions, lambda first: int(first) <= step)


def parse_row(line: str) -> MetricRow:
    """Read a line of metrics.csv."""
    cells = zip((f.type for f in fields(MetricRow)), line.split(","), strict=True)
    return MetricRow(*(kind(cell) for kind, cell in cells))  # type: ignore[operator]


def parse_decision(line: str) -> DecisionRow:
    """Read a line of decisions.csv."""
    step, action, opened, error, gates = line.split(",")
    return DecisionRow(int(step), action, int(opened), float(error), gates)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _float_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


def _format(value: float | int | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def claim_run_path(parent: Path, stem: str) -> Path:
    """Make the first of stem-1, stem-2, ... that does not exist; two runs that start at once get two folders."""
    number = 1
    while True:
        path = parent / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise NarrowsError(f"cannot write the run folder {path}: {error.strerror}; choose another --out") from error
        else:
            return path
