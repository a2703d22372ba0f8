"""MNIST, tau = 10: six seeds from n = 32, and three from n = 16, 64 and 128. Do the answers agree?

python studies/mnist_sizes.py FOLDER      fifteen runs of about two minutes on one core
"""

import sys
from itertools import product

from common import Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.training.config import TrainConfig


def main() -> None:
    """Train the runs whose rows are missing, and print how far the answers are apart."""
    keep_memory()
    data = read_mnist(sys.argv[1:])
    table = Table("mnist_sizes")
    for seed, n in [*product(range(3), (32, 16, 64, 128)), *product(range(3, 6), (32,))]:
        config = TrainConfig(tau=10.0, n=n, seed=seed, threads=1, device="cpu")
        table.run(lambda config=config: run(config, data, (13, 10, 9)), n=n, seed=seed)  # type: ignore[misc]
    dims = [int(row["dims"]) for row in table.rows]
    print(f"dimensions: {sorted(dims)}; at most {max(dims) - min(dims)} apart")


if __name__ == "__main__":
    main()
