"""How long the last phase must be for few rows: 1,200 batches at least, as for large sets, or 600.

python studies/few_rows.py                 digits, breast cancer, wine and a curved sheet, three seeds; three minutes

`NarrowVAE(explained=0.9)` is fitted with both. The sheet has 4 dimensions in 20, bent by tanh, with noise. `gap` is
the distance of the aggregate posterior from the prior, in nats, and `correlation` the largest between two codes.
The rows are written to studies/results/few_rows.csv.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from common import Row, Table
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory
from narrows.recipes import fast


def sheet() -> np.ndarray:
    """Return 800 points on a bent sheet of 4 dimensions in 20, with noise."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(800, 4))
    return np.tanh(z @ rng.normal(size=(4, 20))) @ rng.normal(size=(20, 20)) + 0.05 * rng.normal(size=(800, 20))


SETS: dict[str, Callable[[], np.ndarray]] = {
    "digits": lambda: load_digits().data,
    "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
    "wine": lambda: StandardScaler().fit_transform(load_wine().data),
    "sheet": sheet,
}
LENGTHS = (1_200, 600)


def measure(name: str, least_last: int, seed: int) -> Row:
    """Fit with this least length of the last phase, and return the row of the table."""
    x = SETS[name]()
    fast.FEW_LAST = least_last
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NarrowVAE(explained=0.9, random_state=seed, device="cpu").fit(x)
    seconds, result, codes = time.process_time() - started, model.result_, model.transform(x)
    off_diagonal = np.abs(np.corrcoef(codes.T) - np.eye(codes.shape[1])) if codes.shape[1] > 1 else np.zeros(1)
    return {
        "dims": result.dims,
        "met": result.met,
        "upper_share": f"{result.heldout.high / (model.tau_ or 1.0):.3f}",
        "score": f"{model.score(x):.3f}",
        "kl": f"{sum(dimension.kl for dimension in result.dimensions):.1f}",
        "gap": f"{sum(dimension.gap() for dimension in result.dimensions):.3f}",
        "correlation": f"{off_diagonal.max():.3f}",
        "batches": result.steps,
        "cpu_seconds": f"{seconds:.1f}",
    }


if __name__ == "__main__":
    keep_memory()
    torch.set_num_threads(1)
    table = Table("few_rows")
    for name in SETS:
        for seed in range(3):
            for least_last in LENGTHS:
                table.run(partial(measure, name, least_last, seed), set=name, seed=seed, least_last=least_last)
