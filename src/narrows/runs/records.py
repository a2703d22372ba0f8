"""What a run's files hold, as small typed records: rows of metrics.csv and decisions.csv, and result.json.

This module loads no torch, so that `narrows show` and `narrows watch` start at once.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

from narrows._util.errors import NarrowsError
from narrows._util.files import parse_json
from narrows._util.records import LARGEST, LARGEST_WHOLE, read_record
from narrows._util.text import brief

Unit = Literal["input", "group"]
"""What the certificate takes for independent of each other."""
ACTIONS = ("close", "restore", "release", "end")
"""What a recipe can decide."""


class CsvRow:
    """A dataclass of numbers and words that is one line of a .csv file."""

    UNKNOWN: ClassVar[tuple[str, ...]] = ()
    """The fields that may be nan or inf, as long as they have not been measured."""

    @classmethod
    def columns(cls) -> list[str]:
        """Return the header: the fields' names, with the multiplier under the name the paper gives it."""
        return ["lambda" if field.name == "multiplier" else field.name for field in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line; raise ValueError if it is not one of these rows."""
        cells, names = line.split(","), cls.columns()
        if len(cells) != len(names):
            raise ValueError(f"{len(cells)} cells instead of {len(names)}")
        kinds: dict[Any, Callable[[str], Any]] = {int: _whole, float: _finite, str: str}
        values: list[Any] = []
        for one, cell in zip(fields(cls), cells, strict=True):  # type: ignore[arg-type]
            unknown = one.name in cls.UNKNOWN and cell in ("nan", "inf")
            values.append(float(cell) if unknown else kinds[one.type](cell))
        return cls(*values)

    def cells(self) -> Iterable[str]:
        """Return the line's cells, numbers with six digits."""
        values = asdict(self).values()  # type: ignore[call-overload]
        return (f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)


@dataclass(frozen=True)
class MetricRow(CsvRow):
    """One row of metrics.csv. Averages are over the batches since the previous row."""

    UNKNOWN = ("watched",)
    step: int
    """Batches done."""
    error: float
    """Average training error with sampled gates: what the constraint sees."""
    gate_sum: float
    """Sum of the gates' probabilities pi, now."""
    open: int
    """Number of gates with pi > 1/2, now."""
    multiplier: float
    """lambda', now; the column is called lambda."""
    hits: float
    """Average fraction of examples within the bound that training aims at."""
    kl: float
    """Average KL over the open gates."""
    loss: float
    """Average loss as the paper writes it."""
    seconds: float
    """Training time so far."""
    watched: float = math.nan
    """Held-out error of the averaged weights, for recipes that measure it while they train; nan for the others."""

    def in_unit(self, square: float) -> "MetricRow":
        """Return the row with its errors times `square`; the loss counts errors in tau and has no unit."""
        return replace(self, error=self.error * square, watched=self.watched * square)


def as_history(rows: Iterable[MetricRow]) -> dict[str, list[Any]]:
    """Return rows as one list per column."""
    columns = zip(*(vars(row).values() for row in rows), strict=True)
    return dict(zip(MetricRow.columns(), map(list, columns), strict=False))


@dataclass(frozen=True)
class DecisionRow(CsvRow):
    """One row of decisions.csv: what the recipe did after a batch, and why."""

    UNKNOWN = ("error",)
    step: int
    """Batches done."""
    action: str
    """close, restore (the model from before the last closing), release (the last phase begins) or end."""
    open: int
    """Number of gates open before the action."""
    error: float
    """Held-out error of the averaged weights at that time, as a share of its target."""
    gates: str
    """The gates concerned, separated by spaces."""

    @classmethod
    def parse(cls, line: str, n: int | None = None) -> Self:
        """Read a line; raise ValueError if it is not one of these rows, or names a gate that is not among n."""
        row = super().parse(line)
        if row.action not in ACTIONS:
            raise ValueError(f"{brief(row.action)} is none of {', '.join(ACTIONS)}")
        beyond = [gate for gate in map(_whole, row.gates.split()) if n is not None and gate >= n]
        if beyond:
            raise ValueError(f"there is no gate {beyond[0]} among {n}")
        return row


@dataclass(frozen=True)
class HeldOut:
    """The error on inputs that trained nothing: summed over one input's values, with hard gates."""

    error: float
    """Mean error with z sampled from the posterior: the number that must not exceed tau."""
    high: float
    """Upper end of the mean error (certificate.py): on the test split as measured, on the validation split as forecast
    for a test split with such errors."""
    error_at_mean: float
    """Mean error with z = mu, as `reconstruct` decodes it."""
    count: int
    """Number of inputs measured; where inputs have groups, of groups."""
    spread: float = 0.0
    """Standard deviation of one input's error."""

    def in_unit(self, square: float) -> "HeldOut":
        """Return the errors times `square`."""
        names = ("error", "high", "error_at_mean", "spread")
        return replace(self, **{name: getattr(self, name) * square for name in names})


@dataclass(frozen=True)
class Refused:
    """A model that was tested and broke the promise, or may do so."""

    dims: int
    error: float
    """Its mean error on the test split."""
    high: float
    """The upper end of that."""


@dataclass(frozen=True)
class Certificate:
    """What the result claims about inputs that were not measured (certificate.py)."""

    kind: str
    """exact or approximate."""
    confidence: float
    """What is claimed is false with a probability of at most 1 - confidence, over all looks at the test split."""
    limit: float | None
    """The largest error an input can have; None where nothing limits it."""
    look: int
    """How often the run has looked at its test split: 1, and 1 more each time it was continued after its end."""
    share: float | None
    """With the same confidence, at least this share of all inputs has ..."""
    share_error: float | None
    """... an error of at most this. Both are None where inputs have weights or groups."""
    refused: list[Refused] = field(default_factory=list)
    """Models, smaller or with less room, that were tested after the certified one and failed."""
    unit: Unit = "input"
    """What was drawn independently: inputs, or whole groups of them; `count` counts those."""
    weighted: bool = False
    """Whether the mean error is a weighted one."""

    def in_unit(self, square: float) -> "Certificate":
        """Return the errors times `square`."""
        return replace(
            self,
            limit=self.limit and self.limit * square,
            share_error=self.share_error and self.share_error * square,
            refused=[replace(one, error=one.error * square, high=one.high * square) for one in self.refused],
        )


@dataclass(frozen=True)
class Dimension:
    """One latent dimension of the saved model, measured on test inputs."""

    kept: int
    """Its index among the n dimensions at the start."""
    cost: float
    """Cost of removal: how much the error rises when the dimension is closed without further training."""
    kl: float
    """Average KL of its posterior from the prior, in nats: how much it says about an input."""
    mean: float
    """Mean of the aggregate posterior (over inputs and noise); the prior's is 0."""
    std: float
    """Standard deviation of the aggregate posterior; the prior's is 1."""

    def gap(self) -> float:
        """Return the KL from the prior of a normal distribution with the aggregate posterior's mean and deviation."""
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
    """Their indices among the n."""
    tau: float | None
    """The promised bound on the error; None for a plain VAE without one."""
    values: int
    """Number of values in one input; an error divided by it is the error per value."""
    variance: float | None
    """For squared errors, the training data's variance, summed over an input's values; 1 - error / variance is what
    PCA calls explained."""
    heldout: HeldOut
    """The saved model on the test split, which is used once."""
    validation: HeldOut
    """The same model on the validation split, which chose it."""
    best_error: float
    """Smallest validation error seen while training, met or not: how close to tau the run came."""
    best_dims: int
    """Dimensions open at that moment."""
    met: bool
    """Whether the promise is certified: the upper end on the test split is at most tau."""
    model: str
    """"smallest that met tau", or "last" when none was expected to by the validation split."""
    model_step: int
    """Batches after which the saved model was taken."""
    steps: int
    """Batches trained in all."""
    seconds: float
    """Training time in all, without loading data and the final test."""
    seed: int
    """Seed of initial weights, noise and the order of batches."""
    versions: dict[str, str]
    """Versions of the packages it was trained with."""
    dimensions: list[Dimension]
    """The saved model's dimensions in its order: by cost of removal, largest first."""
    errors_of_first: list[float] = field(default_factory=list)
    """The error on test inputs of decoding only the first k dimensions, for k = 0 to dims: measured, not added up."""
    certificate: Certificate | None = None
    """What is claimed, and how; None in files of versions up to 0.1."""
    feature_costs: list[list[float]] = field(default_factory=list)
    """For vectors, one list per value: how much its error rises without each dimension, in the order of `dimensions`.
    Together the values' costs of a dimension are its cost of removal. Empty for images and very wide vectors."""
    columns: list[str] = field(default_factory=list)
    """The names of a table's columns, to which feature_costs belong."""
    stopped: bool = False
    """Whether training was ended by hand, before it would have ended: more dimensions might have closed."""
    null_deviance: float | None = None
    """For counts, the deviance of an input, on average over the training data, if all had the same proportions."""
    explainable: float | None = None
    """For counts, how much of that is not noise; (null_deviance - error) / explainable is the share explained."""

    def in_unit(self, square: float) -> "Result":
        """Return the answer with all its errors times `square`."""
        return replace(
            self,
            tau=self.tau and self.tau * square,
            variance=self.variance and self.variance * square,
            heldout=self.heldout.in_unit(square),
            validation=self.validation.in_unit(square),
            best_error=self.best_error * square,
            dimensions=[replace(dimension, cost=dimension.cost * square) for dimension in self.dimensions],
            errors_of_first=[error * square for error in self.errors_of_first],
            certificate=self.certificate and self.certificate.in_unit(square),
            feature_costs=[[cost * square for cost in costs] for costs in self.feature_costs],
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from narrows.runs.cell import result_cell  # loads Jinja2

        return result_cell(self)

    def to_json(self) -> str:
        """Return the text of result.json."""
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Result":
        """Read the text of result.json.

        Raises:
            ValueError: It is damaged.
        """
        result = read_record(cls, without_low(parse_json(text)))
        kept, dims, n = result.kept, result.dims, result.n
        rules = {
            "values must be at least 1; it is 0": result.values >= 1,
            f"tau must be above 0; it is {result.tau}": result.tau is None or result.tau > 0,
            f"kept must be {dims} different numbers below {n}; it is {brief(kept)}": (
                len(kept) == len(set(kept)) == dims and all(one < n for one in kept)
            ),
            f"dimensions must be a list of {dims}; it has {len(result.dimensions)}": len(result.dimensions) == dims,
            f"feature_costs must be lists of {dims}": all(len(costs) == dims for costs in result.feature_costs),
            "columns must name the values of feature_costs": len(result.columns) in (0, len(result.feature_costs))
            or not result.feature_costs,
        }
        for rule, holds in rules.items():
            if not holds:
                raise NarrowsError(rule)
        return result


def without_low(content: Any) -> Any:
    """Return the content of a file without the lower ends of intervals, which versions up to 0.1 stored."""
    if type(content) is not dict:
        return content
    return {name: without_low(entry) for name, entry in content.items() if name != "low"}


def cost_columns(n: int) -> list[str]:
    """Return the header of costs.csv."""
    return ["step", *map(str, range(n))]


def parse_costs(line: str) -> list[float | None]:
    """Read a line of costs.csv, without the batch; None where a dimension was closed."""
    step, *costs = line.split(",")
    _whole(step)
    return [_finite(cost) if cost else None for cost in costs]


def _whole(cell: str) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 16 and int(cell) <= LARGEST_WHOLE):
        raise ValueError(f"{brief(cell)} is not a whole number")
    return int(cell)


def _finite(cell: str) -> float:
    number = float(cell)
    if not abs(number) <= LARGEST:
        raise ValueError(f"{brief(cell)} is not a finite number")
    return number
