"""The settings of a run, one field each; the command line is made from this class, and every run stores it."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from narrows._util.errors import NarrowsError, did_you_mean, setting
from narrows._util.text import brief
from narrows.recipes.registry import RECIPES, Effort, RecipeName

if TYPE_CHECKING:
    from narrows.data.options import ReadOptions

PROMISES = ("tau", "tau_per_value", "explained", "as_good_as")
"""The ways to say which error is accepted; a run has one."""
COUNT_ERRORS = ("poisson", "negative-binomial")
"""Errors of counts, as `narrows.objective` names them; a module that loads torch."""
COUNTS = ("as_good_as", "n", "steps", "batch", "width", "threads", "log_every", "eval_every")
MOST_THREADS = 1_024
"""Threads of torch; with many more, the library that starts them ends the process."""
SMALLEST, LARGEST = 1e-30, 1e30
"""Limits of tau: what single precision can work with."""
MOST = 10**15
"""Limit of all counts: a whole number that arithmetic with floats keeps exact."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run."""

    data: str = "dsprites"
    """A set, a file (.npy .npz .csv .parquet .h5), a folder of images or shards, a pattern, s3://..., or hf:NAME."""
    source: Literal["auto", "drawn", "official"] = "auto"
    """dsprites and shapes3d: the official file or the drawn set; auto takes the file if it is cached."""
    image_size: str | None = None
    """Folders of images and hf: sets: scale and crop every image to this size, 64 or 48x64 (height x width)."""
    skip_broken: bool = False
    """Folders of images: skip files that cannot be read."""
    columns: str | None = None
    """Tables: the columns to use, as a,b,c; all by default."""
    stream: bool = False
    """Shards (.npy, .parquet) on a slow disk: read them through a local cache, as those at s3:// or https://."""
    split_by: Literal["row", "shard"] = "row"
    """Streamed shards: hold out rows, or whole shards so that groups stay together, by a hash."""
    cache_size: str = "8GB"
    """Streamed shards: what they may take on the local disk at a time; the order of batches depends on it."""
    missing: Literal["refuse", "mask"] = "refuse"
    """Arrays and tables: refuse NaN and empty fields, or mask them; error and tau then count observed values only."""
    categories: Literal["refuse", "auto"] = "refuse"
    """Tables: refuse columns of texts, or train on them, and on those of true and false, as categories (auto)."""
    group_column: str | None = None
    """Tables: the column that names each row's group (a subject, a plate); a group is never split. Not trained on."""
    weight_column: str | None = None
    """Tables: the column with each row's weight, from 0 on; error and tau are weighted means. Not trained on."""
    scaling: Literal["auto", "none", "standard", "minmax"] = "auto"
    """Divide each column by its standard deviation (standard) or range (minmax); auto: standard for tables."""
    tau: float | None = None
    """The promise: the error, summed over one input's values, averaged over inputs, is at most this. dSprites: 20."""
    tau_per_value: float | None = None
    """The promise per value: tau divided by the number of values in one input."""
    explained: float | None = None
    """The promise as for PCA: the share of the data's variance to keep; 0.95 sets tau to 5% of the variance. For
    counts, the share of the deviance that is not noise."""
    as_good_as: int | None = None
    """The promise by example: first train a plain VAE with this many dimensions, and take its held-out error as tau."""
    error: Literal["squared", "cross-entropy", "absolute", "poisson", "negative-binomial"] = "squared"
    """The promised error: squared or absolute differences, Bernoulli cross-entropy (values in [0, 1]), or the Poisson
    or negative-binomial deviance of counts."""
    n: int | Literal["auto"] = "auto"
    """Latent dimensions at the start; auto: 32 or the number of values, if less; dSprites 10; twice --as-good-as."""
    steps: int | Literal["auto"] = "auto"
    """Number of batches, an upper limit with the fast recipe; auto: until no more dimensions close; paper: 50,000."""
    batch: int = 64
    """Examples per batch, over all processes."""
    recipe: RecipeName = "fast"
    """fast: gates close by their cost of removal; paper: Algorithm 1; plain: a VAE in which nothing closes."""
    effort: Effort = "normal"
    """How long to wait for a closing to pay off; thorough finds smaller models and takes longer (not: paper)."""
    network: Literal["auto", "conv", "mlp"] = "auto"
    """auto: convolutions for images with sides of 16 to 256, fully connected layers for vectors and smaller images."""
    width: int = 32
    """Size of the networks: 32 gives convolutions of 32, 32, 64, 64 channels; fully connected layers have 8 x width."""
    estimator: Literal["arm", "disarm"] = "arm"
    """Gradient estimator of the gates (paper): ARM, or DisARM, which has less variance."""
    gate_noise: Literal["example", "batch"] = "example"
    """Whether each example draws its own gates or a batch shares one draw (paper)."""
    constraint: Literal["auto", "plain", "relative"] = "auto"
    """plain: E - tau; relative: (E - tau) / tau, for any unit; auto: plain for the paper's recipe on its five sets."""
    certificate: Literal["auto", "exact", "approximate"] = "auto"
    """exact: holds for any data with a largest possible error (images); auto: exact where it costs up to 10% of tau."""
    confidence: float = 0.95
    """How certain the certificate is: it is false with a probability of at most 1 minus this."""
    aim: float | None = None
    """Share of tau to aim at, so that the promise holds on new data; the fast recipe measures it by itself."""
    values: Literal["unit", "any"] = "unit"
    """unit: values are in [0, 1], or bytes; any: any finite values, standardised inside the model."""
    learning_rate: float | Literal["auto"] = "auto"
    """Step size of the optimiser; auto: 0.002, or 0.001 for the paper's recipe."""
    seed: int = 0
    """Seed of initial weights, noise and the order of batches."""
    split_seed: int = 0
    """Seed of the train / validation / test split, separate so that runs with different seeds share a test split."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto uses a CUDA device if there is one."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: mixed precision; untested on GPUs."""
    compile: bool = False
    """Compile the networks with torch.compile: slower on the CPUs that were measured, untested on GPUs."""
    threads: int | None = None
    """Number of CPU threads; torch decides by default."""
    track: str | None = None
    """Also log to tensorboard, wandb, mlflow (separated by commas); without an account, into the run's folder."""
    log_every: int = 50
    """Batches per row of metrics.csv."""
    eval_every: int = 500
    """Batches between two passes over the validation split, at least."""
    checkpoint_every: int | str = 1_000
    """Batches between two checkpoints, which are at most 10 minutes apart; or time, such as 30s, 5m or 1h."""

    def reading(self) -> "ReadOptions":
        """Return the settings that say how the data are read."""
        from narrows.data.options import ReadOptions  # not above: options are listed without loading torch

        options = {option.name: getattr(self, option.name) for option in fields(ReadOptions)}
        return ReadOptions(**options | {"values": "any"} if self.error in COUNT_ERRORS else options)

    def checked(self) -> "TrainConfig":
        """Return these settings as plain Python values.

        Raises:
            NarrowsError: A setting cannot be used; the text names the setting, the rule and the value.
        """
        kinds = get_type_hints(TrainConfig)
        values = {f.name: _plain_value(f.name, getattr(self, f.name), kinds[f.name]) for f in fields(self)}
        limits = f"a number above 0 (from {SMALLEST:g} to {LARGEST:g})"
        for name in ("tau", "tau_per_value", "learning_rate"):
            _check(values, name, limits, lambda value: value == "auto" or SMALLEST <= value <= LARGEST)
        _check(values, "aim", "above 0 and at most 1", lambda value: 0 < value <= 1)
        _check(values, "confidence", "from 0.5 to 0.999999 (0.95 for 95%)", lambda value: 0.5 <= value <= 0.999999)
        _check(values, "explained", "between 0 and 1 (0.95 for 95%)", lambda value: 0 < value < 1)
        for name in COUNTS:
            _check(values, name, "at least 1", lambda value: value == "auto" or value >= 1)
            _check(values, name, f"at most {MOST:,}", lambda value: value == "auto" or value <= MOST)
        _check(values, "threads", f"at most {MOST_THREADS:,}", lambda value: value <= MOST_THREADS)
        every = "a number of batches, or a time such as 30s, 5m or 1h"
        _check(values, "checkpoint_every", every, lambda value: _is_interval(value))
        for name in ("seed", "split_seed"):
            _check(values, name, "between 0 and 2^63", lambda value: 0 <= value < 2**63)
        _check_combination(values)
        return TrainConfig(**values)


_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(s|m|h)")


def seconds_of(time: str) -> float:
    """Return the seconds of a time such as 30s, 5m or 1.5h."""
    found = _TIME.fullmatch(time)
    assert found is not None
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def _is_interval(value: int | str) -> bool:
    if isinstance(value, int):
        return 1 <= value <= MOST
    return _TIME.fullmatch(value) is not None and seconds_of(value) >= 1


def _check(values: dict[str, Any], name: str, rule: str, holds: Callable[[Any], bool]) -> None:
    value = values[name]
    if value is not None and not holds(value):
        shown = f"{value:g}" if isinstance(value, float) else brief(value)
        raise NarrowsError(f"{setting(name)} must be {rule}; it is {shown}")


def _check_combination(values: dict[str, Any]) -> None:
    """Raise if two promises are given, or a setting that means nothing to the recipe."""
    given = [name for name in PROMISES if values[name] is not None]
    if len(given) > 1:
        raise NarrowsError(f"give only one of {', '.join(map(setting, given))}: each of them sets tau")
    if values["explained"] is not None and values["error"] not in ("squared", *COUNT_ERRORS):
        raise NarrowsError(
            f"{setting('explained')} is about squared errors and counts; give {setting('tau')} with "
            f"{setting('error', values['error'])}"
        )
    recipe = RECIPES[values["recipe"]]
    for name in recipe.unused:
        if values[name] != getattr(TrainConfig, name):
            users = " or ".join(other for other, traits in RECIPES.items() if name not in traits.unused)
            raise NarrowsError(
                f"{setting(name, values[name])} has no effect with {setting('recipe', values['recipe'])}, only with "
                f"{setting('recipe', users)}"
            )
    if values["constraint"] == "plain" and not recipe.learns_multiplier:
        raise NarrowsError(
            f"{setting('constraint', 'plain')} cannot be used with {setting('recipe', values['recipe'])}, whose "
            f"constraint is always relative"
        )


def _plain_value(name: str, value: Any, kind: Any) -> Any:
    """Return the value as an int, float, bool or str of the setting's type; numpy's numbers count as numbers."""
    if name in ("image_size", "cache_size") and type(value) is int:
        return str(value)  # a number in a .toml file
    allowed = [choice for option in get_args(kind) or [kind] for choice in get_args(option) or [option]]
    if (type(None) in allowed and value is None) or (isinstance(value, str) and value in allowed):
        return value
    rules: dict[Any, tuple[Any, str]] = {
        bool: (bool, "true or false"),
        int: (Integral, "a whole number"),
        float: (Real, "a number"),
        str: (str, "text"),
    }
    kind = str if isinstance(value, str) and str in allowed else next((one for one in allowed if one in rules), None)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and int in allowed and str in allowed:
        return int(value)  # as the command line and TOML may have it
    if kind is None:
        raise NarrowsError(f"{setting(name)} must be one of {', '.join(allowed)}; it is {brief(value)}")
    abstract, rule = rules[kind]
    if not isinstance(value, abstract) or (isinstance(value, bool) and kind is not bool):
        raise NarrowsError(f"{setting(name)} must be {rule}; it is {brief(value)}")
    try:
        return kind(value)
    except OverflowError:  # a whole number with hundreds of digits
        raise NarrowsError(f"{setting(name)} must be {rule} below 1e308; it is {brief(value)}") from None


def check_known(settings: Mapping[str, Any], source: str) -> None:
    """Raise if there is no setting of one of these names; `source` says where they come from."""
    known = [f.name for f in fields(TrainConfig)]
    for name in settings:
        if name not in known:
            hint = did_you_mean(name, known) or "; the settings are those of `narrows train`"
            raise NarrowsError(f"{source} has an unknown setting {brief(name)}{hint}")


def config_from_dict(settings: dict[str, Any], source: str) -> TrainConfig:
    """Build a config from stored settings.

    Arguments:
        settings: Values by name; a missing setting keeps its default.
        source: Where they come from, for error messages.

    Raises:
        NarrowsError: A setting is unknown or cannot be used.
    """
    check_known(settings, source)
    try:
        return TrainConfig(**settings).checked()
    except NarrowsError as error:
        raise NarrowsError(f"{source}: {error.marked}") from None


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the settings as config.json stores them."""
    return dataclasses.asdict(config)
