"""From settings and data to the parts of a run: everything that is decided before the first batch.

`make_plan` checks data and settings against each other and decides every `auto`. Nothing is written before it has
succeeded, and the run that follows uses the same plan.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from narrows._util.errors import NarrowsError, setting
from narrows.data import SETS, Batches, Data, Splits, absolute, split
from narrows.data.counts import as_counts, check_counts
from narrows.data.examples import ArrayExamples, ExactRows, in_batches
from narrows.data.mixed import MixedExamples, widths_of
from narrows.data.units import SMALLEST_RELATIVE_SPREAD, AffineUnits, ColumnScaling, scale_columns
from narrows.networks import LARGEST_SIDE, SMALLEST_SIDE, has_conv_plan
from narrows.objective import (
    COUNT_ERRORS,
    ERRORS,
    Error,
    count_values,
    mixed_values,
    observed,
    total,
    value_by_value,
)
from narrows.recipes.registry import RECIPES
from narrows.runs.certificate import Terms, choose_terms
from narrows.runs.records import HeldOut
from narrows.training.config import PROMISES, SMALLEST, TrainConfig
from narrows.training.counts import CountMoments
from narrows.training.fingerprint import fingerprint
from narrows.training.moments import Moments, moments, moments_of_counts
from narrows.training.trackers import check_trackers

PAPER_TAU = {"dsprites": 20.0}
PAPER_N = {"dsprites": 10}
DEFAULT_N = 32
RELATIVE_AIM = 0.95
"""Share of tau to aim at with a learned multiplier, so that the upper end is within tau (decision D18)."""
LEAST_EXPLAINABLE = 1e-4
"""Share of the deviance of counts that must not be noise."""
FEW_ROWS = 5_000
"""With fewer rows, the hidden layers of vectors learn too little without a linear path past them (decision D17), and
the last phase is shorter."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A run before its first batch: settings and data that are known to fit together."""

    config: TrainConfig
    """The settings, with every `auto` decided."""
    data: Data
    """The data in the units they are trained in."""
    splits: Splits
    units: AffineUnits | None
    """The way from those units to the user's, for tables with scaled columns."""
    moments: Moments
    fingerprint: str
    """Digest of the data."""
    trackers: list[str]
    """Names of the trackers to log to."""
    terms: Terms
    """The terms of the certificate."""
    error: Error
    """The promised error of each example, in the unit of training."""
    square: float = 1.0
    """What an error of 1 is in the unit that the user sees."""
    named: bool = True
    """Whether the error is the one that the settings name, and not the user's own."""
    whole: bool = True
    """Whether counts are whole numbers."""

    @property
    def tau(self) -> float:
        """The promise; infinite without one."""
        return math.inf if self.config.tau is None else self.config.tau

    @property
    def values(self) -> int:
        """Number of values in one input; of those that were observed on average, where some are missing."""
        return round(self.moments.observed)

    @property
    def split_sizes(self) -> tuple[int, int]:
        """How many independent examples validation and test stand for: fewer than they have, for groups and weights.

        Measured on the validation split, for the error of decoding everything to the mean.
        """
        counting, validation, test = self.data.counting, self.splits.validation, self.splits.test
        if counting.plain:
            return len(validation), len(test)
        parts = [self.error(*self.moments.null(x)) for _, x in in_batches(self.data.examples, validation)]
        errors = torch.cat([part.reshape(len(part), -1)[:, 0] for part in parts]).double().numpy()
        share = counting.at(validation).effective(errors) / len(validation)
        return max(1, round(share * len(validation))), max(1, round(share * len(test)))

    def header(self, weights: int, device: str) -> list[str]:
        """Return a few lines that say what is trained, on what."""
        config, splits = self.config, self.splits
        sides = (side - self.data.batches for side in self.data.examples.shape)
        count, shape = len(self.data.examples), "x".join(map(str, sides))
        note = f" in {self.data.batches} batches" if self.data.batches else ""
        note += f"; {self.data.note}" if self.data.note else ""
        lines = [
            f"data: {self.data.name}, {count:,} examples of {shape}{note}",
            f"split: {len(splits.training):,} train, {len(splits.validation):,} validation, {len(splits.test):,} test"
            + (f", {splits.rule}" if splits.rule else ""),
            f"model: {config.network}, width {config.width}, {config.n} latent dimensions, {weights:,} weights, "
            f"on {device}",
        ]
        if self.data.missing:
            share = self.data.missing / (count * (len(self.data.table) or math.prod(self.data.examples.shape)))
            lines.append(f"missing: {100 * share:.3g}% of the values; error and tau count those that were observed")
        if widths := widths_of(self.data.table):
            lines.append(
                f"categories: {len(widths)} with {sum(widths)} levels; a column's error is 1 if only its mean, or its "
                f"frequencies, are known"
            )
        if self.data.counting.weights is not None:
            lines.append("weights: error and tau are weighted means")
        if self.units is not None:
            measure = "standard deviation" if config.scaling == "standard" else "range"
            lines.append(f"scaling: each column is divided by its own {measure}; tau counts in those units")
        if (counts := self.moments.counts) is not None:
            lines.append(
                f"counts: median library size {counts.size:g}; with constant proportions the deviance per input is "
                f"{counts.null:.5g}, of which {counts.explainable:.4g} is not noise"
            )
        if not self.whole:
            lines.append("counts: not all are whole numbers; pass counts as they were observed, if these are scaled")
        kind = "" if config.error == "squared" else f"{config.error} "
        if config.tau is None:
            lines.append(f"promise: none; the {kind}error becomes as small as it gets")
        else:
            tau = config.tau * self.square
            lines.append(f"promise: {kind}error at most {tau:g} per input ({tau / self.values:.3g} per value)")
            counting = self.data.counting
            units = counting.at(splits.test).units(len(splits.test))
            unit = "input" if counting.groups is None else "group"
            lines.append(f"certificate: {self.terms.outlook(config.tau, units, unit)}")
        return lines


def make_plan(config: TrainConfig, data: Data, square: float = 1.0, error: Error | None = None) -> Plan:
    """Check settings (already checked by themselves) and data against each other, and decide what is left open.

    Arguments:
        config: The settings.
        data: The data in the unit of training.
        square: What an error of 1 is in the unit that the user sees.
        error: The user's own error, instead of the one that the settings name.

    Raises:
        NarrowsError: They do not fit together.
    """
    trackers = check_trackers(config.track)
    if error is not None and data.missing:
        raise NarrowsError(
            f"{setting('error')} is a function, which cannot know how to count values that are missing; use one of "
            f"{', '.join(ERRORS)}, or fill the values in"
        )
    splits = split(data, config.split_seed)
    check_weights(data, splits)
    Batches(splits.training, config.batch, config.seed)  # raises if a batch is larger than the split
    data, units = in_training_units(config, data, splits.train)
    whole = True
    if config.error in COUNT_ERRORS and error is None:
        whole, measured = check_counts(data), moments_of_counts(config, data, splits.train)
    else:
        measured = moments(data.examples, splits.train, data.missing > 0, data.counting.weights)
        check_precision(data, splits.train, measured)
    config = resolve(config, data, measured)
    terms = Terms(config.confidence)
    if config.tau is not None:
        count = data.counting.at(splits.test).units(len(splits.test))
        limit = None if error is not None else largest_error(config, data)
        terms = choose_terms(config.certificate, config.confidence, limit, config.tau, count)
    digest, own = fingerprint(data, splits), error or named_error(config, data, measured)
    return Plan(config, data, splits, units, measured, digest, trackers, terms, own, square, error is None, whole)


def in_training_units(config: TrainConfig, data: Data, index: np.ndarray) -> tuple[Data, AffineUnits | None]:
    """Return data as they are trained, and the way to the user's units, if columns are scaled; `index` is the rows to
    measure that on."""
    if config.error not in COUNT_ERRORS:
        return scale_columns(data, index, column_scaling(config, data))
    error = setting("error", config.error)
    if data.is_image or isinstance(data.examples, MixedExamples) or data.missing or data.stream is not None:
        what = "images" if data.is_image else "a stream" if data.stream is not None else "gaps or categories"
        raise NarrowsError(f"{error} is for whole vectors of counts, (N, D), and {data.name} has {what}; leave it out")
    if config.scaling not in ("auto", "none"):
        raise NarrowsError(f"{error} is for counts as they are; leave {setting('scaling', config.scaling)} out")
    return as_counts(data), None


def check_weights(data: Data, splits: Splits) -> None:
    """Raise if all rows of a split have weight 0, so that nothing could be said about it."""
    if data.counting.weights is None:
        return
    for name in ("train", "validation", "test"):
        if not data.counting.weights[getattr(splits, name)].any():
            raise NarrowsError(
                f"{data.name}: all rows of the {name} split have weight 0; use more rows with a weight above 0"
            )


def named_error(config: TrainConfig, data: Data, measured: Moments) -> Error:
    """Return the error that the settings name, for these data."""
    if isinstance(data.examples, MixedExamples):
        return total(value_errors(config, data, measured))
    if measured.counts is not None:
        return total(value_errors(config, data, measured))
    return observed(config.error) if data.missing else ERRORS[config.error]


def value_errors(config: TrainConfig, data: Data, measured: Moments) -> Error:
    """Return the same before it is summed over an input's values."""
    if isinstance(data.examples, MixedExamples):
        widths = data.examples.widths
        return mixed_values(widths, measured.mean[-sum(widths) :])
    if measured.counts is not None:
        dispersed = config.error == "negative-binomial"
        return count_values(torch.from_numpy(measured.counts.dispersion).float() if dispersed else None)
    return value_by_value(config.error)


def largest_error(config: TrainConfig, data: Data) -> float | None:
    """Return the largest error that an input can have by its type; None where nothing limits it.

    An exact certificate is for inputs that count the same and are independent, so weights and groups leave no limit.
    Values and outputs in [0, 1] differ by at most 1 each. A cross-entropy has a limit only by rounding, and that is too
    large to be of use.
    """
    if not data.counting.plain or config.error == "cross-entropy" or output_of(config, data) != "sigmoid":
        return None
    return float(math.prod(data.examples.shape))


def tau_as_good(validation: HeldOut, config: TrainConfig, data: Data) -> float:
    """Return the upper end that a model with these errors on the validation split is expected to have."""
    count, limit = len(split(data, config.split_seed).test), largest_error(config, data)
    if config.certificate != "approximate" and limit is not None:
        tau = validation.error + Terms(config.confidence, limit).room(validation.spread, count)
        terms = choose_terms(config.certificate, config.confidence, limit, tau, count)
        if terms.limit is not None:
            return tau
    return validation.high  # approximate, as every forecast of a run without a promise


def output_of(config: TrainConfig, data: Data) -> Literal["sigmoid", "linear", "counts"]:
    """Return how outputs are made: images of values in [0, 1] are squashed into that interval."""
    if config.error in COUNT_ERRORS:
        return "counts"
    return "sigmoid" if data.values == "unit" and (data.is_image or config.error == "cross-entropy") else "linear"


def resolve(config: TrainConfig, data: Data, measured: Moments) -> TrainConfig:
    """Decide every `auto`, so that the stored settings say what was done."""
    tau = promised_tau(config, data, measured)
    if config.error == "cross-entropy" and data.values != "unit":
        raise NarrowsError(f"{data.name}: {setting('error', 'cross-entropy')} needs unscaled values in [0, 1]")
    if isinstance(data.examples, MixedExamples) and config.error != "squared":
        raise NarrowsError(
            f"{data.name} has categories, whose cross-entropy is added to squared errors of numbers; leave "
            f"{setting('error', config.error)} out"
        )
    if isinstance(data.examples, MixedExamples) and column_scaling(config, data) == "none":
        raise NarrowsError(
            f"{data.name} has categories, and numbers count like them only if they are scaled; leave "
            f"{setting('scaling', 'none')} out"
        )
    shape = data.examples.shape
    size = "x".join(map(str, shape))
    if config.network == "conv" and not has_conv_plan(shape):
        raise NarrowsError(
            f"{setting('network', 'conv')} is for images with sides of {SMALLEST_SIDE} to {LARGEST_SIDE}, and these "
            f"examples are {size}; use {setting('network', 'mlp')}"
        )
    network = config.network
    if network == "auto" and data.is_image and max(shape[1:]) > LARGEST_SIDE:
        raise NarrowsError(
            f"{data.name}: images of {size} have more than {LARGEST_SIDE} pixels per side; make them smaller, or use "
            f"{setting('network', 'mlp')}"
        )
    if network == "auto":
        network = "conv" if has_conv_plan(shape) else "mlp"
    recipe = RECIPES[config.recipe]
    constraint = config.constraint
    if constraint == "auto":
        constraint = "plain" if recipe.learns_multiplier and config.data in SETS else "relative"
    aim = config.aim
    if recipe.learns_multiplier and aim is None:
        aim = 1.0 if constraint == "plain" else RELATIVE_AIM
    n = config.n
    if n == "auto":
        n = PAPER_N.get(config.data) or min(DEFAULT_N, int(np.prod(shape)) - data.batches)
    return replace(
        config,
        data=absolute(config.data),
        source=data.source or config.source if config.data in SETS else "auto",
        scaling=column_scaling(config, data),
        tau=tau,
        tau_per_value=None,
        explained=None,
        n=n,
        steps=recipe.default_steps or "auto" if config.steps == "auto" else config.steps,
        network=network,
        constraint=constraint,
        aim=aim,
        learning_rate=recipe.learning_rate if config.learning_rate == "auto" else config.learning_rate,
    )


def check_precision(data: Data, index: np.ndarray, measured: Moments) -> None:
    """Raise if training, in single precision, would round away what the examples differ in.

    Arrays of doubles are measured as they are stored: after rounding, values near 1e9 that vary by 1 are all equal, and
    a model of nothing would keep any promise.
    """
    examples = data.examples
    if isinstance(examples, ArrayExamples) and examples.array.dtype == np.float64 and not np.any(examples.shift):
        measured = moments(ExactRows(examples.array), index, data.missing > 0, data.counting.weights)
    spread = (measured.variance / measured.observed) ** 0.5
    largest = measured.mean.abs().max().item()
    if 0 < spread < SMALLEST_RELATIVE_SPREAD * largest:
        remedy = "subtract each pixel's mean first"
        if not data.is_image:
            remedy = f"subtract each column's mean first, or use {setting('scaling', 'standard')}"
        raise NarrowsError(
            f"{data.name}: values around {largest:.4g} that vary by {spread:.2g} lose their digits in single "
            f"precision; {remedy}"
        )


def promised_tau(config: TrainConfig, data: Data, measured: Moments) -> float | None:
    """Return tau, however the promise was given; None for a plain VAE without one."""
    values = measured.observed
    given = any(getattr(config, name) is not None for name in PROMISES)
    if not given and config.data in PAPER_TAU and config.error == "squared":
        return PAPER_TAU[config.data]
    if config.tau is not None:
        return config.tau
    if config.tau_per_value is not None:
        return config.tau_per_value * values
    if not RECIPES[config.recipe].needs_tau and config.explained is None:
        return None
    if measured.counts is not None:
        return _promised_deviance(config, data, measured.counts)
    if measured.variance == 0:
        raise NarrowsError(f"{data.name}: all training examples are the same; check the data, or give {setting('tau')}")
    if measured.variance < SMALLEST:
        raise NarrowsError(
            f"{data.name}: the training examples are nearly the same, with a total variance of "
            f"{measured.variance:.2g}; give {setting('tau')}, or multiply them by a large number"
        )
    if config.explained is not None:
        return max((1 - config.explained) * measured.variance, SMALLEST)
    raise NarrowsError(
        f"{data.name} needs a promise about the error: {setting('tau')} (the error of one input), "
        f"{setting('tau_per_value')}, {setting('explained')} or {setting('as_good_as')}; for scale, decoding "
        f"everything to the mean has a squared error of {measured.variance:.4g}, so {setting('explained', 0.95)} is "
        f"{setting('tau', f'{measured.variance * 0.05:.3g}')}"
    )


def _promised_deviance(config: TrainConfig, data: Data, counts: CountMoments) -> float:
    """Return tau for a share of the deviance that is not noise (decision D24)."""
    if config.explained is None:
        raise NarrowsError(
            f"{data.name} needs a promise about the error: {setting('tau')} (the deviance of one input), "
            f"{setting('explained')} (the share of what is not noise) or {setting('as_good_as')}; for "
            f"scale, constant proportions have a deviance of {counts.null:.4g}, of which {counts.explainable:.4g} is "
            f"not noise"
        )
    if counts.explainable <= LEAST_EXPLAINABLE * counts.null:
        raise NarrowsError(
            f"{data.name}: what is not noise cannot be told from these counts: they vary no more than counts with "
            f"constant proportions do, or hold few values above 1; pass counts as they were observed, or give "
            f"{setting('tau')}"
        )
    return counts.null - config.explained * counts.explainable


def column_scaling(config: TrainConfig, data: Data) -> ColumnScaling:
    """Return how columns are scaled: those of tables have their own units, those of arrays share one."""
    if config.scaling == "auto":
        if config.error in COUNT_ERRORS:
            return "none"
        return "standard" if data.columns else "none"
    return config.scaling
