"""Missing values: dimensions, and how well removed values are filled in, beside scikit-learn's imputers.

python studies/missing.py                  digits and breast cancer, 0, 10, 30 and 50% removed; about half an hour

Values are removed at random. `NarrowVAE(explained=0.9, missing="mask")` is fitted to what is left, and so are the
imputers, all to all rows; columns without variance are left out, and those of breast cancer are standardised. Errors
are mean squares over the removed values, as shares of what filling in each column's mean costs. The rows are written to
studies/results/missing.csv.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import Row, Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.preprocessing import StandardScaler

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory

SHARES = (0.0, 0.1, 0.3, 0.5)
SETS: dict[str, Callable[[], np.ndarray]] = {
    "digits": lambda: load_digits().data,
    "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
}
IMPUTERS: dict[str, Callable[[], Any]] = {"iterative": lambda: IterativeImputer(random_state=0), "knn": KNNImputer}


def measure(name: str, share: float, seed: int) -> Row:
    """Remove values, fit everything, and return the row of the table."""
    whole = SETS[name]()
    whole = whole[:, whole.std(0) > 0]
    gone = np.random.default_rng(seed).random(whole.shape) < share
    x = np.where(gone, np.nan, whole)
    started = time.time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NarrowVAE(explained=0.9, missing="mask", random_state=seed, device="cpu").fit(x)
        seconds = time.time() - started
        row: Row = {
            "dims": model.n_components_,
            "met": model.met_,
            "tau": f"{model.tau_:.4g}",
            "upper": f"{model.result_.heldout.high:.4g}",
            "batches": model.result_.steps,
            "seconds": f"{seconds:.0f}",
        }
        kept = NarrowVAE(explained=0.9, random_state=seed, device="cpu").fit(x) if share == 0 else None
        row["same"] = "" if kept is None else bool(np.array_equal(kept.transform(x), model.transform(x)))
        guess = np.broadcast_to(np.nanmean(x, 0), x.shape)
        found = {"narrows": model.impute(x) if share else whole}
        found |= {other: make().fit_transform(x) for other, make in IMPUTERS.items()} if share else {}
    of_mean = np.mean(np.square(guess - whole)[gone]) if share else 0.0
    row["mean"] = f"{of_mean:.4g}" if share else ""
    for other in ("narrows", *IMPUTERS):
        row[other] = f"{np.mean(np.square(found[other] - whole)[gone]) / of_mean:.3f}" if share else ""
    return row


if __name__ == "__main__":
    keep_memory()
    table = Table("missing")
    for seed in range(3):
        for name in SETS:
            for share in SHARES:
                table.run(partial(measure, name, share, seed), set=name, share=share, seed=seed)
