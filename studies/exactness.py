"""What an exact certificate costs: the same runs with an approximate one, on MNIST and dSprites.

python studies/exactness.py mnist FOLDER      tau = 10 from n = 32, seeds 0 to 2
python studies/exactness.py dsprites          tau = 20 from n = 10, seeds 0 to 2

The runs with exact certificates are those of mnist_sizes.py and dsprites.py, which come first.
"""

import sys

from common import Row, Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.data import load
from narrows.training.config import TrainConfig

NAMES = ("dims", "met", "error", "upper", "batches")
EXACT = {"mnist": ("mnist_sizes", {"n": "32"}), "dsprites": ("dsprites", {})}


def exact_row(name: str, seed: int) -> Row:
    """Return the row of the run with an exact certificate."""
    table, key = EXACT[name]
    wanted = {**key, "seed": str(seed)}
    for row in Table(table).rows:
        if all(row[name] == value for name, value in wanted.items()):
            return row
    sys.exit(f"studies/results/{table}.csv has no row for {wanted}; run studies/{table}.py first")


def main() -> None:
    """Train the runs whose rows are missing."""
    keep_memory()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in EXACT:
        sys.exit("usage: python studies/exactness.py mnist FOLDER | dsprites")
    data = read_mnist(sys.argv[2:]) if name == "mnist" else load("dsprites", source="drawn")
    tau, n = (10.0, 32) if name == "mnist" else (20.0, 10)
    table = Table("exactness")
    for seed in range(3):
        config = TrainConfig(tau=tau, n=n, seed=seed, threads=1, device="cpu", certificate="approximate")
        exact = exact_row(name, seed)

        def both(config: TrainConfig = config, exact: Row = exact) -> Row:
            kinds = {"exact": exact, "approximate": run(config, data)}
            return {f"{kind}_{name}": row[name] for kind, row in kinds.items() for name in NAMES}

        table.run(both, data=name, seed=seed)


if __name__ == "__main__":
    main()
