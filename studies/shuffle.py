"""How good is the two-level shuffle of a stream? The mix of its batches, and what it does to an answer.

python studies/shuffle.py FOLDER      five short runs; FOLDER has MNIST's four .gz files

1. MNIST's 60,000 training digits in 60 shards, sorted by class (the worst case) or at random. The distance of a batch
   of 64 is the total variation between its classes and those of the set, averaged over an epoch; a full shuffle has
   some too, because 64 digits are few. Excess is what a stream has more.
2. A curved manifold of 4 dimensions in 30, 20,000 points in 20 shards, sorted by their first principal component or at
   random: the answer from one file and from streams with windows of 1, 3 and 10 shards.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.data import load
from narrows.data.streams.windows import WindowedRows
from narrows.data.synthetic import curved_manifold
from narrows.training.config import TrainConfig

BATCH, SHARDS = 64, 60
POINTS, PARTS, KNOWN = 20_000, 20, 4


def batch_distance(labels: np.ndarray, order: np.ndarray) -> float:
    """Return the mean total-variation distance between the classes of a batch and those of the set."""
    batches = labels[order[: len(order) // BATCH * BATCH]].reshape(-1, BATCH)
    mixes = np.stack([(batches == kind).mean(axis=1) for kind in range(10)], axis=1)
    whole = np.bincount(labels, minlength=10) / len(labels)
    return float(np.abs(mixes - whole).sum(axis=1).mean() / 2)


def stream_order(count: int, shards: int, window: int, seed: int) -> np.ndarray:
    """Return the order of one epoch over `shards` equal shards, with `window` of them in a window."""
    each = count // shards
    offsets, counts = np.arange(shards + 1) * each, [each] * shards
    rows = WindowedRows(offsets, counts, [1] * shards, window, lambda _: np.arange(each), lambda _: None)
    return rows.epoch(seed, 0)[0 : len(rows)]


def mixes(labels: np.ndarray) -> None:
    """Measure the mix of batches for windows of 1 to all shards."""
    table = Table("shuffle_mix")
    rng = np.random.default_rng(0)
    full = np.mean([batch_distance(labels, rng.permutation(len(labels))) for _ in range(5)])
    for shards, stored in (("sorted", np.sort(labels)), ("random", rng.permutation(labels))):
        for window in (1, 2, 5, 10, 20, 30, 60):

            def measure(stored: np.ndarray = stored, window: int = window) -> dict[str, Any]:
                found = np.mean(
                    [batch_distance(stored, stream_order(len(stored), SHARDS, window, s)) for s in range(5)]
                )
                return {"distance": f"{found:.3f}", "full": f"{full:.3f}", "excess": f"{found - full:.3f}"}

            table.run(measure, shards=shards, window=window)


def answers(folder: Path) -> None:
    """Train on one file and on streams of the same points."""
    x = curved_manifold(POINTS, KNOWN, 30)
    centred = x - x.mean(axis=0)
    first = centred @ np.linalg.svd(centred[:2000], full_matrices=False)[2][0]
    config = TrainConfig(explained=0.97, n=12, effort="quick", threads=1, device="cpu")
    table = Table("shuffle")
    table.run(lambda: run(config, load(_one(folder, x))), shards="one file", window=PARTS)
    ways: list[tuple[str, Any, int]] = [("sorted", np.argsort(first), window) for window in (1, 3, 10)]
    for shards, order, window in [*ways, ("random", np.arange(POINTS), 1)]:
        parts = folder / f"{shards}-{window}"
        parts.mkdir()
        for i, rows in enumerate(np.split(order, PARTS)):
            np.save(parts / f"part-{i}.npy", x[rows])
        size = (parts / "part-0.npy").stat().st_size
        data = load(parts, stream=True, cache_size=2 * window * size)
        table.run(lambda data=data: run(config, data), shards=shards, window=window)  # type: ignore[misc]


def _one(folder: Path, x: np.ndarray) -> Path:
    np.save(folder / "one.npy", x)
    return folder / "one.npy"


def main() -> None:
    """Write both tables."""
    keep_memory()
    data = read_mnist(sys.argv[1:])
    assert data.factors is not None
    mixes(data.factors.of(np.arange(60_000))[:, 0])
    with tempfile.TemporaryDirectory() as name:
        os.environ["NARROWS_CACHE"] = name
        answers(Path(name))


if __name__ == "__main__":
    main()
