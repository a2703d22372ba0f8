"""How long a notebook cell takes: `NarrowVAE(explained=0.9)` beside umap-learn's UMAP, on small sets, in one process.

python benchmarks/cell.py                  a minute; digits, then breast cancer (standardised)

The first fit of a process pays once: torch imports its compiler (about a second) and numba compiles UMAP. So digits,
which come first, cost both more than a second fit would. Run it while nothing else runs.
"""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler
from umap import UMAP

from narrows import NarrowVAE

SETS: dict[str, Callable[[], np.ndarray]] = {
    "digits": lambda: load_digits().data,
    "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
}
SEEDS = range(3)


def main() -> None:
    """Fit both to every set, print the seconds of each, and what NarrowVAE answers."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; umap-learn {version('umap-learn')}")
    print("| set | seed | UMAP, s | NarrowVAE, s | batches | ms per batch | dimensions | met |")
    print("|---|---|---|---|---|---|---|---|")
    warnings.simplefilter("ignore")
    for name, load in SETS.items():
        x = load()
        for seed in SEEDS:
            start = time.perf_counter()
            UMAP(random_state=None).fit(x)
            middle = time.perf_counter()
            model = NarrowVAE(explained=0.9, random_state=seed).fit(x)
            seconds, batches = time.perf_counter() - middle, model.result_.steps
            print(
                f"| {name} | {seed} | {middle - start:.1f} | {seconds:.1f} | {batches:,} | "
                f"{1000 * seconds / batches:.2f} | {model.n_components_} | {'yes' if model.met_ else 'no'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
