"""A run that has begun: its folder and its settings, and nothing else."""

import pytest

from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig, to_dict


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.checkpoints.mkdir(parents=True)
    made.write_config(to_dict(TrainConfig(tau=3.0, n=4, data="some.npy")))
    return made
