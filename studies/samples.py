"""How good are the samples? A narrowed model and a plain VAE of the same size, with three samplers.

python studies/samples.py                  two runs of about five minutes on one core, then the evaluation
python studies/samples.py --steps 200      a trial; its table and figure go into runs/samples-200

MNIST (`narrows data get mnist`), tau = 10, n = 32. The plain VAE has the size that was found, and the same networks,
bound and batches. Both are evaluated three times, with classifiers and samples of three seeds. The script writes
studies/results/samples.csv and draws docs/samples-samplers.png: real digits, reconstructions, and samples of both
models for each sampler, with the Fréchet distance (of seed 0) beside each.
"""

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from common import Row, Table

from narrows._util.allocator import keep_memory
from narrows.data import Data, load, split
from narrows.evaluation.evaluate import evaluate
from narrows.inference.sampling import KINDS, draw_examples, make_sampler
from narrows.inference.trained import layout, open_trained
from narrows.runs.evaluation import Evaluation, Measured
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.start import train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEEDS = (0, 1, 2)
ACROSS, DOWN = 14, 2
"""Columns and rows of digits in a panel."""
MODELS = ("narrowed", "plain")


def finished(path: Path, config: TrainConfig) -> RunFolder:
    """Train in `path`, unless that run has already ended."""
    folder = RunFolder(path)
    if folder.read_result() is None:
        train(config, folder.path)
    return folder


def as_row(e: Evaluation, model: Measured) -> Row:
    """Return the row of one model."""
    held = model.heldout
    distances = {"real": e.real, "reconstructions": model.reconstructions, **model.samples}
    return {
        "dims": model.dims,
        "error": f"{held.error:.5g}",
        "upper": f"{held.high:.5g}",
        "at_mean": f"{held.error_at_mean:.5g}",
        "kl": f"{sum(unit.kl for unit in model.units):.4g}",
        "active": model.active,
        **{name: f"{distance:.4g}" for name, distance in distances.items()},
        "accuracy": f"{e.accuracy['digit']:.4f}",
        "samples": e.count,
        "components": e.components,
    }


def panel(axis: "Axes", images: np.ndarray, title: str) -> None:
    """Draw some digits, dark on white."""
    grid = images.reshape(DOWN, ACROSS, 28, 28).transpose(0, 2, 1, 3).reshape(DOWN * 28, ACROSS * 28)
    axis.imshow(1 - grid, cmap="gray", vmin=0, vmax=1)
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_axis_off()


def draw(folders: dict[str, RunFolder], rows: dict[str, Row], data: Data, path: Path) -> None:
    """Draw real digits, reconstructions and the samples of each sampler, one column per model."""
    from matplotlib.figure import Figure

    count = ACROSS * DOWN
    splits = split(data)
    shown = data.examples.batch(splits.test[:count])
    real = data.examples.batch(splits.train[:count])
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots(2 + len(KINDS), len(folders))
    for column, (name, folder) in zip(axes.T, folders.items(), strict=True):
        trained, row = open_trained(folder.path), rows[name]
        who = f"{name}, {row['dims']} dimensions"
        panel(column[0], real.numpy()[:, 0], f"real digits: {row['real']}")
        again = trained.model.reconstruct(shown).detach().numpy()[:, 0]
        panel(column[1], again, f"{who}; reconstructions: {row['reconstructions']}")
        for axis, kind in zip(column[2:], KINDS, strict=True):
            sampler = make_sampler(trained, kind)
            images = np.concatenate([layout(x) for x in draw_examples(trained.model, sampler, count)])
            panel(axis, images, f"{who}; samples, {kind}: {row[kind]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train the missing runs, evaluate them, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="a limit on the batches, for a trial")
    steps = parser.parse_args().steps
    keep_memory()
    out = Path("runs/samples" if steps is None else f"runs/samples-{steps}")
    table, drawing = Table("samples"), Path("docs/samples-samplers.png")
    if steps is not None:
        table, drawing = Table("samples", out), out / drawing.name
    common = {"data": "mnist", "tau": 10.0, "threads": 1, "device": "cpu"}
    narrow = finished(out / "narrow", TrainConfig(**common, n=32, steps=steps or "auto"))  # type: ignore[arg-type]
    found = narrow.read_result()
    assert found is not None
    same = TrainConfig(**common, n=found.dims, steps=found.steps, recipe="plain")  # type: ignore[arg-type]
    plain = finished(out / "plain", same)

    @functools.cache
    def evaluation(seed: int) -> Evaluation:
        e = evaluate(narrow.path, plain.path, seed=seed)
        if seed == SEEDS[0]:
            e.write(narrow.path)
        return e

    def maker(seed: int, model: str) -> Callable[[], Row]:
        def make() -> Row:
            e = evaluation(seed)
            measured = e.run if model == MODELS[0] else e.against
            assert measured is not None
            return as_row(e, measured)

        return make

    rows = {(seed, model): table.run(maker(seed, model), model=model, seed=seed) for seed in SEEDS for model in MODELS}
    folders = dict(zip(MODELS, (narrow, plain), strict=True))
    draw(folders, {model: rows[SEEDS[0], model] for model in MODELS}, load("mnist"), drawing)


if __name__ == "__main__":
    main()
