"""Rows that belong together: what a certificate says about new subjects, without groups and with them.

python studies/groups.py                   about five minutes on two cores

There are 240 subjects with 8 rows each. A subject is a point of 30 independent numbers, so that nothing but knowing
the subject helps to compress its rows; the 8 rows are near-copies of it. `NarrowVAE(explained=0.6)` is fitted three
times per seed: to the rows as if they were independent, to the rows with their groups, and to one row per subject. The
truth is the error on rows of 2,000 new subjects. A certificate is false if it says that tau is kept (met) and the true
error is above tau. The rows are written to studies/results/groups.csv.
"""

import warnings
from functools import partial

import numpy as np
import torch
from common import Row, Table

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory
from narrows.objective import squared_error

SUBJECTS, ROWS, COLUMNS, NEW = 240, 8, 30, 2_000
NOISE = 0.1
EXPLAINED = 0.6
WAYS = ("without groups", "with groups", "one row per subject")


def draw(subjects: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of that many subjects, those of one subject beside each other."""
    centres = rng.normal(size=(subjects, COLUMNS))
    return np.repeat(centres, rows, axis=0) + NOISE * rng.normal(size=(subjects * rows, COLUMNS))


def measure(way: str, seed: int) -> Row:
    """Fit in one of the three ways, and return what was claimed beside what is true."""
    rng = np.random.default_rng(seed)
    x, new = draw(SUBJECTS, ROWS, rng), draw(NEW, 1, rng)
    groups = np.repeat(np.arange(SUBJECTS), ROWS) if way == "with groups" else None
    x = x[::ROWS] if way == "one row per subject" else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NarrowVAE(explained=EXPLAINED, random_state=seed, device="cpu").fit(x, groups=groups)
    held, tau = model.result_.heldout, model.tau_ or 0.0
    with torch.no_grad():
        examples, drawn = torch.from_numpy(new), torch.Generator().manual_seed(seed)
        true = float(squared_error(examples, model.model_.double().reconstruct(examples, drawn)).mean())
    return {
        "dims": model.n_components_,
        "units": held.count,
        "tau": f"{tau:.4g}",
        "error": f"{held.error:.4g}",
        "upper": f"{held.high:.4g}",
        "met": model.met_,
        "true": f"{true:.4g}",
        "false": bool(model.met_ and true > tau),
        "batches": model.result_.steps,
    }


if __name__ == "__main__":
    keep_memory()
    table = Table("groups")
    for seed in range(3):
        for way in WAYS:
            table.run(partial(measure, way, seed), way=way, seed=seed)
