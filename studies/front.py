"""The front on MNIST for the paper's ten values of tau: from one run, and from separate runs for five of them.

python studies/front.py FOLDER      about an hour on one core

The front's first level is the run at tau = 3 alone: it begins with nothing from elsewhere. So that run is not repeated.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from common import Table, read_mnist, run

from narrows._util.allocator import keep_memory
from narrows.report.figures.figure_files import draw_front
from narrows.training.config import TrainConfig
from narrows.training.front import train_front

TAUS = (3, 4, 6, 8, 10, 14, 18, 22, 26, 30)
SEPARATE = (6, 10, 18, 30)
CONFIG = TrainConfig(n=32, threads=1, device="cpu")


def main() -> None:
    """Train the runs whose rows are missing, and compare the sizes."""
    keep_memory()
    data = read_mnist(sys.argv[1:])
    one, separate = Table("front_one_run"), Table("front_separate")
    if len(one.rows) < len(TAUS):
        with tempfile.TemporaryDirectory() as out:
            front = train_front(CONFIG, TAUS, Path(out) / "front", data)
            results, folder = front.results, front.folder
            draw_front(folder, results)
            Path("docs/front-mnist.png").write_bytes(folder.figure.read_bytes())
            for result in results:
                held = result.heldout
                numbers = {"dims": result.dims, "met": result.met, "error": f"{held.error:.4g}"}
                batches = {"upper": f"{held.high:.4g}", "batches": result.steps, "seconds": round(result.seconds)}
                one.run(lambda row={**numbers, **batches}: row, tau=int(result.tau or 0))  # type: ignore[misc]
    for tau in SEPARATE:
        separate.run(lambda tau=tau: run(replace(CONFIG, tau=float(tau)), data), tau=tau)  # type: ignore[misc]
    total = sum(int(row["batches"]) for row in one.rows)
    first = int(one.rows[0]["batches"])
    print(f"one run: {total:,} batches, {total / first:.2f} times the single run at tau = 3 ({first:,})")
    for row in separate.rows:
        same = next(r for r in one.rows if r["tau"] == row["tau"])
        print(f"tau {row['tau']}: {same['dims']} from one run, {row['dims']} alone")


if __name__ == "__main__":
    main()
