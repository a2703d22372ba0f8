"""A set whose answer is known: points on a curved 3-dimensional manifold in R^50, ten dimensions to start with.

Five seeds (of the data, the weights, the noise and the order of batches) must each end with exactly 3 dimensions and
tau, 4% of the data's variance, met on the test split. Two runs at a time, each on one thread.
"""

import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import pytest

from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.runs import MetricRow, Result
from narrows.training.config import TrainConfig
from narrows.training.entry import train

SEEDS = range(5)


def find(seed: int, out: Path) -> tuple[Result, list[MetricRow]]:
    x = curved_manifold(20_000, d=3, ambient=50, seed=seed)
    tau = 0.04 * float(x.var(axis=0).sum())
    config = TrainConfig(tau=tau, n=10, steps=12_000, width=16, seed=seed, threads=1, device="cpu")
    result, folder = train(config, out / str(seed), from_array(x))
    return result, folder.read_rows()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("manifold")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        yield [pool.submit(find, seed, out) for seed in SEEDS]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_run_ends_with_the_true_number_of_dimensions(seed, runs: list[Future]):
    result, rows = runs[seed].result()
    assert result.dims == 3
    assert result.met
    assert result.heldout.high <= result.tau
    assert rows[0].open == 10, "it started with all gates open"
    assert rows[-1].open == 3, "the number is where the run ended, not a moment it passed through"
