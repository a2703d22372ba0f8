"""Counts from three batches: are the dimensions found, and do the codes say the batch?

python studies/batches.py                  2,000 x 100 counts, with the batch and without: 12 runs, about a minute

Log rates lie on a plane of d = 3 dimensions, and every column has a factor of its own in each batch, whose logarithm
varies as much as a column's own level. In the rows called "alike", the true coordinates have the same distribution in
every batch; in those called "shifted", the mean of the first one differs from batch to batch by 1.5 of its standard
deviations, so that batches differ in what they hold, too. `NarrowVAE(explained=0.95)` is fitted once with `batch` and
once without. A linear classifier then predicts the batch from the codes, and from the true coordinates (five-fold
cross-validation; chance is a third), and a linear fit predicts the true coordinates from the codes. Rows are written to
studies/results/batches.csv.
"""

import warnings
from functools import partial

import numpy as np
from common import Row, Table
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score

from narrows import NarrowVAE

ROWS, COLUMNS, D, BATCHES, TOTAL, SHIFT = 2_000, 100, 3, 3, 600.0, 1.5


def draw(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, batches and true coordinates."""
    rng = np.random.default_rng(seed)
    batch, z = rng.integers(0, BATCHES, ROWS), rng.normal(size=(ROWS, D))
    z[:, 0] += (SHIFT if kind == "shifted" else 0.0) * (batch - 1)
    level = rng.normal(size=COLUMNS) + z @ rng.normal(size=(D, COLUMNS)) / D**0.5
    share = np.exp(level + rng.normal(size=(BATCHES, COLUMNS))[batch])
    size = TOTAL * np.exp(0.3 * rng.normal(size=(ROWS, 1)))
    return rng.poisson(size * share / share.sum(1, keepdims=True)).astype(np.float64), batch, z


def measured(kind: str, seed: int, told: bool) -> Row:
    """Fit, and measure the codes."""
    x, batch, z = draw(kind, seed)
    given = batch if told else None
    model = NarrowVAE(8, error="poisson", explained=0.95, width=8, device="cpu", random_state=0).fit(x, batch=given)
    codes = model.transform(x, batch=given)
    classifier = LogisticRegression(max_iter=1_000)
    return {
        "dims": model.n_components_,
        "met": model.met_,
        "batch_from_codes": round(cross_val_score(classifier, codes, batch, cv=5).mean(), 3),
        "batch_from_truth": round(cross_val_score(classifier, z, batch, cv=5).mean(), 3),
        "truth_from_codes": round(LinearRegression().fit(codes, z).score(codes, z), 3),
        "score": round(model.score(x, batch=given), 3),
        "explainable": round(model.explainable_, 3),
        "steps": model.result_.steps,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    table = Table("batches")
    for kind in ("alike", "shifted"):
        for seed in range(3):
            for told in (True, False):
                table.run(partial(measured, kind, seed, told), rows=kind, seed=seed, told=told)
