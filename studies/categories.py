"""Tables of numbers and categories with a known number of dimensions: what is found, and how well levels come back.

python studies/categories.py               about five minutes on one core

A row is a point t, uniform in [-1, 1]^d, which nobody sees. Its 10 numbers are those of a curved manifold over t, and
each of its 10 categories is a linear form of t, cut into 3 levels that are equally frequent. So d dimensions say
everything, and each dimension that is left out is missing in all columns. `NarrowVAE(explained=0.95)` starts with 12
dimensions. Accuracy is that of the reconstructed levels on 1,000 new rows; `majority` is that of each column's most
frequent level, and `one_less` that of decoding without the dimension that costs least. The rows are written to
studies/results/categories.csv.
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
from common import Row, Table

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory

ROWS, NEW, NUMBERS, CATEGORIES = 3_000, 1_000, 10, 10
LEVELS = ("low", "middle", "high")


def draw(d: int, seed: int) -> pd.DataFrame:
    """Return rows of numbers and categories that d hidden numbers determine."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, (ROWS + NEW, d))
    # Orthonormal columns: each of the d numbers matters as much as the others.
    numbers, categories = (np.linalg.qr(rng.standard_normal((width, d)))[0] for width in (NUMBERS, CATEGORIES))
    bend, phase = rng.standard_normal((d, NUMBERS)), rng.uniform(0, 2 * np.pi, NUMBERS)
    x = t @ numbers.T * np.sqrt(NUMBERS / d) + 0.5 * np.sin(np.pi * (t @ bend) / np.sqrt(d) + phase)
    frame = pd.DataFrame({f"number {j + 1}": x[:, j] for j in range(NUMBERS)})
    for j, form in enumerate((t @ categories.T).T):
        frame[f"category {j + 1}"] = pd.qcut(form, len(LEVELS), labels=list(LEVELS))
    return frame


def accuracy(found: pd.DataFrame, true: pd.DataFrame) -> str:
    """Return the share of levels that are right, over all categories."""
    names = true.columns[NUMBERS:]
    return f"{np.mean([np.mean(found[name].astype(str) == true[name].astype(str)) for name in names]):.3f}"


def measure(d: int, seed: int) -> Row:
    """Fit one table and return what was found."""
    frame = draw(d, seed)
    x, new = frame.iloc[:ROWS], frame.iloc[ROWS:].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NarrowVAE(12, explained=0.95, random_state=seed, device="cpu").fit(x)
    held, codes = model.result_.heldout, model.transform(new)
    guess = pd.concat([x.mode().iloc[[0]]] * NEW, ignore_index=True)
    return {
        "dims": model.n_components_,
        "met": model.met_,
        "tau": f"{model.tau_:.4g}",
        "upper": f"{held.high:.4g}",
        "accuracy": accuracy(model.inverse_transform(codes), new),
        "majority": accuracy(guess, new),
        "one_less": accuracy(model.inverse_transform(codes[:, :-1]), new),
        "explained": f"{model.score(new):.3f}",
        "batches": model.result_.steps,
    }


if __name__ == "__main__":
    keep_memory()
    table = Table("categories")
    for d in (2, 3, 4):
        for seed in range(3):
            table.run(partial(measure, d, seed), d=d, seed=seed)
