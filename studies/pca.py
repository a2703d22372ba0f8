"""Compared with PCA: how many dimensions for the same share of the variance, on rows that trained neither?

python studies/pca.py                      scikit-learn's digits, breast cancer and wine, five seeds each

Three quarters of the rows are for training (the estimator uses a fifth of those to validate and to test), and a quarter
is held out for both. `NarrowVAE(explained=0.9)` finds its size; PCA, fitted to the same rows, gets as many components
as it needs to explain as much of the held-out rows. The columns of the two tables are standardised first. The rows are
written to studies/results/pca.csv.
"""

import time
from collections.abc import Callable

import numpy as np
from common import Row, Table
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory

SETS: dict[str, Callable[[], np.ndarray]] = {
    "digits": lambda: load_digits().data,
    "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
    "wine": lambda: StandardScaler().fit_transform(load_wine().data),
}
EXPLAINED = 0.9
SEEDS = range(5)


def explained_by_pca(train: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return the share of the held-out rows' variance that 1, 2, ... components explain."""
    pca = PCA().fit(train)
    codes = pca.transform(held_out)
    total = ((held_out - pca.mean_) ** 2).sum()
    return np.cumsum((codes**2).sum(0)) / total


def compare(name: str, seed: int) -> Row:
    """Fit both on one split of the rows, and return the row of the table."""
    train, held_out = train_test_split(SETS[name](), random_state=seed)
    started = time.time()
    ours = NarrowVAE(explained=EXPLAINED, random_state=seed, device="cpu").fit(train)
    score, curve = ours.score(held_out), explained_by_pca(train, held_out)
    enough, usual = np.flatnonzero(curve >= score), PCA(EXPLAINED).fit(train).n_components_
    return {
        "rows": len(train),
        "columns": train.shape[1],
        "dims": ours.n_components_,
        "explained": f"{score:.4f}",
        "met": ours.met_,
        "pca_as_good": int(enough[0]) + 1 if len(enough) else "",
        "pca_0.9": usual,
        "pca_explained": f"{curve[usual - 1]:.4f}",
        "batches": ours.result_.steps,
        "seconds": f"{time.time() - started:.0f}",
    }


if __name__ == "__main__":
    keep_memory()
    table = Table("pca")
    for chosen in SETS:
        for number in SEEDS:
            table.run(lambda name=chosen, seed=number: compare(name, seed), set=chosen, seed=number)  # type: ignore[misc]
