"""From settings and data to the parts of a run: everything that is decided before the first batch.

`make_plan` checks data and settings against each other and decides every `auto`. Nothing is written before it has
succeeded, and the run that follows uses the same plan.
"""

import hashlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import accelerate
import numpy as np
import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError, setting
from narrows._util.launch import check_launch, waiting_for_others
from narrows._util.processes import join_group
from narrows._util.text import printable
from narrows.data import SETS, Batches, Data, Examples, Splits, absolute, split, statistics, thinned
from narrows.data.counts import as_counts, check_counts
from narrows.data.examples import ArrayExamples, ExactRows, in_batches
from narrows.data.mixed import MixedExamples, widths_of
from narrows.data.units import SMALLEST_RELATIVE_SPREAD, AffineUnits, ColumnScaling, scale_columns
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import LARGEST_SIDE, SMALLEST_SIDE, Decoder, NetworkConfig, Scaling, has_conv_plan
from narrows.objective import (
    COUNT_ERRORS,
    ERRORS,
    SMALLEST_ENTROPY,
    Error,
    count_values,
    entropies,
    mixed_values,
    observed,
    total,
    value_by_value,
)
from narrows.recipes.registry import RECIPES
from narrows.runs.certificate import Terms, choose_terms
from narrows.runs.records import HeldOut
from narrows.training.config import PROMISES, SMALLEST, TrainConfig
from narrows.training.counts import CountMoments, measure_counts
from narrows.training.trackers import check_trackers

PAPER_TAU = {"dsprites": 20.0}
PAPER_N = {"dsprites": 10}
DEFAULT_N = 32
RELATIVE_AIM = 0.95
"""Share of tau to aim at with a learned multiplier, so that the upper end is within tau (decision D18)."""
MOMENT_EXAMPLES = 20_000
FINGERPRINT_EXAMPLES = 4_096
LEAST_EXPLAINABLE = 1e-4
"""Share of the deviance of counts that must not be noise."""
FEW_ROWS = 5_000
"""With fewer rows, the hidden layers of vectors learn too little without a linear path past them (decision D17), and
the last phase is shorter."""
MANY_DIMENSIONS = 32
"""Images: with more dimensions, the hidden layers of 128 units pass too little without such a path (decision D19)."""


@dataclass(frozen=True)
class Moments:
    """Mean of each value and total variance (summed over values) of the training data."""

    mean: Tensor
    variance: float
    observed: float
    """How many values an example has on average: all of them, unless some are missing."""
    counts: CountMoments | None = None
    """What is known of counts; `mean` is then that of a row of median size, and `variance` its null deviance."""


def moments(examples: Examples, index: np.ndarray, missing: bool = False, weights: np.ndarray | None = None) -> Moments:
    """Measure the data from at most 20,000 evenly spaced examples."""
    index = index[:: max(1, len(index) // MOMENT_EXAMPLES)]
    measured = statistics.Moments(missing=missing)
    for here, x in in_batches(examples, index, rows=64):
        measured.add(x, None if weights is None else weights[index[here]])
    mean = torch.from_numpy(measured.mean).float()
    if not isinstance(examples, MixedExamples):
        return Moments(mean, measured.total_variance, measured.observed)
    share = np.broadcast_to(measured.seen / measured.count, mean.shape)  # how often each value is observed
    first = len(mean) - sum(examples.widths)
    of_category = share[first + np.cumsum(examples.widths) - 1]
    constant = np.array([entropy <= SMALLEST_ENTROPY for entropy in entropies(mean[first:], examples.widths)])
    variance = float((share * measured.variance)[:first].sum() + of_category[~constant].sum())
    return Moments(mean, variance, float(share[:first].sum() + of_category.sum()))


def moments_of_counts(config: TrainConfig, data: Data, index: np.ndarray) -> Moments:
    """Measure counts as `moments` measures other values."""
    index = index[:: max(1, len(index) // MOMENT_EXAMPLES)]
    dispersed = config.error == "negative-binomial"
    counts = measure_counts(data.examples, index, data.counting.weights, dispersed)
    mean = torch.from_numpy(counts.size * counts.proportion).float()
    return Moments(mean, counts.null, float(len(mean)), counts)


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
        parts = [self.error(x, self.moments.mean.expand_as(x)) for _, x in in_batches(self.data.examples, validation)]
        errors = torch.cat([part.reshape(len(part), -1)[:, 0] for part in parts]).double().numpy()
        share = counting.at(validation).effective(errors) / len(validation)
        return max(1, round(share * len(validation))), max(1, round(share * len(test)))

    def header(self, weights: int, device: str) -> list[str]:
        """Return a few lines that say what is trained, on what."""
        config, splits = self.config, self.splits
        count, shape = len(self.data.examples), "x".join(map(str, self.data.examples.shape))
        note = f"; {self.data.note}" if self.data.note else ""
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
        n = PAPER_N.get(config.data) or min(DEFAULT_N, int(np.prod(shape)))
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
    """Return tau for a share of the deviance that is not noise (decision D21)."""
    if config.explained is None:
        raise NarrowsError(
            f"{data.name} needs a promise about the error: {setting('tau')} (the deviance of one input), "
            f"{setting('explained')} (the share of what is not noise) or {setting('as_good_as')}; for "
            f"scale, constant proportions have a deviance of {counts.null:.4g}, of which {counts.explainable:.4g} is "
            f"not noise"
        )
    if counts.explainable <= LEAST_EXPLAINABLE * counts.null:
        raise NarrowsError(
            f"{data.name}: these counts vary no more than counts with constant proportions do, so there is nothing to "
            f"explain; pass counts as they were observed, or give {setting('tau')}"
        )
    return counts.null - config.explained * counts.explainable


def column_scaling(config: TrainConfig, data: Data) -> ColumnScaling:
    """Return how columns are scaled: those of tables have their own units, those of arrays share one."""
    if config.scaling == "auto":
        if config.error in COUNT_ERRORS:
            return "none"
        return "standard" if data.columns else "none"
    return config.scaling


LONG_WAIT = timedelta(hours=4)
"""How long processes wait for each other: the first one validates while the others wait."""

Build = Callable[[tuple[int, ...], int], tuple[nn.Module, nn.Module]]
"""A user's function (shape of one example, n) -> (encoder, decoder); `GatedVAE` says what the two must do."""


def make_model(
    config: TrainConfig, data: Data, measured: Moments, build: Build | NetworkConfig | None = None
) -> GatedVAE:
    """Build the untrained model; its weights depend on the seed alone.

    Arguments:
        config: The settings, with every `auto` decided.
        data: What will be trained on.
        measured: Their moments.
        build: Makes the user's own networks, or describes built-in ones; by default the settings and data decide.
    """
    assert config.network != "auto"
    assert config.n != "auto"
    shape = data.examples.shape
    output = output_of(config, data)
    if config.network == "mlp":
        direct = len(shape) == 1 and len(data.examples) < FEW_ROWS
    else:
        direct = config.n > MANY_DIMENSIONS and not RECIPES[config.recipe].papers_networks
    masked = data.missing > 0
    own = None if isinstance(build, NetworkConfig) else build
    if masked and own is not None:
        raise NarrowsError(
            f"{setting('missing', 'mask')} is for built-in networks: networks of your own would have to take NaN; "
            f"leave {setting('network')} out, or fill the values in"
        )
    blocks = data.examples.widths if isinstance(data.examples, MixedExamples) else ()
    if blocks and own is not None:
        raise NarrowsError(
            f"{data.name} has categories, which are for built-in networks; leave {setting('network')} out, or encode "
            f"them as numbers"
        )
    network = NetworkConfig(config.network, shape, config.n, config.width, output, direct, blocks, masked)
    if isinstance(build, NetworkConfig):
        network = replace(build, n=config.n, output=output)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = gated_vae(network) if own is None else _around(own, network)
    if output == "linear":
        spread = torch.tensor(measured.variance / measured.observed).sqrt().float()
        model.scaling.fit(measured.mean, spread)
    elif measured.counts is not None:
        counts = measured.counts
        model.scaling.fit(torch.from_numpy(counts.shift).float(), torch.tensor(counts.spread).float())
        parts = (torch.from_numpy(part).float() for part in (counts.proportion, counts.dispersion))
        model.scaling.fit_counts(counts.size, *parts)
    elif isinstance(model.decoder, Decoder):
        model.decoder.start_at(torch.logit(measured.mean.clamp(0.01, 0.99)))
    if not model.checked:
        model.check(data.examples.batch(np.arange(2)))
    return model


def _around(build: Build, network: NetworkConfig) -> GatedVAE:
    networks = build(network.shape, network.n)
    if not isinstance(networks, tuple) or len(networks) != 2:
        raise NarrowsError(
            f"{setting('network')} must be a function that returns an encoder and a decoder; it returned "
            f"{networks!r:.200}"
        )
    return GatedVAE(*networks, network.n, scaling=Scaling(network.output, network.shape))


def compile_networks(model: GatedVAE) -> None:
    """Compile the networks in place, so that their parameters keep their names; copies of the model are not compiled.

    Raises:
        NarrowsError: torch.compile does not work on this machine.
    """
    device = next(model.parameters()).device
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own parts, about each other
            torch.compile(torch.sin)(torch.zeros(1, device=device))
    except Exception as error:  # of a compiler that may be any program
        needed = "Triton" if device.type == "cuda" else "a C++ compiler"
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise NarrowsError(
            f"{setting('compile')} needs {needed} that torch can use ({printable(reason)}); install it, or leave "
            f"{setting('compile')} out"
        ) from error
    model.encoder.compile()
    model.decoder.compile()


def make_accelerator(config: TrainConfig) -> accelerate.Accelerator:
    """Return accelerate's handle on device, precision and processes; the first call meets the other processes."""
    check_launch()
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(config.device, True):
        raise NarrowsError(
            f"{setting('device', config.device)} is not available on this machine; use "
            f"{setting('device', 'cpu')} or auto"
        )
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # Estimates and certificates are in double precision, which MPS has not: auto does not choose it. Several processes
    # on CPUs find each other only if accelerate is told that it has no accelerator.
    cpu = config.device == "cpu" or (config.device == "auto" and not available["cuda"])
    precision = "bf16" if config.precision == "bfloat16" else "no"
    with waiting_for_others():
        join_group("nccl" if available["cuda"] and not cpu else "gloo", LONG_WAIT)
        accelerator = accelerate.Accelerator(cpu=cpu, mixed_precision=precision)
    if config.batch % accelerator.num_processes:
        raise NarrowsError(
            f"{setting('batch', config.batch)} cannot be shared evenly among {accelerator.num_processes} processes"
        )
    return accelerator


def fingerprint(data: Data, splits: Splits) -> str:
    """Return a digest of the data: the same data give the same.

    It covers size, shape, columns, weights, groups and up to 4,096 evenly spaced examples; of a streamed set the names,
    sizes and counts of its shards and up to 4,096 of the held-out examples.
    """
    examples = data.examples
    if data.stream is None:
        about, index = "", np.unique(np.linspace(0, len(examples) - 1, FINGERPRINT_EXAMPLES).astype(np.int64))
    else:
        held_out = np.concatenate([splits.validation, splits.test])
        about, index = data.stream.digest, thinned(held_out, FINGERPRINT_EXAMPLES)
    digest = hashlib.sha256(f"{len(examples)} {examples.shape} {data.columns}{about}".encode())
    for _, x in in_batches(examples, index, rows=64):
        digest.update(x.contiguous().numpy().tobytes())
    for counted in (data.counting.weights, data.counting.groups):
        if counted is not None:
            digest.update(counted.tobytes())
    return digest.hexdigest()
