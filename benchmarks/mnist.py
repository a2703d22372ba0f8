"""MNIST under the paper's recipe: n = 32, tau = 10, 15,000 batches. What the project promises: 14 dimensions or fewer,
and an error of at most 10.2 on the official test images.

    python benchmarks/mnist.py FOLDER

FOLDER holds MNIST's four files (train-images-idx3-ubyte.gz and so on). About six minutes on two cores.
The run folder gets the four curves; docs/mnist-paper.png is a copy of them.
"""

import sys
from pathlib import Path

from narrows._util.allocator import keep_memory
from narrows._util.errors import NarrowsError
from narrows.data.named import mnist
from narrows.report.figures.figure_files import draw_curves
from narrows.report.live.listeners import make_listener
from narrows.report.text import answer
from narrows.training.config import TrainConfig
from narrows.training.start import train

CONFIG = TrainConfig(n=32, tau=10.0, steps=15_000, constraint="plain", recipe="paper", device="cpu")


def main(arguments: list[str]) -> int:
    """Run it and say whether the promise was kept."""
    keep_memory()
    try:
        (folder,) = arguments
        outcome = train(CONFIG, data=mnist.read(Path(folder)), listener=make_listener())
        result, run = outcome.result, outcome.folder
    except (ValueError, NarrowsError) as error:
        print(f"benchmarks/mnist.py: error: {error}", file=sys.stderr)
        return 2
    print(answer(result))
    print(draw_curves(run))
    kept = result.dims <= 14 and result.heldout.error <= 10.2
    print(f"promise {'kept' if kept else 'BROKEN'}: {result.dims} dimensions, test error {result.heldout.error:.3f}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
