"""Whole runs: how many end with a certificate, and how many certificates are false?

python studies/certificates.py                200 runs with approximate certificates, 100 with exact ones
python studies/certificates.py exact          only those

Each run has another manifold (d = 2 or 3), other points and another bound. Training brings the error as close to tau as
the certificate allows. The truth is the mean error on 100,000 points of the same manifold
that the run has never seen. A certificate is false if that is above tau. A run aims below tau, so that its certificate
is likely; `below` is stricter and says whether the upper end itself is below the truth. Exact certificates need values
with a limit: 64 values in [0, 1] are seen as an image.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from common import Row, Table

from narrows._util.allocator import keep_memory
from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.model.storage import load_model
from narrows.runs.certificate import Kind
from narrows.training.config import TrainConfig
from narrows.training.start import train
from narrows.training.validation import per_input

RUNS: dict[Kind, int] = {"approximate": 200, "exact": 100}
ROWS = {"approximate": 3_000, "exact": 100_000}
FRESH = 100_000
SMALL = 8


def run(kind: Kind, seed: int) -> Row:
    """Train once and compare the certificate with the truth."""
    rng = np.random.default_rng(seed)
    d, low, high = 2 + seed % 2, *((0.85, 0.97) if kind == "approximate" else (0.5, 0.7))
    x = curved_manifold(ROWS[kind] + FRESH, d=d, ambient=SMALL**2, seed=1_000 + seed)
    if kind == "exact":
        x = x.reshape(-1, SMALL, SMALL)
    mine = from_array(x[: ROWS[kind]], "unit" if kind == "exact" else "any")
    explained = round(rng.uniform(low, high), 4)
    config = TrainConfig(explained=explained, n=6, seed=seed, threads=1, device="cpu", certificate=kind)
    with tempfile.TemporaryDirectory() as temporary:
        outcome = train(config, Path(temporary) / "run", mine)
        model = load_model(outcome.folder.model)
    fresh = from_array(x[ROWS[kind] :], mine.values).examples
    truth = float(per_input(model, fresh, np.arange(FRESH))[0].mean())
    result = outcome.result
    assert result.tau is not None
    assert result.certificate is not None
    return {
        "d": d,
        "explained": explained,
        "dims": result.dims,
        "met": result.met,
        "error": f"{result.heldout.error / result.tau:.4f}",
        "upper": f"{result.heldout.high / result.tau:.4f}",
        "truth": f"{truth / result.tau:.4f}",
        "false": result.met and truth > result.tau,
        "below": result.heldout.high < truth,
        "refused": " ".join(str(one.dims) for one in result.certificate.refused),
        "batches": result.steps,
    }


def main() -> None:
    """Train the runs whose rows are missing, and count."""
    keep_memory()
    table = Table("certificates")
    for kind, runs in RUNS.items():
        if sys.argv[1:] not in ([], [kind]):
            continue
        for seed in range(runs):
            table.run(lambda kind=kind, seed=seed: run(kind, seed), kind=kind, seed=seed)  # type: ignore[misc]
        rows = [row for row in table.rows if row["kind"] == kind]
        met, false, below = (sum(row[name] == "True" for row in rows) for name in ("met", "false", "below"))
        print(f"{kind}: {met} of {len(rows)} runs end with a certificate, {false} of these are false")
        print(f"{kind}: in {below} of {len(rows)} runs the upper end is below the truth")


if __name__ == "__main__":
    main()
