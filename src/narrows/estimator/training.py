"""How an estimator trains: examples in any unit become a run in memory, and its answer comes back in their unit."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import steps
from narrows.data import Data, from_array, split
from narrows.data.counting import Counting
from narrows.data.counts import check_counts
from narrows.data.dataset import Values
from narrows.data.examples import ArrayExamples, in_batches
from narrows.data.mixed import widths_of
from narrows.data.readers.frames import is_frame, names_of, read_frame
from narrows.data.sparse import SparseRows, is_sparse
from narrows.data.statistics import Moments
from narrows.data.units import AffineUnits, common_units
from narrows.estimator.batches import joined, levels, named, numbered
from narrows.estimator.settings import as_value_error, checked_array, missing_of, settings_of, sparse_rows
from narrows.model.vae import VAE
from narrows.networks import NetworkConfig
from narrows.objective import COUNT_ERRORS, Error
from narrows.runs.records import DecisionRow, MetricRow, Result
from narrows.training.build import Build
from narrows.training.config import LARGEST, SMALLEST, TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan, tau_as_good
from narrows.training.sinks import MemorySink
from narrows.training.start import reference
from narrows.training.trainer import Trainer

LEAST_ROWS, ROWS = 10, 4_096
NAMES = ("sample_weight", "groups")
POWERS = {"squared": 2, "absolute": 1}
"""The power of the unit of `X` in which an error counts; other errors are measured in the unit of `X` itself."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples that have been checked, in the unit they are trained in, with the settings of their run."""

    config: TrainConfig
    data: Data
    units: AffineUnits | None
    """The way from the unit of training to the user's; None for tables with categories, and for counts."""
    mean: np.ndarray
    """Mean of each value, in the user's unit; of a category, the frequencies of its levels."""
    error: Error | None
    """The user's own error, for reconstructions in the unit of training; None for a named one."""
    square: float
    """What an error of 1 in training is in the user's unit."""
    batches: tuple[str, ...] = ()
    """The batches that rows of counts are from, if the decoder is told."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example as the user keeps it."""
        return self.mean.shape


@dataclass(frozen=True, eq=False)
class Found:
    """A trained model and its answer, in the user's unit."""

    model: VAE
    result: Result
    records: "Records"
    settled: dict[str, Any] | None
    """The state in which the size was found, from which the next tau of a front continues."""


@dataclass(frozen=True, eq=False)
class Records:
    """What is kept of a training for `NarrowVAE.report`, in the user's unit."""

    config: TrainConfig
    rows: list[MetricRow]
    decisions: list[DecisionRow]
    first_costs: list[float] | None
    about: dict[str, Any]
    """The description of the model."""


@dataclass(frozen=True, eq=False)
class Training:
    """A training that is under way."""

    model: Callable[[], VAE]
    """Returns the model of this moment, without the dimensions that are closed, in the user's unit."""
    stop: Callable[[], None]
    """Ends training after this batch."""


def checked(estimator: Any, X: ArrayLike) -> np.ndarray | SparseRows:
    """Return `X` as an array of floats; raise if it does not hold enough rows or images."""
    hint = "NaN can stand for values that were not observed: NarrowVAE(missing='mask')"
    x: Any = checked_array(estimator, X, missing_of(estimator), hint, ensure_min_samples=0, accept_sparse="csr")
    if x.ndim > 4 or 0 in x.shape[1:]:
        raise ValueError(f"X must hold rows (N, D) or images (N, H, W) or (N, H, W, C); its shape is {x.shape}")
    if x.shape[0] < LEAST_ROWS:
        raise ValueError(too_few(x.shape[0]))
    if is_sparse(x):
        return sparse_rows(x)
    if is_frame(X) and (empty := np.isnan(x).all(0)).any():
        name = names_of(X)[int(empty.argmax())]
        raise ValueError(f"X: column {name!r} has no value in any of {len(x)} rows; leave it out")
    return x


def too_few(rows: int) -> str:
    """Return the text for too few rows."""
    return f"fitting needs at least {LEAST_ROWS} samples, to train, validate and test; n_samples={rows}"


def prepare_table(estimator: Any, frame: Any, sample_weight: Any = None, groups: Any = None) -> Prepared | None:
    """Return a table with categories as it is trained: numbers count in their standard deviations.

    A table without categories is None here: it is trained as an array.
    """
    config = settings_of(estimator)
    with as_value_error():
        data = read_frame(frame, "X", None, estimator.missing, estimator.categories)
        if not widths_of(data.table):
            return None
        if callable(estimator.error):
            raise NarrowsError(f"{setting('error')} must be 'squared' for a table with categories; it is a function")
        if len(data.examples) < LEAST_ROWS:
            raise NarrowsError(too_few(len(data.examples)))
        counting = Counting.of(len(data.examples), sample_weight, groups, ("sample_weight", "groups"))
        data = replace(data, counting=counting)
        promises = {name: getattr(estimator, name) for name in ("tau", "tau_per_value")}
        found = {name: float(value) for name, value in promises.items() if value is not None}
        size = min(config.batch, len(split(data).train))
        config = replace(config, batch=size, tau=found.get("tau"), tau_per_value=found.get("tau_per_value"))
        values = Moments(missing=data.missing > 0)
        for here, x in in_batches(data.exact, np.arange(len(data.examples)), ROWS):
            values.add(x, None if counting.weights is None else counting.weights[here])
    return Prepared(config, data, None, values.mean, None, 1.0)


def prepare(
    estimator: Any, x: np.ndarray | SparseRows, sample_weight: Any = None, groups: Any = None, batch: Any = None
) -> Prepared:
    """Return the examples as they are trained, with the settings that the estimator's parameters make."""
    config = settings_of(estimator)
    if batch is not None and config.error not in COUNT_ERRORS:
        raise ValueError(f"batch is for counts, error={' or '.join(map(repr, COUNT_ERRORS))}; leave it out")
    with as_value_error():
        own = callable(estimator.error)
        if config.error in COUNT_ERRORS:
            return _prepare_counts(estimator, config, x, Counting.of(len(x), sample_weight, groups, NAMES), batch)
        squared = estimator.tau if config.error == "squared" and not own else None
        counting = Counting.of(len(x), sample_weight, groups, ("sample_weight", "groups"))
        limits = SMALLEST, LARGEST
        units, mean = common_units(x, None if squared is None else float(squared), limits, counting.weights)
        unit_interval = config.error == "cross-entropy"
        if unit_interval:
            low, high = x.range() if isinstance(x, SparseRows) else (float(np.nanmin(x)), float(np.nanmax(x)))
            if not 0 <= low <= high <= 1:
                raise NarrowsError(
                    f"{setting('error', 'cross-entropy')} is for values in [0, 1]; X has values from {low:.4g} to "
                    f"{high:.4g}"
                )
            units = AffineUnits(np.zeros(()), np.ones(()))
        kind: Values = "unit" if unit_interval else "any"
        if isinstance(x, SparseRows):
            _check_whole(estimator)
            rows = SparseRows(x.matrix, "X", exact=True)  # so that (x - shift) / unit is what it is for an array
            shift = units.shift if units.shift.any() else 0.0
            data = Data("X", ArrayExamples(rows, 1 / float(units.unit), shift), kind)
        else:
            data = from_array(units.scaled(x), kind, name="X", missing=estimator.missing)
        data = replace(data, counting=counting)
        square = 1.0 if own or unit_interval else float(units.unit) ** POWERS[config.error]
        tau, per_value = estimator.tau, estimator.tau_per_value
        config = replace(
            config,
            tau=None if tau is None else float(tau) / square,
            tau_per_value=None if per_value is None else float(per_value) / square,
            batch=min(config.batch, len(split(data).train)),
        )
    error = _in_unit(estimator.error, units) if own else None
    return Prepared(config, data, units, mean, error, square)


def _check_whole(estimator: Any) -> None:
    if estimator.missing == "mask":
        raise NarrowsError(
            f"X is sparse, with zeros where it stores nothing, and has no gaps; leave {setting('missing', 'mask')} out"
        )


def _prepare_counts(
    estimator: Any, config: TrainConfig, x: np.ndarray | SparseRows, counting: Counting, batch: Any
) -> Prepared:
    """Return counts as they are trained: as they are."""
    if x.ndim != 2 or estimator.missing == "mask":
        raise NarrowsError(
            f"{setting('error', config.error)} is for whole rows of counts, (N, D); X has the shape {x.shape}"
            + (f", and {setting('missing', 'mask')}" if estimator.missing == "mask" else "")
        )
    data = Data("X", ArrayExamples(x if isinstance(x, SparseRows) else x.astype(np.float32)), "any", counting=counting)
    sums, total = np.zeros(x.shape[1]), 0.0
    for part in steps(len(x), ROWS):
        rows = np.asarray(x[part], np.float64)
        weight = np.ones(len(rows)) if counting.weights is None else counting.weights[part]
        sums, total = sums + weight @ rows, total + weight.sum()
    if not check_counts(data):
        text = "X holds values that are not whole numbers: pass counts as they were observed, if these have been scaled"
        warnings.warn(text, UserWarning, stacklevel=5)
    batches: tuple[str, ...] = ()
    if batch is not None:
        texts = named(batch, len(x))
        batches = levels(texts)
        wide = joined(x, numbered(texts, batches), len(batches))
        wide = wide if isinstance(wide, SparseRows) else wide.astype(np.float32)
        data = replace(data, examples=ArrayExamples(wide), batches=len(batches))
    tau, per_value = (None if one is None else float(one) for one in (estimator.tau, estimator.tau_per_value))
    size = min(config.batch, len(split(data).train))
    config = replace(config, batch=size, tau=tau, tau_per_value=per_value)
    return Prepared(config, data, None, sums / total, None, 1.0, batches)


def _in_unit(error: Callable[[Tensor, Tensor], Tensor], units: AffineUnits) -> Error:
    """Return a user's error of x and its reconstruction for values in the unit of training."""
    shift, unit = (tensor.float() for tensor in units.tensors())

    def measured(x: Tensor, y: Tensor) -> Tensor:
        there, wide = shift.to(x.device), unit.to(x.device)
        if x.ndim > 2 and there.ndim:
            there = there.reshape(x.shape[1:])
        return error(x * wide + there, y * wide + there)

    return measured


def train_in_memory(
    prepared: Prepared,
    listener: Listener,
    build: Build | NetworkConfig | None = None,
    before: VAE | None = None,
    settled: dict[str, Any] | None = None,
    keep_settled: bool = False,
    interruptible: bool = False,
    watch: Callable[[Training], None] | None = None,
) -> Found:
    """Train, and return the model and the answer in the user's unit.

    Arguments:
        prepared: The examples and settings.
        listener: Hears how training goes.
        build: Makes the networks, or describes built-in ones; by default the plan decides on built-in ones.
        before: A model whose weights training begins with.
        settled: The state in which another run, under a smaller tau, found its size.
        keep_settled: Whether to return that state of this run.
        interruptible: Whether Ctrl-C ends training with an answer; otherwise it is a KeyboardInterrupt, as ever.
        watch: Is given the training before its first batch.
    """
    config = prepared.config
    if config.as_good_as is not None:
        config = _as_good_as(prepared, listener, build)
    plan = make_plan(config, prepared.data, prepared.square, prepared.error)
    trainer = Trainer(plan, listener, build)
    if before is not None:
        trainer.load_weights(before)
    if settled is not None:
        trainer.continue_from(settled)
    sink = MemorySink(keep_settled, interruptible)

    def in_unit(model: VAE) -> VAE:
        model = model.cpu()
        if prepared.units is not None and model.scaling.output == "linear":
            model.scaling = model.scaling.in_units(*prepared.units.tensors())
        return model

    if watch is not None:
        watch(Training(lambda: in_unit(trainer.model_now()), sink.request_stop))
    result = trainer.start(sink).in_unit(prepared.square)
    assert sink.model is not None
    rows = [row.in_unit(prepared.square) for row in sink.rows]
    config = replace(plan.config, tau=result.tau)
    records = Records(config, rows, sink.decisions, sink.first_costs, {**sink.about, "tau": result.tau})
    return Found(in_unit(sink.model), result, records, sink.settled)


def _as_good_as(prepared: Prepared, listener: Listener, build: Build | NetworkConfig | None) -> TrainConfig:
    """Train a plain VAE and return the settings of the narrow one that must be as good."""
    config, data = prepared.config, prepared.data
    assert config.as_good_as is not None
    plain = Trainer(make_plan(reference(config), data, prepared.square, prepared.error), listener, build)
    error = plain.start(MemorySink()).validation
    n = 2 * config.as_good_as if config.n == "auto" else config.n
    return replace(config, as_good_as=None, tau=tau_as_good(error, config, data), n=n)
