"""Small data on disk and a way to run the real command in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def small(**changes: object) -> list[str]:
    """Settings of a run that takes a second, with some of them changed."""
    settings = {
        "threads": 1,
        "device": "cpu",
        "recipe": "paper",
        "batch": 16,
        "n": 4,
        "width": 2,
        "log_every": 7,
        "eval_every": 20,
        "checkpoint_every": 40,
        **changes,
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


SMALL = small()


@pytest.fixture(scope="session")
def images(tmp_path_factory) -> Path:
    """300 images of 28x28 with a bright square: enough for a convolutional network to have something to learn."""
    rng = np.random.default_rng(0)
    x = np.zeros((300, 28, 28), np.uint8)
    for image, (row, column, size) in zip(x, rng.integers((2, 2, 4), (14, 14, 12), (300, 3)), strict=True):
        image[row : row + size, column : column + size] = 255
    path = tmp_path_factory.mktemp("data") / "squares.npy"
    np.save(path, x)
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "narrows", *map(str, arguments)]


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)
