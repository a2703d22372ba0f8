"""What a run's folder holds, read once for its pages, its figures and its terminal view. Loads no torch."""

from dataclasses import dataclass, replace
from pathlib import Path

from narrows._util.text import printable
from narrows.recipes.registry import RECIPES, RecipeTraits
from narrows.runs.folder import RunFolder
from narrows.runs.records import DecisionRow, MetricRow, Result
from narrows.training.config import TrainConfig, config_from_dict


@dataclass(frozen=True)
class RunContents:
    """One run's settings and records."""

    folder: RunFolder | None
    """Its folder; None for an estimator, which has none."""
    config: TrainConfig
    rows: list[MetricRow]
    decisions: list[DecisionRow]
    result: Result | None = None
    """None while the run has not ended."""
    first_costs: list[float | None] | None = None
    """The first line of costs.csv; read from the folder when it is needed, unless given."""
    call: str = ""
    """The call that made an estimator, in Python."""

    @property
    def files(self) -> RunFolder:
        """The run's folder, which is there."""
        assert self.folder is not None
        return self.folder

    @property
    def source(self) -> str:
        """The folder, or what else the run is."""
        return "NarrowVAE" if self.folder is None else str(self.folder.path)

    @property
    def name(self) -> str:
        """The name of the data."""
        return printable(Path(self.config.data).name)

    @property
    def recipe(self) -> RecipeTraits:
        """What the run's recipe does."""
        return RECIPES[self.config.recipe]

    @property
    def tau(self) -> float | None:
        """The promise; None for a plain VAE without one."""
        return self.config.tau if self.result is None else self.result.tau

    @property
    def n(self) -> int:
        """Latent dimensions at the start; 0 as long as they are unknown."""
        if self.result is not None:
            return self.result.n
        return self.config.n if isinstance(self.config.n, int) else 0


def read_run(folder: RunFolder) -> RunContents:
    """Read a run's folder, ended or not."""
    config = config_from_dict(folder.read_config(), str(folder.config))
    run = RunContents(folder, config, folder.read_rows(), [], folder.read_result())
    return replace(run, decisions=folder.read_decisions(run.n or None))
