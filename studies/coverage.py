"""How often is a certificate false, and what does it cost? Test splits drawn from populations whose mean is known.

python studies/coverage.py FOLDER      FOLDER: MNIST's four .gz files; about a quarter of an hour on one core

Populations: the errors of trained models on all inputs they were not trained on (MNIST, drawn dSprites) or on all rows
(three tables of scikit-learn), and made-up ones with long tails. Test splits are drawn with replacement, so that the
population's mean is the truth, 10,000 for each size. A certificate is false when its upper end is below the truth.
`width` is the median distance of the upper end from the truth, in per cent of the truth.

    normal         mean + 1.645 standard errors
    student        the same with Student's quantile
    approximate    narrows: Student's t, transformed by the skewness
    exact          narrows: a bet with a fixed stake, for errors with a limit
    learned        the same with a stake that learns from the inputs before (Waudby-Smith and Ramdas), for comparison
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import Row, Table, read_mnist
from pca import SETS
from scipy.special import stdtrit

from narrows._util.allocator import keep_memory
from narrows.data import Data, from_array, load, split
from narrows.model.storage import load_model
from narrows.objective import squared_error
from narrows.runs.certificate import BOLDEST, Terms, _stake
from narrows.training.config import TrainConfig
from narrows.training.start import train
from narrows.training.validation import per_input

SIZES = (13, 42, 134, 1_000, 10_000)
DRAWS, WIDTHS = 10_000, 200
CONFIDENCE = 0.95
GOAL = -math.log(1 - CONFIDENCE)
KEPT = Path("runs/coverage")


class Population:
    """Errors with a known mean, and their largest possible value if there is one."""

    def __init__(self, name: str, errors: np.ndarray, limit: float | None) -> None:
        self.name, self.errors, self.limit = name, errors, limit
        self.mean, self.spread = float(errors.mean()), float(errors.std())


def trained(name: str, data: Data, limit: float | None, all_rows: bool = False, **settings: float) -> Population:
    """Train once, and return the errors of the inputs that trained nothing, or of all."""
    path = KEPT / f"{name}.npy"
    if not path.exists():
        with tempfile.TemporaryDirectory() as temporary:
            config = TrainConfig(threads=1, device="cpu", **settings)  # type: ignore[arg-type]
            model = load_model(train(config, Path(temporary) / "run", data).folder.model)
        splits = split(data)
        index = np.arange(len(data.examples)) if all_rows else np.concatenate([splits.validation, splits.test])
        KEPT.mkdir(parents=True, exist_ok=True)
        np.save(path, per_input(model, data.examples, index, error=squared_error)[0])
    return Population(name, np.load(path), limit)


def made_up() -> Iterator[Population]:
    """Yield errors with long tails, and rare errors at the limit; the limit is 100 times the mean."""
    rng = np.random.default_rng(0)
    for ratio in (0.67, 1.0, 3.0):
        variance = math.log(1 + ratio**2)
        errors = rng.lognormal(-variance / 2, math.sqrt(variance), 200_000).clip(max=100.0)
        yield Population(f"log-normal, spread / mean {ratio:g}", errors, 100.0)
    yield Population("Pareto, exponent 2.1", (rng.pareto(2.1, 200_000) * 1.1).clip(max=100.0), 100.0)
    for chance in (0.01, 0.001):
        errors = np.where(rng.random(200_000) < chance, 100.0, rng.gamma(4.0, 0.25, 200_000))
        yield Population(f"{chance:g} at the limit", errors, 100.0)


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard error of each row."""
    return x.mean(1), x.std(1, ddof=1) / math.sqrt(x.shape[1])


def normal(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return the upper ends by the normal distribution."""
    mean, error = moments(x)
    return mean + 1.6449 * error


def student(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return the upper ends by Student's distribution."""
    mean, error = moments(x)
    return mean + stdtrit(x.shape[1] - 1, CONFIDENCE) * error


def approximate(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return the upper ends as narrows computes them for errors without a limit."""
    return np.array([Terms(CONFIDENCE).upper(row, spread) for row in x])


def exact(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return the upper ends as narrows computes them for errors with a limit."""
    return np.array([Terms(CONFIDENCE, population.limit).upper(row, spread) for row in x])


def exact_is_false(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return whether the upper end is below the truth, which one look at the bet against the truth shows."""
    assert population.limit is not None
    stake = min(_stake(CONFIDENCE, spread, x.shape[1]), BOLDEST / (population.limit - population.mean))
    return np.log1p(stake * (population.mean - x)).sum(1) > GOAL


def learned_wealth(x: np.ndarray, m: np.ndarray, limit: float) -> np.ndarray:
    """Return the logarithm of what a bet against m wins, with stakes from the inputs before, for each row."""
    count = np.arange(1, x.shape[1] + 1)
    mean = (0.5 * limit + np.cumsum(x, 1)) / (count + 1)
    variance = (0.25 * limit**2 + np.cumsum((x - mean) ** 2, 1)) / (count + 1)
    before = np.concatenate([np.full((len(x), 1), 0.25 * limit**2), variance[:, :-1]], 1)
    stake = np.minimum(np.sqrt(2 * GOAL / (x.shape[1] * before)), BOLDEST / (limit - m[:, None]))
    return np.log1p(stake * (m[:, None] - x)).sum(1)


def learned(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return the upper ends with stakes that learn."""
    assert population.limit is not None
    low, high = x.mean(1), np.full(len(x), population.limit)
    for _ in range(40):
        middle = 0.5 * (low + high)
        won = learned_wealth(x, middle, population.limit) >= GOAL
        low, high = np.where(won, low, middle), np.where(won, middle, high)
    return high


def learned_is_false(x: np.ndarray, population: Population, spread: float) -> np.ndarray:
    """Return whether the upper end is below the truth."""
    assert population.limit is not None
    return learned_wealth(x, np.full(len(x), population.mean), population.limit) > GOAL


Upper = Callable[[np.ndarray, Population, float], np.ndarray]
METHODS: dict[str, tuple[Upper, Upper | None]] = {
    "normal": (normal, None),
    "student": (student, None),
    "approximate": (approximate, None),
    "exact": (exact, exact_is_false),
    "learned": (learned, learned_is_false),
}


def cover(population: Population, size: int, method: str) -> Row:
    """Draw the test splits, and for each a validation split half as large, whose spread sets the stake."""
    upper, is_false = METHODS[method]
    rng = np.random.default_rng(size)
    false, part = 0, max(1, 2_000_000 // size)
    widths: list[float] = []
    for start in range(0, DRAWS, part):
        rows = min(part, DRAWS - start)
        x = rng.choice(population.errors, (rows, size))
        spread = float(rng.choice(population.errors, max(2, size // 2)).std(ddof=1))
        found = (is_false(x, population, spread) if is_false else upper(x, population, spread) < population.mean).sum()
        false += int(found)
        if len(widths) < WIDTHS:
            widths.extend(upper(x[: WIDTHS - len(widths)], population, spread) / population.mean - 1)
    return {"false": f"{false / DRAWS:.4f}", "width": f"{100 * float(np.median(widths)):.3g}"}


def main() -> None:
    """Measure the rows that are missing."""
    keep_memory()
    digits = read_mnist(sys.argv[1:])
    table = Table("coverage")
    populations = [
        trained("MNIST, tau 10", digits, 784.0, tau=10.0, n=32),
        trained("dSprites, tau 20", load("dsprites", source="drawn"), 4096.0, tau=20.0, n=10),
        *(trained(name, from_array(rows(), "any"), None, True, explained=0.9) for name, rows in SETS.items()),
        *made_up(),
    ]
    for population in populations:
        print(f"{population.name}: mean {population.mean:.4g}, spread / mean {population.spread / population.mean:.2g}")
        for size in SIZES:
            for method in METHODS if population.limit else ("normal", "student", "approximate"):
                table.run(
                    lambda one=population, size=size, method=method: cover(one, size, method),  # type: ignore[misc]
                    population=population.name,
                    size=size,
                    method=method,
                )


if __name__ == "__main__":
    main()
