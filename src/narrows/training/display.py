"""What training tells whoever watches. How it looks is the report's matter; the default says nothing."""

from narrows.data import Data
from narrows.runs import HeldOut, MetricRow, RunFolder
from narrows.training.config import TrainConfig


class Display:
    """A silent listener; others override what they show."""

    data: Data | None = None
    """What was loaded last, for whoever wants to look at the trained model without loading it again."""
    folder: RunFolder | None = None
    """Where the run that begins, or began last, is kept; None as long as there is none."""

    def loading(self, what: str, done: int, total: int) -> None:
        """Data are being downloaded, drawn or decoded; total is 0 where it is not known."""

    def loaded(self) -> None:
        """Loading has ended, well or not."""

    def stage(self, line: str) -> None:
        """One of several trainings is about to begin."""

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Training starts, or goes on, after `step` batches; `lines` say with what."""

    def row(self, row: MetricRow) -> None:
        """Another row of metrics was written."""

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """A smaller (or better) model met tau on the validation split and was saved."""

    def end(self) -> None:
        """Training stopped, for whatever reason."""


class Several(Display):
    """Tells several displays the same."""

    def __init__(self, *displays: Display) -> None:
        self.displays = displays

    def loading(self, what: str, done: int, total: int) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.loading(what, done, total)

    def loaded(self) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.loaded()

    def stage(self, line: str) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.stage(line)

    def begin(self, config: TrainConfig, lines: list[str], step: int) -> None:
        """Tell all of them, and where the run is."""
        for display in self.displays:
            display.folder = self.folder
            display.begin(config, lines, step)

    def row(self, row: MetricRow) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.row(row)

    def kept(self, step: int, dims: int, validation: HeldOut) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.kept(step, dims, validation)

    def end(self) -> None:
        """Tell all of them."""
        for display in self.displays:
            display.end()
