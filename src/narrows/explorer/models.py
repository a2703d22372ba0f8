"""What the page asks of a model: a slider's range, a code's meaning, an input's code, the error without a dimension.

A slider goes from the 0.5th to the 99.5th percentile of a dimension's codes (posterior means) over the test inputs. A
dimension that is switched off is decoded as zero, as for its cost of removal; nothing is trained on. The error of many
test inputs counts as the promise does, with codes drawn; that of the input on the page decodes what the sliders say.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError
from narrows.explorer.inputs import Inputs, held_inputs, no_inputs
from narrows.fronts import FrontFolder
from narrows.model import standard_normal
from narrows.report import words
from narrows.report.evidence import assumed_ranges
from narrows.runs import Result, RunFolder
from narrows.using import ROWS, Trained, open_data, open_trained, promised_error

PERCENTILES = (0.5, 99.5)
CHECKED = 256
"""Test inputs whose mean error is measured when a dimension is switched on or off."""


class Explored:
    """One model with the inputs that go through it. Everything is measured when it is first asked for."""

    def __init__(self, trained: Trained, result: Result | None, inputs: Inputs) -> None:
        self.trained, self.result, self.inputs = trained, result, inputs
        self.error = promised_error(trained)
        self._means: dict[tuple[int, ...], float] = {}

    @property
    def n(self) -> int:
        """Latent dimensions."""
        return self.trained.model.n

    @property
    def tau(self) -> float | None:
        """The promise, if there is one."""
        tau = self.trained.about.get("tau")
        return None if tau is None else float(tau)

    @torch.inference_mode()
    def encode(self, x: Tensor) -> Tensor:
        """Return codes, (batch, n): the posterior's means."""
        return self.trained.model.encode(x).mean

    @torch.inference_mode()
    def decode(self, codes: Tensor, off: tuple[int, ...] = ()) -> Tensor:
        """Return what codes, (batch, n), stand for without the dimensions that are `off`."""
        codes = codes.clone()
        codes[:, list(off)] = 0
        return self.trained.model.decode(codes)

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each slider's lowest and highest value and where it starts, (n,) each."""
        if not len(self.inputs.held):
            return assumed_ranges(self.n, self.result)
        parts = [self.encode(self.inputs.held[i : i + ROWS]).numpy() for i in range(0, len(self.inputs.held), ROWS)]
        codes = np.concatenate(parts)
        low, high = np.percentile(codes, PERCENTILES, axis=0)
        return low, high, np.median(codes, axis=0)

    @cached_property
    def _drawn(self) -> Tensor:
        """Codes of the checked test inputs, drawn from their posteriors."""
        with torch.inference_mode():
            posterior = self.trained.model.encode(self._checked)
            return posterior.draw(standard_normal(posterior.mean, torch.Generator().manual_seed(0)))

    @property
    def _checked(self) -> Tensor:
        held = self.inputs.held
        return held[:: max(1, -(-len(held) // CHECKED))]

    @property
    def checked(self) -> int:
        """How many test inputs the mean error is about."""
        return len(self._checked)

    def mean_error(self, off: tuple[int, ...] = ()) -> float | None:
        """Return the mean error of some test inputs without the dimensions that are `off`; None without test inputs."""
        if not self.checked:
            return None
        off = tuple(sorted(set(off)))
        if off not in self._means:
            if len(self._means) >= 4_096:
                self._means.clear()
            self._means[off] = float(self.error(self._checked, self.decode(self._drawn, off)).double().mean())
        return self._means[off]


@dataclass
class Explorer:
    """The models of a run (one) or of a front (one a tau), opened when they are first looked at, and their inputs."""

    name: str
    """Of the data."""
    folders: list[Path]
    taus: list[float | None]
    inputs: Inputs
    _opened: dict[int, Explored]

    def model(self, number: object) -> Explored:
        """Return one of the models."""
        if type(number) is not int or not 0 <= number < len(self.folders):
            raise NarrowsError(f"there is no model {str(number)[:40]!r}; choose one of {len(self.folders)}")
        if number not in self._opened:
            trained = open_trained(self.folders[number])
            if trained.shape != self.inputs.shape:
                raise NarrowsError(f"{trained.path} takes inputs of another shape than the front's first model")
            self._opened[number] = Explored(trained, _result(self.folders[number]), self.inputs)
        return self._opened[number]


def open_explorer(path: Path, progress: Progress = silent) -> Explorer:
    """Open a run's folder, a front's, or a model file; without its data there are sliders and nothing to start from."""
    folders = _models(path)
    first = open_trained(folders[0])
    if first.config is None:
        name, why = path.name, "A model file alone does not say which inputs are test inputs; the run's folder does."
        inputs = no_inputs(first.shape, why)
    else:
        try:
            data = open_data(first, progress=progress)
            name, inputs = data.name, held_inputs(data, first.config.split_seed)
        except (NarrowsError, OSError) as error:
            name = Path(first.config.data).name
            inputs = no_inputs(first.shape, words.sentence(f"The test inputs could not be read: {error}"))
    opened = Explored(first, _result(folders[0]), inputs)
    explorer = Explorer(name, folders, [opened.tau], inputs, {0: opened})
    explorer.taus += [explorer.model(i).tau for i in range(1, len(folders))]
    return explorer


def _models(path: Path) -> list[Path]:
    """Return where the models are, tightest tau first."""
    front = FrontFolder(path)
    if not front.about.exists():
        return [path]
    levels = [front.level(tau) for tau in sorted(front.read_about()["taus"])]
    found = [level.path for level in levels if level.model.exists()]
    if not found:
        raise NarrowsError(f"{path} has no model yet; go on with `narrows resume {path}`")
    return found


def _result(path: Path) -> Result | None:
    return None if path.is_file() else RunFolder(path).read_result()
