"""One run against an oracle: when is a size known, and when would the same network, started at that size, get there?

python studies/oracle.py mnist FOLDER      9 dimensions (normal effort) and 8 (thorough), tau = 10, from n = 32
python studies/oracle.py dsprites          5 dimensions, tau = 20, from n = 10

The oracle is a plain VAE that has the right number of dimensions from the first batch, and everything else in common
with the narrowing run: network, optimiser, averaged weights, target and last phase. `known` is the batch at which the
error was within its target, `batches` those of the whole run to its certificate.
"""

import sys
from typing import Any

from common import Row, Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.data import load
from narrows.training.config import TrainConfig


def compare(settings: dict[str, Any], size: int, data: Any) -> Row:
    """Train both, and return their row."""
    narrowed = run(TrainConfig(threads=1, device="cpu", **settings), data, (size,))
    plain = {**settings, "n": size, "recipe": "plain"}
    plain.pop("effort")
    oracle = run(TrainConfig(threads=1, device="cpu", **plain), data, (size,))
    names = ("dims", "met", "upper", f"to_{size}", "batches")
    return {
        f"{who}_{name.split('_')[0]}": row[name]
        for who, row in (("run", narrowed), ("oracle", oracle))
        for name in names
    }


def main() -> None:
    """Train the pairs whose rows are missing."""
    keep_memory()
    if sys.argv[1:2] == ["mnist"]:
        data, settings, sizes = read_mnist(sys.argv[2:]), {"tau": 10.0, "n": 32}, {9: "normal", 8: "thorough"}
    elif sys.argv[1:2] == ["dsprites"]:
        data, settings, sizes = load("dsprites", source="drawn"), {"tau": 20.0, "n": 10}, {5: "normal"}
    else:
        sys.exit("usage: python studies/oracle.py mnist FOLDER | dsprites")
    table = Table(f"oracle_{sys.argv[1]}")
    for size, effort in sizes.items():
        for seed in range(3):
            chosen = {**settings, "effort": effort, "seed": seed}
            table.run(lambda chosen=chosen, size=size: compare(chosen, size, data), size=size, seed=seed)  # type: ignore[misc]


if __name__ == "__main__":
    main()
