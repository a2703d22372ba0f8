"""What the page needs from a model: slider ranges, codes of inputs, decodings of codes, errors without a dimension.

A slider goes from the 0.5th to the 99.5th percentile of a dimension's codes (posterior means) over the test inputs. A
dimension that is switched off is decoded as zero, as for its cost of removal. The mean error over test inputs is
measured with codes drawn from the posterior, as for the promise; the error of one input is that of the sliders' code.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent
from narrows._util.text import printable
from narrows.explorer.inputs import Inputs, held_inputs
from narrows.inference.inspect import assumed_ranges
from narrows.inference.trained import ROWS, Trained, open_data, open_trained
from narrows.model.vae import standard_normal
from narrows.report import text
from narrows.runs.folder import RunFolder, resuming
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result

PERCENTILES = (0.5, 99.5)
CHECKED = 256
"""Test inputs for the mean error, which is measured again when a dimension is switched on or off."""


class Explored:
    """One model with the inputs that go through it. Everything is measured when it is first needed."""

    def __init__(self, trained: Trained, result: Result | None, inputs: Inputs) -> None:
        self.trained, self.result, self.inputs = trained, result, inputs
        self._mean_error = lru_cache(maxsize=4_096)(self._measure)

    @property
    def n(self) -> int:
        """The number of latent dimensions."""
        return self.trained.model.n

    @torch.inference_mode()
    def encode(self, x: Tensor) -> Tensor:
        """Return codes, (batch, n), the posterior's means."""
        return self.trained.model.encode(x).mean

    @torch.inference_mode()
    def decode(self, codes: Tensor, off: tuple[int, ...] = ()) -> Tensor:
        """Decode codes, (batch, n), with the dimensions in `off` set to zero."""
        codes = codes.clone()
        codes[:, list(off)] = 0
        return self.trained.model.decode(codes)

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each slider's lowest, highest and initial value, (n,) each."""
        if not len(self.inputs.held):
            return assumed_ranges(self.n, self.result)
        codes = torch.cat([self.encode(part) for part in torch.split(self.inputs.held, ROWS)]).numpy()
        low, high = np.percentile(codes, PERCENTILES, axis=0)
        return low, high, np.median(codes, axis=0)

    @cached_property
    def _drawn(self) -> Tensor:
        """Codes of the checked test inputs, drawn from their posteriors."""
        with torch.inference_mode():
            posterior = self.trained.model.encode(self.checked)
            return posterior.draw(standard_normal(posterior.mean, torch.Generator().manual_seed(0)))

    @property
    def checked(self) -> Tensor:
        """The test inputs in the mean error."""
        held = self.inputs.held
        return held[:: max(1, -(-len(held) // CHECKED))]

    def mean_error(self, off: tuple[int, ...] = ()) -> float | None:
        """Return the mean error of test inputs with the dimensions in `off` set to zero; None without test inputs."""
        if not len(self.checked):
            return None
        return self._mean_error(tuple(sorted(set(off))))

    def _measure(self, off: tuple[int, ...]) -> float:
        return float(self.trained.error(self.checked, self.decode(self._drawn, off)).double().mean())


@dataclass
class Explorer:
    """A run's model or a front's models (one per tau), and their inputs."""

    name: str
    """The name of the data."""
    models: list[Explored]
    inputs: Inputs

    def model(self, number: object) -> Explored:
        """Return one of the models."""
        if type(number) is not int or not 0 <= number < len(self.models):
            raise NarrowsError(f"unknown model {str(number)[:40]!r}; choose one of {len(self.models)}")
        return self.models[number]


def open_explorer(path: Path, progress: Progress = silent, trust_data: bool = False) -> Explorer:
    """Open a run's folder, a front's folder, or a model file; without its data there are sliders but no inputs."""
    opened = [open_trained(one, trust_data) for one in _models(path)]
    first = opened[0]
    for trained in opened:
        if trained.shape != first.shape:
            raise NarrowsError(
                f"{trained.path} takes inputs of another shape than the front's first model; retrain the front"
            )
    name, inputs = printable(path.name), Inputs(torch.empty(0, *first.shape))
    if first.config is None:
        inputs.missing = "A model file does not say which inputs are test inputs; the run's folder does."
    else:
        try:
            data = open_data(first, progress=progress)
            name, inputs = data.name, held_inputs(data, first.config.split_seed, first)
        except (NarrowsError, OSError) as error:
            name = printable(Path(first.config.data).name)
            inputs.missing = text.unread(error)
    results = [None if one.config is None else RunFolder(one.path.parent).read_result() for one in opened]
    return Explorer(name, [Explored(*pair, inputs) for pair in zip(opened, results, strict=True)], inputs)


def _models(path: Path) -> list[Path]:
    """Return the folders of the models, smallest tau first."""
    front = FrontFolder(path)
    if not front.about.exists():
        return [path]
    found = [level.path for level in front.levels() if level.model.exists()]
    if not found:
        raise NarrowsError(f"{path} has no model yet; continue it with `{resuming(path)}`")
    return found
