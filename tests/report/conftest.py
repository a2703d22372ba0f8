"""A run that has begun, with its settings and nothing else; and one on images and one on a table that have ended."""

import csv

import numpy as np
import pytest

from commands import small
from narrows.cli import main
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig, to_dict

FAST = small(recipe="fast", n=6, log_every=10)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.checkpoints.mkdir(parents=True)
    made.write_config(to_dict(TrainConfig(tau=3.0, n=4, data="some.npy")))
    return made


@pytest.fixture(scope="session")
def squares(images, tmp_path_factory):
    """A run on images, with the fast recipe, so that gates close."""
    out = tmp_path_factory.mktemp("report") / "squares"
    assert main(["train", str(images), "--tau", "60", "--steps", "150", "--out", str(out), *FAST]) == 0
    return out


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A run on a table whose columns have names that would do harm."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 4)) * [1, 20, 3000, 1] + [0, 5, 40_000, 1]
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "<script>alert(1)</script>", "income & more", '"quoted"'])
        writer.writerows(x.tolist())
    out = folder / "run"
    assert main(["train", str(folder / "t.csv"), "--explained", "0.8", "--steps", "100", "--out", str(out), *FAST]) == 0
    return out
