"""One run against an oracle: when is a size known, and when would the same network, started at that size, get there?

python studies/oracle.py mnist FOLDER      9 dimensions (normal effort) and 8 (thorough), tau = 10, from n = 32
python studies/oracle.py dsprites          5 dimensions, tau = 20, from n = 10

The oracle is a plain VAE that has the right number of dimensions from the first batch, and everything else in common
with the narrowing run: network, optimiser, averaged weights, target and last phase. `known` is the batch at which the
error was within its target, `batches` those of the whole run to its certificate. The narrowing runs are those of
mnist_sizes.py, dsprites.py and thorough.py, which come first.
"""

import sys
from typing import Any

from common import Row, Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.data import load
from narrows.training.config import TrainConfig

NAMES = ("dims", "met", "upper", "known", "batches")


def narrowed(name: str, size: int, seed: int) -> Row:
    """Return the row of the narrowing run, with the batch at which the size was known."""
    table, key = {
        ("mnist", 9): ("mnist_sizes", {"n": "32"}),
        ("mnist", 8): ("thorough", {"data": "mnist", "tau": "10.0", "effort": "thorough"}),
        ("dsprites", 5): ("dsprites", {}),
    }[name, size]
    wanted = {**key, "seed": str(seed)}
    rows = [row for row in Table(table).rows if all(row[name] == value for name, value in wanted.items())]
    if not rows:
        sys.exit(f"studies/results/{table}.csv has no row for {wanted}; run studies/{table}.py first")
    row = rows[0]
    if "known" in row:
        row["known"] = dict(word.split("@") for word in row["known"].split()).get(str(size), "")
    else:
        row["known"] = row[f"to_{size}"]
    return row


def compare(name: str, size: int, seed: int, settings: dict[str, Any], data: Any) -> Row:
    """Train the oracle, and return both rows in one."""
    first = narrowed(name, size, seed)
    config = TrainConfig(n=size, recipe="plain", seed=seed, threads=1, device="cpu", **settings)
    oracle = run(config, data, (size,))
    oracle["known"] = oracle[f"to_{size}"]
    return {f"{who}_{name}": row[name] for who, row in (("run", first), ("oracle", oracle)) for name in NAMES}


def main() -> None:
    """Train the oracles whose rows are missing."""
    keep_memory()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name == "mnist":
        data, settings, sizes = read_mnist(sys.argv[2:]), {"tau": 10.0}, [9, 8]
    elif name == "dsprites":
        data, settings, sizes = load("dsprites", source="drawn"), {"tau": 20.0}, [5]
    else:
        sys.exit("usage: python studies/oracle.py mnist FOLDER | dsprites")
    table = Table(f"oracle_{name}")
    for size in sizes:
        for seed in range(3):
            table.run(
                lambda size=size, seed=seed: compare(name, size, seed, settings, data),  # type: ignore[misc]
                size=size,
                seed=seed,
            )


if __name__ == "__main__":
    main()
