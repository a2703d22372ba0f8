"""A run on real digits and one on a table, for all tests of this folder."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from commands import small
from narrows.cli import main

MNIST = Path(__file__).parents[1] / "data" / "named" / "mnist_samples"


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The first 120 digits of MNIST, 28 x 28, true pixels."""
    raw = [gzip.decompress((MNIST / f"{part}-images-idx3-ubyte.gz").read_bytes()) for part in ("train", "t10k")]
    path = tmp_path_factory.mktemp("digits") / "digits.npy"
    np.save(path, np.concatenate([np.frombuffer(r, np.uint8, offset=16).reshape(-1, 28, 28) for r in raw]))
    return path


@pytest.fixture(scope="session")
def run(digits):
    out = digits.parent / "run"
    assert main(["train", str(digits), "--tau", "40", "--steps", "60", "--out", str(out), *small(recipe="fast")]) == 0
    return out


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A table whose columns have units of their own, and a run on two of its columns."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "name", "income"])
        for h, i in zip(rng.normal(1.7, 0.1, 200), rng.normal(40_000, 9_000, 200), strict=True):
            writer.writerow([h, "x", i])
    settings = ["--columns", "height,income", "--explained", "0.5", "--steps", "60", *small(recipe="fast", n=2)]
    assert main(["train", str(folder / "t.csv"), "--out", str(folder / "run"), *settings]) == 0
    return folder
