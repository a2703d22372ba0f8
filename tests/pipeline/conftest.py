"""Small data on disk, a browser, and a way to run the real command in its own process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, or whatever of its kind is there."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser tests: none of {', '.join(BROWSERS)} is on the PATH; `make browser` may install one")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "narrows", *map(str, arguments)]


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)
