"""Manifolds of known dimension: d = 2, 3, 5, 8 in R^50, five seeds, three units, 96% explained, n = 16.

python studies/known_answers.py      about ten minutes on one core
"""

from itertools import product

import numpy as np
from common import Table, run

from narrows._util.allocator import keep_memory
from narrows.data.synthetic import curved_manifold
from narrows.training.config import TrainConfig


def main() -> None:
    """Train the runs whose rows are missing, and count the right answers."""
    keep_memory()
    table = Table("known_answers")
    for d, unit, seed in product((2, 3, 5, 8), (1, 1000, 0.001), range(5)):
        config = TrainConfig(explained=0.96, n=16, seed=seed, threads=1, device="cpu", values="any")
        x = curved_manifold(20_000, d=d, ambient=50, seed=seed) * np.float32(unit)
        table.run(lambda config=config, x=x: run(config, x), d=d, unit=unit, seed=seed)  # type: ignore[misc]
    for true in ("2", "3", "5", "8"):
        rows = [row for row in table.rows if row["d"] == true]
        right = sum(row["dims"] == true and row["met"] == "True" for row in rows)
        print(f"d = {true}: {right} of {len(rows)} right, with tau met on held-out data")


if __name__ == "__main__":
    main()
