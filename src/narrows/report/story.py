"""All that a run's page is made from: the folder, what it says, and what its model does to test inputs."""

from dataclasses import dataclass
from pathlib import Path

from narrows.data import Data
from narrows.errors import NarrowsError
from narrows.report import words
from narrows.report.evidence import HeldOutEvidence, look_at
from narrows.runs import MetricRow, Result, RunFolder
from narrows.training.config import TrainConfig, config_from_dict
from narrows.using import Trained, check_unchanged, open_data, open_trained


@dataclass(frozen=True)
class Story:
    """One run, read."""

    folder: RunFolder
    config: TrainConfig
    rows: list[MetricRow]
    result: Result | None
    trained: Trained | None
    data: Data | None
    seen: HeldOutEvidence | None
    missing: str
    """Why there is nothing about held-out inputs, if there is not."""

    @property
    def name(self) -> str:
        """Of the data."""
        return Path(self.config.data).name if self.data is None else self.data.name

    @property
    def tau(self) -> float | None:
        """The promise; None for a plain VAE without one."""
        return self.config.tau if self.result is None else self.result.tau

    @property
    def n(self) -> int:
        """Latent dimensions at the start."""
        if self.result is not None:
            return self.result.n
        return self.config.n if isinstance(self.config.n, int) else 0


def read_story(folder: RunFolder, data: Data | None = None) -> Story:
    """Read the folder, and let the model show what it does to test inputs."""
    config = config_from_dict(folder.read_config(), str(folder.config))
    rows, result = folder.read_rows(), folder.read_result()
    if not folder.model.exists():
        return Story(folder, config, rows, result, None, None, None, "No model has been saved yet.")
    trained = open_trained(folder.path)
    try:
        if data is None:
            data = open_data(trained)
        else:
            check_unchanged(trained, data)
        seen = look_at(trained, data, config.split_seed)
    except (NarrowsError, OSError) as error:
        missing = words.sentence(f"The test inputs could not be read: {error}")
        return Story(folder, config, rows, result, trained, None, None, missing)
    return Story(folder, config, rows, result, trained, data, seen, "")
