"""Is the narrowed model as good as a plain VAE of the same size, trained from scratch for as many batches?

python studies/quality.py FOLDER      two runs of about five minutes on one core

MNIST, tau = 10, n = 32. The plain VAE has the size that was found, and the same networks, bound, batches and last
phase. The script prints both rows and the aggregate posterior of each dimension, and draws docs/samples-mnist.png:
test digits, samples of both models from the prior, and reconstructions.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from common import Table, largest_correlation, read_mnist, summary

from narrows._util.allocator import keep_memory
from narrows.data import Data, split
from narrows.model.storage import load_model
from narrows.model.vae import VAE
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.start import train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUT = Path("runs/quality")


def finished(name: str, config: TrainConfig, data: Data) -> RunFolder:
    """Train in runs/quality/NAME, unless that run has already ended."""
    folder = RunFolder(OUT / name)
    if folder.read_result() is None:
        train(config, folder.path, data)
    return folder


def sheet(axis: "Axes", images: torch.Tensor, title: str) -> None:
    """Draw 40 images as 4 rows of 10."""
    grid = images[:40].view(4, 10, 28, 28).permute(0, 2, 1, 3).reshape(112, 280)
    axis.imshow(1 - grid, cmap="gray", vmin=0, vmax=1)
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_axis_off()


def draw(models: dict[str, VAE], x: torch.Tensor) -> None:
    """Draw the figure of digits, samples and reconstructions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.6), layout="constrained")
    axes = figure.subplots(3, 2)
    sheet(axes[0, 0], x, "test digits")
    axes[0, 1].set_axis_off()
    for row, (name, model) in zip(axes[1:], models.items(), strict=True):
        with torch.no_grad():
            sheet(row[0], model.sample(40, torch.Generator().manual_seed(0)), f"{name}: samples from the prior")
            sheet(row[1], model.reconstruct(x), f"{name}: reconstructions")
    figure.savefig("docs/samples-mnist.png", dpi=110)


def main() -> None:
    """Train the missing runs, compare them, and draw the figure."""
    keep_memory()
    data = read_mnist(sys.argv[1:])
    narrow = finished("narrow", TrainConfig(tau=10.0, n=32, threads=1, device="cpu"), data)
    result = narrow.read_result()
    assert result is not None
    same = TrainConfig(tau=10.0, n=result.dims, steps=result.steps, recipe="plain", threads=1, device="cpu")
    plain = finished("plain", same, data)
    table = Table("quality")
    for name, folder in (("narrowed", narrow), ("plain", plain)):
        answer = folder.read_result()
        assert answer is not None
        table.run(lambda a=answer, f=folder: summary(a, f), model=name)  # type: ignore[misc]
        gaps = " ".join(f"{d.mean:+.2f}/{d.std:.2f}" for d in answer.dimensions)
        print(f"{name}: aggregate posterior, mean/std of each dimension: {gaps}")
        for part in ("train", "test"):
            found = largest_correlation(folder, data.examples, getattr(split(data), part))
            print(f"{name}: largest correlation between two dimensions, {part} split: {found:.3f}")
    x = data.examples.batch(split(data).test[:40])
    names = {"narrowed": narrow, f"plain VAE with {result.dims} dimensions": plain}
    draw({name: load_model(folder.model) for name, folder in names.items()}, x)


if __name__ == "__main__":
    main()
