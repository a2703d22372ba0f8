"""Counts whose number of dimensions is known: is it found, how fast, and in how much memory?

python studies/counts.py                   20,000 x 2,000 counts, 95% zeros: 13 runs, each in a process of its own

Log rates lie on a plane of d dimensions (or on a curved sheet), and every row has a library size of its own. Counts are
Poisson, or negative-binomial with a dispersion of 0.5. `NarrowVAE(explained=0.9)` is fitted to the sparse matrix.
Beside it: our own reimplementation of SCVI at its defaults (plain_scvi.py), but for 50 epochs instead of 400. Both are
then measured on 2,000 rows that neither has seen, with the mean of the codes: the Poisson deviance of the counts, and
that of the true rates against the reconstructed ones, which has no noise in it. Rows are written to
studies/results/counts.csv.
"""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from common import Row, Table
from plain_scvi import train_scvi

from narrows import NarrowVAE
from narrows._util.allocator import keep_memory
from narrows.data.sparse import SparseRows
from narrows.objective import count_values

ROWS, COLUMNS, TEST, ZEROS, DISPERSION, EPOCHS = 20_000, 2_000, 2_000, 0.95, 0.5, 50
Decode = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Returns the codes of counts and the proportions that they are decoded to."""


class Cells:
    """A source of counts with d dimensions, drawn some rows at a time."""

    def __init__(self, kind: str, d: int, seed: int) -> None:
        self.kind, self.d = kind, d
        self.rng = np.random.default_rng(seed)
        self.base = self.rng.normal(size=COLUMNS)
        self.out = self.rng.normal(size=(d, COLUMNS)) / d**0.5
        self.bend = self.rng.normal(size=(d, COLUMNS))
        self.total = 1.0
        low, high = 1.0, 1e5
        share, size, _ = self._rates(500)
        for _ in range(40):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if np.exp(-middle * size * share).mean() > ZEROS else (low, middle)
        self.total = low

    def _rates(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = self.rng.normal(size=(rows, self.d))
        flat = z @ self.out
        if self.kind == "curved":
            flat = flat + 0.5 * np.sin(z @ self.bend / self.d**0.5)
        share = np.exp(flat + self.base)
        return share / share.sum(1, keepdims=True), np.exp(0.3 * self.rng.normal(size=(rows, 1))), z

    def draw(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return counts, true proportions and true codes."""
        share, size, z = self._rates(rows)
        mean = self.total * size * share
        rate = mean if self.kind != "dispersed" else mean * self.rng.gamma(1 / DISPERSION, DISPERSION, mean.shape)
        return self.rng.poisson(rate).astype(np.int32), share, z

    def matrix(self) -> scipy.sparse.csr_array:
        """Return the rows to fit to; the whole is never in memory."""
        return scipy.sparse.vstack(
            [scipy.sparse.csr_array(self.draw(500)[0]) for _ in range(ROWS // 500)], format="csr"
        )


def measured(cells: Cells, null: np.ndarray, decode: Decode) -> Row:
    """Measure a model on rows that it has not seen."""
    x, share, z = cells.draw(TEST)
    x = x.astype(np.float64)
    codes, found = decode(x)
    error = count_values()

    def deviance(counts: np.ndarray, against: np.ndarray) -> float:
        return float(error(*map(torch.from_numpy, (counts, against))).sum(1).mean())

    rates = share * x.sum(1, keepdims=True)
    flat = np.broadcast_to(null, x.shape).copy()
    centred, design = z - z.mean(0), np.column_stack([np.ones(len(z)), codes])
    left = centred - design @ np.linalg.lstsq(design, centred, rcond=None)[0]
    return {
        "null": f"{deviance(x, flat):.2f}",
        "truth": f"{deviance(x, share):.2f}",
        "deviance": f"{deviance(x, found):.2f}",
        "rates_null": f"{deviance(rates, flat):.2f}",
        "rates": f"{deviance(rates, found):.2f}",
        "codes": f"{1 - np.square(left).sum() / np.square(centred).sum():.3f}",
    }


def measure(model: str, kind: str, d: int, seed: int) -> Row:
    """Draw the cells, fit, and return the row of the table."""
    cells = Cells(kind, d, seed)
    x = cells.matrix()
    null = np.asarray(x.sum(0), np.float64) / x.sum()
    zeros, started = 1 - x.nnz / (ROWS * COLUMNS), time.time()
    row: Row = {"zeros": f"{zeros:.4f}"}
    if model == "SCVI (ours)":
        plain = train_scvi(SparseRows(x, "x"), EPOCHS, seed)

        def decode(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with torch.no_grad():
                mean, variance = plain.encode(torch.from_numpy(counts).float())
                kl = 0.5 * (mean.square() + variance - 1 - variance.log()).mean(0)
                row["used"] = int((kl > 0.1).sum())
                return mean.double().numpy(), plain.rates(mean).double().numpy()

        row |= {"dims": 10, "used": 0, "met": "", "batches": EPOCHS * (ROWS // 128), "ceiling": ""}
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            narrow = NarrowVAE(error=model, explained=0.9, random_state=seed, device="cpu").fit(x)  # type: ignore[arg-type]

        def decode(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            codes = narrow.transform(counts)
            return codes, narrow.inverse_transform(codes)

        result = narrow.result_
        row |= {"dims": result.dims, "used": result.dims, "met": result.met, "batches": result.steps}
        row["ceiling"] = f"{narrow.explainable_:.4f}"
    row["seconds"] = f"{time.time() - started:.0f}"
    status = Path("/proc/self/status").read_text()
    row["peak_mb"] = int(status.split("VmHWM:")[1].split()[0]) // 1024
    found = measured(cells, null, decode)  # which also sets row["used"]
    return {**row, **found}


RUNS = [
    *(("poisson", "linear", d, 0) for d in (3, 5, 8)),
    ("SCVI (ours)", "linear", 5, 0),
    *(("negative-binomial", "dispersed", d, 0) for d in (3, 5, 8)),
    *(("poisson", "curved", d, 0) for d in (3, 5, 8)),
    *(("poisson", "linear", d, 1) for d in (3, 5, 8)),
]

if __name__ == "__main__":
    if len(sys.argv) == 5:
        keep_memory()
        model, kind, d, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        table = Table("counts")
        table.run(lambda: measure(model, kind, d, seed), model=model, kind=kind, d=d, seed=seed)
    else:
        for one in RUNS:
            subprocess.run([sys.executable, __file__, *map(str, one)], check=True)
