"""A set whose answer is known: points on a curved 3-dimensional manifold in R^50, ten dimensions to start with.

Each seed (of the data, the weights, the noise and the order of batches) must end with exactly 3 dimensions and tau, 4%
of the data's variance, met on the test split: five with the fast recipe, which ends by itself, one of them in another
unit, and one with the paper's.
"""

import pytest

from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.training.config import TrainConfig
from narrows.training.start import train

CASES = [("paper", 0, 1.0), *(("fast", seed, 1.0) for seed in range(4)), ("fast", 4, 1000.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "seed", "unit"), CASES)
def test_the_run_ends_with_the_true_number_of_dimensions(recipe, seed, unit, tmp_path):
    x = curved_manifold(20_000, d=3, ambient=50, seed=seed) * unit
    steps = 12_000 if recipe == "paper" else "auto"
    config = TrainConfig(explained=0.96, n=10, steps=steps, width=16, seed=seed, threads=1, device="cpu", recipe=recipe)
    outcome = train(config, tmp_path / "run", from_array(x, "any"))
    result, rows = outcome.result, outcome.folder.read_rows()
    assert result.dims == 3
    assert result.met
    assert result.heldout.high <= result.tau
    assert rows[0].open == 10, "it started with all gates open"
    assert rows[-1].open == 3, "the number is where the run ended, not a moment it passed through"
    if recipe == "fast":
        assert result.steps < 6_000
        assert all(abs(d.mean) < 0.25 and 0.75 < d.std < 1.25 for d in result.dimensions), "the prior fits the data"
