"""MNIST under the paper's recipe: n = 32, tau = 10, 15,000 batches. What the project promises: 14 dimensions or fewer,
and an error of at most 10.2 on the official test images.

    python benchmarks/mnist.py FOLDER

FOLDER holds MNIST's four idx files (train-images-idx3-ubyte and so on, plain or .gz). About seven minutes on two cores.
The run folder gets the four curves; docs/mnist-paper.png is a copy of them.
"""

import sys
from pathlib import Path

import numpy as np

from narrows.allocator import keep_memory
from narrows.data import ArrayExamples, Data
from narrows.data.sets.idx import read_idx
from narrows.errors import NarrowsError
from narrows.report.curves import draw_curves
from narrows.report.live import make_display
from narrows.report.words import answer
from narrows.training.config import TrainConfig
from narrows.training.entry import train

CONFIG = TrainConfig(n=32, tau=10.0, steps=15_000, constraint="plain", recipe="paper", device="cpu")


def load_mnist(folder: Path) -> Data:
    """Return all 70,000 images with the official 10,000 as the test split."""
    parts = []
    for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte"):
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
        if not found:
            raise NarrowsError(f"{folder} has no {name} or {name}.gz; give the folder with MNIST's four files")
        parts.append(read_idx(found[0]))
    images = np.concatenate(parts)[..., np.newaxis]
    return Data("mnist", ArrayExamples(images, (1, 28, 28), 1 / 255), "unit", test=np.arange(60_000, 70_000))


def main(arguments: list[str]) -> int:
    """Run it and say whether the promise was kept."""
    keep_memory()
    try:
        (folder,) = arguments
        result, run = train(CONFIG, data=load_mnist(Path(folder)), display=make_display())
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
