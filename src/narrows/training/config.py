"""What a run can be told, one line a setting; the command line is made from this class and every run stores it."""

import dataclasses
import difflib
import json
import tomllib
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from narrows.errors import NarrowsError

PROMISES = ("tau", "tau_per_value", "explained", "as_good_as")
"""The ways to say what error is accepted; a run has one."""
COUNTS = ("as_good_as", "n", "steps", "batch", "width", "threads", "log_every", "eval_every", "checkpoint_every")
SMALLEST, LARGEST = 1e-30, 1e30
"""Of tau: what single precision can work with."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run."""

    data: str = "dsprites"
    """A set (`narrows data list`), a file (.npy .npz .csv .parquet .h5 `FILE::key`), a folder of images, or hf:NAME."""
    source: Literal["auto", "drawn", "official"] = "auto"
    """dsprites and shapes3d: the official file or the drawn set; auto takes the file when it is cached."""
    image_size: str | None = None
    """Folders of images and hf: sets: scale and crop every image to this size, 64 or 48x64 (height x width)."""
    skip_broken: bool = False
    """Folders of images: leave out files that cannot be read."""
    columns: str | None = None
    """Tables: the columns to take, a,b,c; by default all."""
    scaling: Literal["auto", "none", "standard", "minmax"] = "auto"
    """Each column in its own standard deviation (standard) or range (minmax); auto: standard for tables."""
    tau: float | None = None
    """The promise: the error, summed over one input's values, averaged over inputs. dSprites: 20."""
    tau_per_value: float | None = None
    """The same promise for the average value: tau divided by the number of values of one input."""
    explained: float | None = None
    """The same promise as for PCA: the share of the data's variance to keep, 0.95 for a tau of 5% of it."""
    as_good_as: int | None = None
    """The same promise by example: first train a plain VAE with this many dimensions; tau is its held-out error."""
    error: Literal["squared", "cross-entropy", "absolute"] = "squared"
    """What is promised: squared differences, Bernoulli cross-entropy (values in [0, 1]), or absolute differences."""
    n: int | Literal["auto"] = "auto"
    """Latent dimensions to start with; auto: 32, or as many as values; dSprites 10, twice those of --as-good-as."""
    steps: int | Literal["auto"] = "auto"
    """Batches, with the fast recipe at most; auto: until no more dimensions can be closed, or the paper's 50,000."""
    batch: int = 64
    """Examples a batch, over all processes."""
    recipe: Literal["fast", "paper", "plain"] = "fast"
    """fast: gates close by their cost of removal; paper: Algorithm 1; plain: no gates, a VAE with n dimensions."""
    patience: float = 0.5
    """How long a closing may take to pay, as a share of the batches so far; more finds smaller models (not: paper)."""
    network: Literal["auto", "conv", "mlp"] = "auto"
    """auto: convolutions for images with sides of 16 to 256, fully connected for vectors and smaller images."""
    width: int = 32
    """Size of the networks: convolutions of 32, 32, 64, 64 channels; fully connected layers of 8 x width."""
    estimator: Literal["arm", "disarm"] = "arm"
    """Gradient of the gates (paper): ARM, or DisARM, which has less variance."""
    gate_noise: Literal["example", "batch"] = "example"
    """Whether each example draws its own gates (paper) or the whole batch shares one draw."""
    constraint: Literal["auto", "plain", "relative"] = "auto"
    """plain: E - tau; relative: (E - tau) / tau, for any unit; auto: plain for the paper's recipe on its five sets."""
    aim: float | None = None
    """Share of tau that training aims at, so that the promise holds on new data; fast measures what that takes."""
    values: Literal["unit", "any"] = "unit"
    """unit: values are in [0, 1] (or bytes); any: any finite values, standardised inside the model."""
    learning_rate: float = 1e-3
    """Adam's, for networks, gates and multiplier."""
    seed: int = 0
    """Of initial weights, noise and the order of batches."""
    split_seed: int = 0
    """Of the train / validation / test split; apart, so that runs of different seeds share a test split."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto takes an accelerator when there is one."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: mixed precision."""
    threads: int | None = None
    """CPU threads; by default torch decides."""
    track: str | None = None
    """Log to trackers too: tensorboard, wandb, mlflow, separated by commas; without an account, in the run's folder."""
    log_every: int = 50
    """Batches between rows of metrics.csv."""
    eval_every: int = 500
    """Batches between looks at the whole validation split, at least."""
    checkpoint_every: int = 1_000
    """Batches between checkpoints."""

    def checked(self) -> "TrainConfig":
        """Return these settings with plain Python values; refuse what cannot be run, naming setting, rule and value."""
        kinds = get_type_hints(TrainConfig)
        values = {f.name: _plain(f.name, getattr(self, f.name), kinds[f.name]) for f in fields(self)}
        for name in ("tau", "tau_per_value", "learning_rate", "patience"):
            if values[name] is not None and not SMALLEST <= values[name] <= LARGEST:
                raise NarrowsError(
                    f"{_option(name)} must be a number above 0 (from {SMALLEST:g} to {LARGEST:g}); "
                    f"it is {values[name]:g}"
                )
        if values["aim"] is not None and not 0 < values["aim"] <= 1:
            raise NarrowsError(f"--aim must be above 0 and at most 1; it is {values['aim']:g}")
        if values["explained"] is not None and not 0 < values["explained"] < 1:
            hint = (
                f"; for {values['explained']:g}% say {values['explained'] / 100:g}" if values["explained"] > 1 else ""
            )
            raise NarrowsError(f"--explained must be between 0 and 1; it is {values['explained']:g}{hint}")
        _check_promise(values)
        for name in COUNTS:
            if values[name] not in (None, "auto") and values[name] < 1:
                raise NarrowsError(f"{_option(name)} must be at least 1; it is {values[name]}")
        for name in ("seed", "split_seed"):
            if not 0 <= values[name] < 2**63:
                raise NarrowsError(f"{_option(name)} must be between 0 and 2^63; it is {values[name]}")
        return TrainConfig(**values)


def _check_promise(values: dict[str, Any]) -> None:
    """Refuse two promises, and settings that mean nothing for the recipe at hand."""
    given = [name for name in PROMISES if values[name] is not None]
    if len(given) > 1:
        raise NarrowsError(f"give one of {', '.join(map(_option, given))}: each of them sets tau")
    if values["explained"] is not None and values["error"] != "squared":
        raise NarrowsError(f"--explained is about squared errors; give --tau for --error {values['error']}")
    if values["recipe"] == "paper":
        if values["patience"] != TrainConfig.patience:
            raise NarrowsError("--patience is not for --recipe paper, which trains for as many batches as --steps says")
        return
    for name, default in (("estimator", "arm"), ("gate_noise", "example")):
        if values[name] != default:
            raise NarrowsError(f"{_option(name)} {values[name]} is for --recipe paper: here gates are not sampled")
    if values["constraint"] == "plain":
        raise NarrowsError("--constraint plain is for --recipe paper: here the constraint is always relative")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _plain(name: str, value: Any, kind: Any) -> Any:
    """Return the value as an int, float or str of the setting's kind; numpy's numbers count as numbers."""
    if name in ("n", "steps"):
        if value == "auto":
            return value
        kind = int
    allowed = get_args(kind)
    if type(None) in allowed:
        if value is None:
            return None
        kind = next(k for k in allowed if k is not type(None))
    elif allowed:
        if value not in allowed:
            raise NarrowsError(f"{_option(name)} must be one of {', '.join(allowed)}; it is {value!r}")
        return value
    if kind is bool:
        if not isinstance(value, bool):
            raise NarrowsError(f"{_option(name)} must be true or false; it is {value!r}")
        return value
    if name == "image_size" and type(value) is int:
        return str(value)  # a number in a .toml file
    rules: dict[Any, tuple[Any, str]] = {
        int: (Integral, "a whole number"),
        float: (Real, "a number"),
        str: (str, "text"),
    }
    abstract, words = rules[kind]
    if not isinstance(value, abstract) or isinstance(value, bool):
        raise NarrowsError(f"{_option(name)} must be {words}; it is {value!r}")
    return kind(value)


def config_from_dict(settings: dict[str, Any], source: str) -> TrainConfig:
    """Build a config from stored settings; what is missing keeps its default, what is unknown is refused."""
    check_names(settings, source)
    try:
        return TrainConfig(**settings).checked()
    except NarrowsError as error:
        raise NarrowsError(f"{source}: {error}") from None


def check_names(settings: dict[str, Any], source: str) -> None:
    """Refuse settings that do not exist, with the nearest name that does."""
    known = [f.name for f in fields(TrainConfig)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise NarrowsError(f"{source} has a setting that does not exist: {name!r}; {hint}")


def read_config_file(path: Path) -> dict[str, Any]:
    """Read settings from a .json or .toml file, such as another run's config.json."""
    try:
        text = path.read_text()
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise NarrowsError(f"cannot read the config file {path}: {error.strerror}") from error
    except ValueError as error:
        raise NarrowsError(f"the config file {path} is not valid {path.suffix[1:] or 'JSON'}: {error}") from error
    if not isinstance(content, dict):
        raise NarrowsError(f"the config file {path} must hold one object of settings")
    config_from_dict(content, str(path))
    return content


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the settings as config.json stores them."""
    return dataclasses.asdict(config)
