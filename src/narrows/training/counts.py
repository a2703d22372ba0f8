"""Counts before training: the null model, the dispersions, and how much of the deviance could be explained.

A row's library size is its total l. The null model says that row i has the mean l_i p_j in column j, with the same
proportions p_j for all rows. What latent dimensions could explain of its deviance is only a part, because counts have
noise. The sum over rows of x (x - 1) does not contain that noise: its expectation is the sum of l (l - 1) p^2 (1 + v),
where v is the squared coefficient of variation of the rate. So v is known without any model, and with rates that vary
as a log-normal variable of that v, Poisson deviance falls from the null model to the true rates by

    sum over i, j of l_i p_j log(1 + v_j)

in expectation. This is the explainable deviance, per row on average. It is a cautious estimate: among the usual
distributions with that v the log-normal one has the heaviest tail, and the others leave more to explain.

Extra variation that columns do not share, the dispersion a of a negative binomial, is a part of the same v:
1 + v = (1 + v of the rates) (1 + a). It is estimated first, as what a low-rank fit to the rows leaves over, and then
fixed.

With batches, p is everywhere that of the row's own batch: what differs between batches is not for codes to explain.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from narrows.data import Examples
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments
from narrows.objective import count_values

ROWS = 512
MOST_ROWS, MOST_VALUES = 4_096, 1 << 24
"""Training rows, and their values, on which dispersions are estimated."""
MOST_FACTORS, PER_FACTOR = 16, 12
"""Factors of the low-rank fit, and rows and columns for each of them: with more, it would fit noise."""
PAIRS = 10.0
"""A column's own estimate counts as much as the one of all columns together if so many pairs of counts are expected."""
LARGEST_DISPERSION = 100.0
NODES, SMALLEST_RATIO = 24, 0.01


@dataclass(frozen=True, eq=False)
class CountMoments:
    """What is known about counts before training, from the training rows."""

    size: float
    """The median library size."""
    proportion: np.ndarray
    """Of each column, float64; above 0, because a column without counts is given half a count. With batches there is
    one row for each of them."""
    shift: np.ndarray
    """The mean of log(1 + x), for rows that are brought to the median size; with batches one row for each of them."""
    spread: float
    """Their standard deviation over all values."""
    dispersion: np.ndarray
    """Of each column, 0 for Poisson counts."""
    null: float
    """Deviance of a row, on average, if every row had the same proportions."""
    explainable: float
    """How much less it is, in expectation, with the true rates."""


def measure_counts(
    examples: Examples,
    index: np.ndarray,
    weights: np.ndarray | None = None,
    dispersed: bool = False,
    batches: int = 0,
) -> CountMoments:
    """Measure counts on some rows.

    Arguments:
        examples: Serves them.
        index: The rows.
        weights: Of all rows; None if they count the same.
        dispersed: Whether to estimate dispersions; for Poisson counts they are 0.
        batches: How many batches there are; as many last values of a row say which it is from.
    """
    weight = np.ones(len(index)) if weights is None else weights[index]
    total = np.empty(len(index))
    columns = examples.shape[0] - batches
    by_batch = (batches, columns) if batches else (columns,)
    sums, pairs, chances = np.zeros(by_batch), np.zeros(columns), np.zeros(by_batch[:-1])
    for here, x, batch in _in_batches(examples, index, batches):
        w = torch.from_numpy(weight[here])
        total[here] = x.sum(1).numpy()
        sums += _sum(w, x, batch)
        pairs += (w @ (x * (x - 1))).numpy()
        chances += _sum(w, torch.from_numpy(np.maximum(total[here] * (total[here] - 1), 0)), batch)
    size = float(np.median(total[weight > 0]))
    p = overall = _filled(sums)
    expected = np.square(p) * float(weight @ np.maximum(total * (total - 1), 0))
    if batches:
        overall = _filled(sums.sum(0))
        p = (sums + 0.5 * columns * overall) / (sums.sum(1, keepdims=True) + 0.5 * columns)  # also where rows are few
        expected = chances @ np.square(p)
    varied = _shrunk(pairs, expected)  # 1 + v of each column
    logs, nulls = _Logs(by_batch), 0.0
    proportion = torch.from_numpy(p)
    dispersion = _dispersions(examples, index, total, p, batches) if dispersed else np.zeros(columns)
    deviance = count_values(torch.from_numpy(dispersion) if dispersed else None)
    for here, x, batch in _in_batches(examples, index, batches):
        row = torch.from_numpy(total[here])[:, None]
        logs.add(torch.log1p(x * (size / row)), batch, weight[here] if weights is not None else None)
        expectation = row * (proportion if batch is None else batch @ proportion)
        nulls += float(weight[here] @ deviance(x, expectation).sum(1).numpy())
    return CountMoments(
        size=size,
        proportion=p,
        shift=logs.mean,
        spread=logs.spread,
        dispersion=dispersion,
        null=nulls / float(weight.sum()),
        explainable=max(0.0, _explainable(total, weight, overall, varied / (1 + dispersion), dispersion)),
    )


def _in_batches(
    examples: Examples, index: np.ndarray, batches: int
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
    """Yield some rows at a time in double precision: their place, their counts, and their batches as 0 and 1."""
    for here, x in in_batches(examples, index, ROWS):
        x = x.double()
        yield (here, x[:, :-batches], x[:, -batches:]) if batches else (here, x, None)


def _sum(weight: torch.Tensor, x: torch.Tensor, batch: torch.Tensor | None) -> np.ndarray:
    """Return the weighted sum over rows; with batches, of the rows of each."""
    total: np.ndarray = (weight @ x if batch is None else (batch * weight[:, None]).T @ x).numpy()
    return total


def _filled(sums: np.ndarray) -> np.ndarray:
    """Return sums as proportions."""
    filled = np.where(sums > 0, sums, 0.5)
    proportions: np.ndarray = filled / filled.sum()
    return proportions


class _Logs:
    """Mean and common standard deviation of what the encoder reads; with batches, about the mean of each."""

    def __init__(self, by_batch: tuple[int, ...]) -> None:
        self.all, self.of_batches = Moments(), [Moments() for _ in by_batch[:-1] for _ in range(by_batch[0])]

    def add(self, x: torch.Tensor, batch: torch.Tensor | None, weights: np.ndarray | None) -> None:
        """Take some rows in."""
        self.all.add(x, weights)
        for number, moments in enumerate(self.of_batches):
            assert batch is not None
            rows = batch[:, number] > 0
            if rows.any():
                moments.add(x[rows], None if weights is None else weights[rows.numpy()])

    @property
    def mean(self) -> np.ndarray:
        """Of each column; a batch without rows has the mean of all."""
        means = [moments.mean if moments.count else self.all.mean for moments in self.of_batches]
        return np.array(means) if means else self.all.mean

    @property
    def spread(self) -> float:
        """Over all columns and rows."""
        if not self.of_batches:
            return float(np.sqrt(self.all.variance.mean()))
        parts = [(moments.count, moments.variance.mean()) for moments in self.of_batches if moments.count]
        counts, variances = (np.array(part) for part in zip(*parts, strict=True))
        return float(np.sqrt(counts @ variances / counts.sum()))


def _shrunk(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return found / expected, drawn to the ratio of all columns where little is expected."""
    together = found.sum() / max(expected.sum(), 1e-300)
    return (found + PAIRS * together) / (expected + PAIRS)


def _explainable(
    total: np.ndarray, weight: np.ndarray, p: np.ndarray, shared: np.ndarray, dispersion: np.ndarray
) -> float:
    """Return how far the deviance of a row falls, in expectation, from proportions p to rates with 1 + v = `shared`."""
    log = np.log(np.maximum(shared, SMALLEST_RATIO if not dispersion.any() else 1.0))
    if not dispersion.any():
        return float(weight @ total / weight.sum() * (p @ log))
    sizes = np.quantile(total[weight > 0], (np.arange(8) + 0.5) / 8)
    nodes, share = np.polynomial.hermite_e.hermegauss(NODES)
    fall, a = 0.0, np.maximum(dispersion, 1e-6)
    for node, part in zip(nodes, share / share.sum(), strict=True):
        rate = np.exp(np.sqrt(log) * node - log / 2)  # log-normal, with mean 1
        for m in (size * p for size in sizes):
            ratio = np.log1p(a * m * rate) - np.log1p(a * m)
            fall += part / len(sizes) * float(2 * (m * rate * np.log(rate) - (m * rate + 1 / a) * ratio).sum())
    return float(fall)


def _dispersions(
    examples: Examples, index: np.ndarray, total: np.ndarray, p: np.ndarray, batches: int = 0
) -> np.ndarray:
    """Return the dispersion of each column: the variance beyond Poisson noise that a low-rank fit leaves over.

    The fit is that of the largest singular vectors of the Pearson residuals, those above what noise alone has.
    """
    most = max(64, min(MOST_ROWS, MOST_VALUES // p.shape[-1]))
    some = np.unique(np.linspace(0, len(index) - 1, min(most, len(index))).astype(np.int64))
    x = torch.cat([part for _, part in in_batches(examples, index[some], ROWS)]).float()
    share = p
    if batches:
        x, share = x[:, :-batches], x[:, -batches:].numpy() @ p
    mean = torch.from_numpy(total[some, None] * share).float()
    rows, columns = x.shape
    residual = ((x - mean) / mean.sqrt()).clamp(-(rows**0.5), rows**0.5)
    kept = min(MOST_FACTORS, rows // PER_FACTOR, columns // PER_FACTOR)
    fit = torch.zeros_like(x)
    if kept:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            left, value, right = torch.svd_lowrank(residual, q=min(kept + 8, rows, columns), niter=3)
        noise = float(residual.square().mean()) ** 0.5
        kept = min(kept, int((value > 1.05 * noise * (rows**0.5 + columns**0.5)).sum()))
        fit = (left[:, :kept] * value[:kept]) @ right[:, :kept].T
    fitted = (mean + mean.sqrt() * fit).clamp(min=0)
    free = (1 - kept / rows) * (1 - kept / columns)
    extra = ((x - fitted).square().double().sum(0) / free - x.double().sum(0)).numpy()
    squares = fitted.square().double().sum(0).numpy()
    together = max(extra.sum() / max(squares.sum(), 1e-300), 0.0)
    return np.clip((extra + PAIRS * together) / (squares + PAIRS), 0, LARGEST_DISPERSION)
