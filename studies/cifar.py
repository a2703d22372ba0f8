"""Natural images: how many dimensions 70, 85 and 90% of the variance need, beside PCA.

python studies/cifar.py FILE      FILE: 20,000 CIFAR-10 images as one PNG, 100 rows of 200 images

PCA is fitted on the same training images. `pca` counts the components whose mean error on the test images is within
tau; `pca_certified` those for which the upper end of the interval is, as a run's must be.
"""

import sys
from pathlib import Path

import numpy as np
from common import Row, Table, run
from PIL import Image

from narrows._util.allocator import keep_memory
from narrows.data import Data, from_array, split
from narrows.recipes.registry import Effort
from narrows.runs.certificate import Terms, measure
from narrows.training.config import TrainConfig

SHARES = {0.85: 64, 0.7: 64, 0.9: 128}
"""Latent dimensions at the start for each share."""
WIDTHS = (32, 64)


def read(path: Path) -> Data:
    """Cut the sheet into its images."""
    Image.MAX_IMAGE_PIXELS = None
    sheet = np.asarray(Image.open(path))
    return from_array(sheet.reshape(100, 32, 200, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3))


def components(data: Data, share: float) -> Row:
    """Return how many principal components of the training images keep tau on the test images, and are certified to."""
    splits = split(data)
    train, test = (data.examples.batch(index).flatten(1).double().numpy() for index in (splits.train, splits.test))
    mean = train.mean(0)
    tau = (1 - share) * np.square(train - mean).sum(1).mean()
    _, vectors = np.linalg.eigh((train - mean).T @ (train - mean))
    parts = np.square((test - mean) @ vectors[:, ::-1])  # (images, components)
    errors = parts.sum(1, keepdims=True) - parts.cumsum(1)
    within = errors.mean(0) <= tau
    certified = [Terms().is_kept(measure(errors[:, k], errors[:, k], Terms()), tau) for k in range(256)]
    return {"pca": int(within.argmax()) + 1, "pca_certified": certified.index(True) + 1}


def both(data: Data, share: float, width: int, effort: Effort) -> Row:
    """Train once, and put PCA beside it."""
    config = TrainConfig(
        explained=share,
        n=SHARES[share],
        width=width,
        effort=effort,
        threads=1,
        device="cpu",
    )
    return {"n": config.n, **run(config, data), **components(data, share)}


def main() -> None:
    """Train the runs whose rows are missing."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python studies/cifar.py FILE (a PNG of 100 rows of 200 CIFAR-10 images)")
    keep_memory()
    data, table = read(Path(sys.argv[1])), Table("cifar")
    for share in SHARES:
        for width in WIDTHS:
            efforts: tuple[Effort, ...] = ("normal", "thorough") if share == 0.85 else ("normal",)
            for effort in efforts:
                table.run(
                    lambda share=share, width=width, effort=effort: both(data, share, width, effort),  # type: ignore[misc]
                    explained=share,
                    width=width,
                    effort=effort,
                )


if __name__ == "__main__":
    main()
