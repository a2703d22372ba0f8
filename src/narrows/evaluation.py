"""What `narrows evaluate` found, and its file in the run's folder, evaluation.json."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError
from narrows.files import write_atomic
from narrows.runs import HeldOut, RunFolder

ACTIVE = 0.01
"""Variance of the posterior's mean from which a dimension counts as active."""


@dataclass(frozen=True)
class Unit:
    """One latent dimension on the test split."""

    kept: int
    """Which of the dimensions at the start it is."""
    cost: float
    """Cost of removal, on up to 2,000 inputs."""
    kl: float
    """In nats."""
    variance: float
    """Of the posterior's mean, over the data."""

    @property
    def active(self) -> bool:
        """Whether it says anything."""
        return self.variance > ACTIVE


@dataclass(frozen=True)
class Measured:
    """One model on the test split."""

    run: str
    dims: int
    tau: float | None
    error: str
    """Which error: squared, absolute or cross-entropy."""
    heldout: HeldOut
    units: list[Unit]
    reconstructions: float
    """Fréchet distance of reconstructions of the test inputs."""
    samples: dict[str, float]
    """Fréchet distance of samples, for each sampler."""

    @property
    def active(self) -> int:
        """Active units."""
        return sum(unit.active for unit in self.units)


@dataclass(frozen=True)
class Evaluation:
    """A model, beside another one if there is one, on the same test inputs."""

    data: str
    test: int
    """Inputs of the test split."""
    count: int
    """Samples drawn from each sampler."""
    real_count: int
    """Training examples in the floor: as many as samples, or all."""
    components: int
    """Of the mixture."""
    codes: int
    """Training examples that gaussian and mixture are fitted to."""
    seed: int
    """Of samples, mixture and classifier."""
    width: int
    """Features of an example."""
    features: str
    """What they are."""
    accuracy: dict[str, float]
    """Of the classifier, for each label, on the validation split; empty where there is none."""
    real: float
    """Fréchet distance of training examples: the floor."""
    run: Measured
    against: Measured | None

    def to_json(self) -> str:
        """Return the text of evaluation.json."""
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Evaluation":
        """Read evaluation.json again."""
        content = json.loads(text)
        for key in ("run", "against"):
            content[key] = None if content[key] is None else _measured(content[key])
        return cls(**content)


def write_evaluation(run: Path | str, evaluation: Evaluation) -> Path:
    """Write the run's evaluation.json, whole or not at all."""
    path = RunFolder(run).evaluation
    try:
        write_atomic(path, evaluation.to_json())
    except OSError as error:
        raise NarrowsError(f"cannot write {path}: {error.strerror}; make the folder writable") from error
    return path


def read_evaluation(run: Path | str) -> Evaluation:
    """Read the run's evaluation.json."""
    path = RunFolder(run).evaluation
    try:
        return Evaluation.from_json(path.read_text())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NarrowsError(f"cannot read {path}; make it with `narrows evaluate {run}`") from error


def _measured(content: dict[str, Any]) -> Measured:
    units = [Unit(**unit) for unit in content["units"]]
    return Measured(**{**content, "heldout": HeldOut(**content["heldout"]), "units": units})
