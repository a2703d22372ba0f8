"""What a run can be told, one line a setting; the command line is made from this class and every run stores it."""

import dataclasses
import difflib
import json
import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from narrows.errors import NarrowsError


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run; the defaults are the paper's first experiment."""

    data: str = "dsprites"
    """A named set (dsprites) or a file: my.npy, my.npz, my.npz::key."""
    tau: float | None = None
    """The promise: squared error, summed over one input's values, averaged over inputs. dSprites: 20."""
    n: int = 10
    """Latent dimensions to start with; training closes what it can."""
    steps: int = 50_000
    """Batches to train."""
    batch: int = 64
    """Examples a batch, over all processes."""
    recipe: Literal["paper"] = "paper"
    """How gates and multiplier are driven: the paper's Algorithm 1."""
    network: Literal["auto", "conv", "mlp"] = "auto"
    """auto: the paper's convolutions for 64x64 and 28x28 images, fully connected for everything else."""
    width: int = 32
    """Size of the networks: convolutions of 32, 32, 64, 64 channels; fully connected layers of 8 x width."""
    estimator: Literal["arm", "disarm"] = "arm"
    """Gradient of the gates: the paper's ARM, or DisARM, which has less variance."""
    gate_noise: Literal["example", "batch"] = "example"
    """Whether each example draws its own gates or the whole batch shares one draw."""
    constraint: Literal["auto", "plain", "relative"] = "auto"
    """plain: E - tau; relative: 20 (E - tau) / tau, for any unit; auto: plain for the paper's image sets."""
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
    log_every: int = 50
    """Batches between rows of metrics.csv."""
    eval_every: int = 500
    """Batches between looks at the validation split."""
    checkpoint_every: int = 1_000
    """Batches between checkpoints."""

    def check(self) -> None:
        """Refuse settings that cannot be run, naming the setting, the rule and the value."""
        if self.tau is not None and not (math.isfinite(self.tau) and self.tau > 0):
            raise NarrowsError(f"--tau must be a number above 0 (the largest error you accept); it is {self.tau:g}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise NarrowsError(f"--learning-rate must be a number above 0; it is {self.learning_rate:g}")
        for name in (
            "n",
            "steps",
            "batch",
            "width",
            "threads",
            "log_every",
            "eval_every",
            "checkpoint_every",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise NarrowsError(f"--{name.replace('_', '-')} must be at least 1; it is {value}")
        for name in ("seed", "split_seed"):
            if not 0 <= getattr(self, name) < 2**63:
                raise NarrowsError(
                    f"--{name.replace('_', '-')} must be between 0 and 2^63; it is {getattr(self, name)}"
                )


def config_from_dict(settings: dict[str, Any], source: str) -> TrainConfig:
    """Build a config from stored settings; what is missing keeps its default, what is unknown is refused."""
    check_names(settings, source)
    config = TrainConfig(**settings)
    config.check()
    return config


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
    check_names(content, str(path))
    return content


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the settings as config.json stores them."""
    return dataclasses.asdict(config)
