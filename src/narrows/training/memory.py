"""Training that writes nothing: the same loop, with its rows and its model kept in memory."""

from dataclasses import replace
from pathlib import Path

import torch

from narrows.data import Data
from narrows.errors import NarrowsError
from narrows.model import VAE
from narrows.runs import DecisionRow, MetricRow, Result, RunFolder
from narrows.training.common_unit import result_times, row_times
from narrows.training.config import TrainConfig
from narrows.training.display import Display
from narrows.training.keeping import Kept
from narrows.training.loop import Trainer
from narrows.training.saving import describe
from narrows.training.setup import Build
from narrows.training.signals import StopRequest

LOG_EVERY = 50
"""Batches between rows of the curves."""


class MemoryTrainer(Trainer):
    """One run without a folder; Ctrl-C ends it at once, with nothing kept."""

    def __init__(
        self, config: TrainConfig, data: Data, display: Display, build: Build | None = None, square: float = 1.0
    ) -> None:
        super().__init__(config, data, display, build)
        self.square = square
        """What an error of 1 is in the user's unit, in which everything is returned."""
        self.folder = MemoryFolder()
        self.saved: VAE | None = None

    def fit(self, start: VAE | None = None) -> tuple[Result, VAE, list[MetricRow]]:
        """Train, from another model's weights if one with as many dimensions is given; return answer, model, rows."""
        if start is not None:
            try:
                for part in ("encoder", "decoder"):  # not the scaling: it is that of these data
                    getattr(self.model, part).load_state_dict(getattr(start, part).state_dict())
            except RuntimeError:
                raise NarrowsError("warm_start: the model there is has other networks; give the same ones") from None
            self.recipe.restart()
        result = self._run(StopRequest())
        assert self.saved is not None
        assert isinstance(self.folder, MemoryFolder)
        rows = [row_times(row, self.square) for row in self.folder.rows]
        return result_times(result, self.square), self.saved.cpu(), rows

    def _header(self) -> list[str]:
        """Say what is trained with tau in the user's unit."""
        assert self.config.tau is not None
        users = replace(self.config, tau=self.config.tau * self.square)
        weights = sum(p.numel() for p in self.model.parameters())
        return describe(users, self.data, self.splits, self.units, weights, str(self.accelerator.device))

    def _checkpoint(self) -> None:
        if not all(torch.isfinite(p).all() for p in self.narrowing.parameters()):
            raise self._broke_down()

    def _save(self, model: VAE, kept: Kept, met: bool) -> None:
        self.saved = model


class MemoryFolder(RunFolder):
    """What would be written is kept, or dropped."""

    def __init__(self) -> None:
        super().__init__(Path("memory"))
        self.rows: list[MetricRow] = []

    def append_row(self, row: MetricRow) -> None:
        """Keep the row."""
        self.rows.append(row)

    def append_costs(self, step: int, costs: list[float]) -> None:
        """The answer has the last ones."""

    def append_decision(self, row: DecisionRow) -> None:
        """The rows show what it did."""

    def write_result(self, result: Result) -> None:
        """It is returned."""


class Lines(Display):
    """A line now and then, with errors in the user's unit."""

    def __init__(self, square: float) -> None:
        super().__init__()
        self.square = square

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Print what is trained, on what."""
        print(*lines, sep="\n", flush=True)

    def row(self, row: MetricRow) -> None:
        """Print every tenth row."""
        if row.step % (10 * LOG_EVERY) == 0:
            print(f"batch {row.step:,}: error {row.error * self.square:.4g}, {row.open} dimensions open", flush=True)
