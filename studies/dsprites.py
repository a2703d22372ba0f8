"""dSprites (drawn), n = 10, tau = 20: how soon are 6 and 5 dimensions known to be enough, and is tau kept?

python studies/dsprites.py      three runs of about three minutes on one core
"""

from common import Table, run

from narrows._util.allocator import keep_memory
from narrows.data import load
from narrows.training.config import TrainConfig


def main() -> None:
    """Train the runs whose rows are missing."""
    keep_memory()
    data = load("dsprites", source="drawn")
    table = Table("dsprites")
    for seed in range(3):
        config = TrainConfig(tau=20.0, n=10, seed=seed, threads=1, device="cpu")
        table.run(lambda config=config: run(config, data, (6, 5)), seed=seed)  # type: ignore[misc]


if __name__ == "__main__":
    main()
