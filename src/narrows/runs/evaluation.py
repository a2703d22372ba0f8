"""The record that `narrows.evaluate` returns, and its file in the run's folder, evaluation.json.

A `Unit` differs from the `Dimension` of result.json: it is measured on the whole test split and holds the variance of
the posterior mean, by which a dimension counts as active. Both files keep their keys.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from narrows._util.errors import NarrowsError
from narrows._util.files import parse_json, write_atomic
from narrows._util.records import read_record
from narrows.runs.folder import RunFolder
from narrows.runs.records import HeldOut, without_low

ACTIVE = 0.01
"""A dimension is active if its posterior mean has a larger variance than this."""


@dataclass(frozen=True)
class Unit:
    """One latent dimension on the test split."""

    kept: int
    """Which of the latent dimensions at the start it is."""
    cost: float
    """The cost of removal, measured on up to 2,000 inputs."""
    kl: float
    """The mean KL of its posterior from the prior, in nats."""
    variance: float
    """The variance of its posterior mean over the inputs."""

    @property
    def active(self) -> bool:
        """Whether the posterior mean varies by more than 0.01."""
        return self.variance > ACTIVE


@dataclass(frozen=True)
class Measured:
    """One model on the test split."""

    run: str
    """The run's folder."""
    dims: int
    """The number of latent dimensions."""
    tau: float | None
    """The bound on the error that the run promised; None for a plain VAE without one."""
    error: str
    """The kind of error: squared, absolute or cross-entropy."""
    heldout: HeldOut
    """The error with its upper end."""
    units: list[Unit]
    """The latent dimensions."""
    reconstructions: float
    """The Fréchet distance between reconstructions of the test inputs and the test inputs."""
    samples: dict[str, float]
    """The Fréchet distance between samples and the test inputs, for each sampler."""

    @property
    def active(self) -> int:
        """The number of active units."""
        return sum(unit.active for unit in self.units)


@dataclass(frozen=True)
class Evaluation:
    """One model, and optionally another one, on the same test inputs."""

    data: str
    """The name of the data."""
    test: int
    """The number of test inputs."""
    count: int
    """Samples drawn from each sampler."""
    real_count: int
    """Training examples from which `real` is measured: as many as samples, or all."""
    components: int
    """Components of the mixture."""
    codes: int
    """Training examples that gaussian and mixture are fitted to."""
    seed: int
    """The seed of samples, mixture and classifier."""
    width: int
    """The number of features per example."""
    features: str
    """What the features are."""
    accuracy: dict[str, float]
    """The classifier's accuracy on the validation split, for each label; empty where there is no classifier."""
    real: float
    """The Fréchet distance between training examples and the test inputs: the floor."""
    run: Measured
    """The model of the run."""
    against: Measured | None
    """The model that it is compared with."""

    def to_json(self) -> str:
        """Return the text of evaluation.json."""
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Evaluation":
        """Return the evaluation that `to_json` wrote as `text`; raise ValueError if it is damaged."""
        return read_record(cls, without_low(parse_json(text)))

    def write(self, run: str | os.PathLike[str]) -> Path:
        """Write evaluation.json into the run's folder and return its path.

        Arguments:
            run: The run's folder.

        Raises:
            NarrowsError: The folder cannot be written.
        """
        path = RunFolder(run).evaluation
        try:
            write_atomic(path, self.to_json())
        except OSError as error:
            raise NarrowsError(f"cannot write {path}: {error.strerror}; make the folder writable") from error
        return path
