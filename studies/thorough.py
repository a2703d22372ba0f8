"""What patience finds: quick, normal and thorough effort on MNIST and dSprites, at bounds where waiting pays.

python studies/thorough.py mnist FOLDER      tau = 10, 17.07 and 30 from n = 32, three seeds
python studies/thorough.py dsprites          tau = 9.48 (the paper's) and 20 from n = 10, seed 0
python studies/thorough.py mnist FOLDER 10 thorough      only this tau and this effort

The runs stay in runs/thorough, with their curves.
"""

import sys
from pathlib import Path

from common import Row, Table, read_mnist, summary

from narrows._util.allocator import keep_memory
from narrows.data import Data, load
from narrows.recipes.registry import Effort
from narrows.training.config import TrainConfig
from narrows.training.start import train

TAUS = {"mnist": (10.0, 17.07, 30.0), "dsprites": (20.0, 9.48)}
SEEDS = {"mnist": (0, 1, 2), "dsprites": (0,)}
N = {"mnist": 32, "dsprites": 10}
EFFORTS: tuple[Effort, ...] = ("quick", "normal", "thorough")


def run(name: str, data: Data, tau: float, effort: Effort, seed: int) -> Row:
    """Train once; the row says when each of the last sizes was known to be enough."""
    folder = Path("runs/thorough") / f"{name}-{tau:g}-{effort}-{seed}"
    config = TrainConfig(tau=tau, n=N[name], effort=effort, seed=seed, threads=1, device="cpu")
    outcome = train(config, folder, data)
    row = summary(outcome.result, outcome.folder)
    known = {d.open: d.step for d in reversed(outcome.folder.read_decisions()) if d.action in ("close", "release")}
    row["known"] = " ".join(f"{size}@{step}" for size, step in sorted(known.items())[:4])
    return row


def main() -> None:
    """Train the runs whose rows are missing."""
    keep_memory()
    name, *rest = sys.argv[1:] or [""]
    if name not in TAUS:
        sys.exit("usage: python studies/thorough.py mnist FOLDER | dsprites [TAU EFFORT]")
    if name == "mnist":
        data, rest = read_mnist(rest), rest[1:]
    else:
        data = load("dsprites", source="drawn")
    taus = (float(rest[0]),) if rest else TAUS[name]
    efforts = tuple(effort for effort in EFFORTS if effort in rest[1:] or len(rest) < 2)
    table = Table("thorough")
    for seed in SEEDS[name]:
        for tau in taus:
            for effort in efforts:
                table.run(
                    lambda tau=tau, effort=effort, seed=seed: run(name, data, tau, effort, seed),  # type: ignore[misc]
                    data=name,
                    tau=tau,
                    effort=effort,
                    seed=seed,
                )


if __name__ == "__main__":
    main()
