"""The pictures of docs/displays.md: each display, drawn from an estimator or from the folder of a run.

python studies/displays.py    docs/displays/*.png, from scikit-learn's digits and breast cancer cells

`PICTURES` says what each is drawn from. With --all, every display is also drawn from both, into runs/displays, to be
looked at.
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

import narrows
from narrows import (
    CodesDisplay,
    DimensionDisplay,
    FrontDisplay,
    NarrowingDisplay,
    NarrowVAE,
    ReconstructionDisplay,
    TraversalDisplay,
)

DOCS = Path(__file__).parents[1] / "docs" / "displays"
RUNS = Path("runs/displays")
TAUS = [150, 250, 400, 600, 900]
LARGEST = 100_000
"""Bytes of a picture."""

digits = load_digits()
Draw = dict[str, Callable[[], object]]


def from_estimators() -> Draw:
    """Fit estimators and return what draws each display from them."""
    model = NarrowVAE(explained=0.8, max_steps=1500, random_state=0, device="cpu").fit(digits.images)
    front = NarrowVAE(max_steps=1000, random_state=0, device="cpu")
    front.front(digits.images, TAUS)
    scaler = StandardScaler().set_output(transform="pandas")
    cells = scaler.fit_transform(load_breast_cancer(as_frame=True).data)
    table = NarrowVAE(explained=0.6, max_steps=1000, random_state=0, device="cpu").fit(cells)
    return {
        "narrowing": lambda: NarrowingDisplay.from_estimator(model),
        "dimensions": lambda: DimensionDisplay.from_estimator(model),
        "traversals": lambda: TraversalDisplay.from_estimator(model, digits.images),
        "reconstructions": lambda: ReconstructionDisplay.from_estimator(model, digits.images),
        "codes": lambda: CodesDisplay.from_estimator(model, digits.images, digits.target),
        "front": lambda: FrontDisplay.from_estimator(front),
        "traversals-table": lambda: TraversalDisplay.from_estimator(table, cells),
        "reconstructions-table": lambda: ReconstructionDisplay.from_estimator(table, cells),
    }


def from_folders() -> Draw:
    """Train runs, unless they are there, and return what draws each display from their folders."""
    images = narrows.from_array((digits.images / 16).astype("float32"), name="digits")
    cells = narrows.from_table(load_breast_cancer(as_frame=True).data, name="cells")
    run, front, table = RUNS / "digits", RUNS / "front", RUNS / "cells"
    config = narrows.TrainConfig(explained=0.8, steps=1500, device="cpu", log_every=20)
    if not (run / "result.json").exists():
        narrows.train(config, run, images)
    if not (table / "result.json").exists():
        narrows.train(narrows.TrainConfig(explained=0.6, steps=1000, device="cpu"), table, cells)
    if not (front / "front.csv").exists():
        short = narrows.TrainConfig(steps=1000, device="cpu")
        narrows.train_front(short, [tau / 256 for tau in TAUS], front, images)
    return {
        "narrowing": lambda: NarrowingDisplay.from_run(run),
        "dimensions": lambda: DimensionDisplay.from_run(run),
        "traversals": lambda: TraversalDisplay.from_run(run, data=images),
        "reconstructions": lambda: ReconstructionDisplay.from_run(run, data=images),
        "codes": lambda: CodesDisplay.from_run(run, digits.target, data=images),
        "front": lambda: FrontDisplay.from_front(front),
        "traversals-table": lambda: TraversalDisplay.from_run(table, data=cells),
        "reconstructions-table": lambda: ReconstructionDisplay.from_run(table, data=cells),
    }


PICTURES = {
    "narrowing": from_folders,
    "dimensions": from_folders,
    "traversals": from_folders,
    "reconstructions": from_folders,
    "codes": from_estimators,
    "front": from_estimators,
    "traversals-table": from_estimators,
    "reconstructions-table": from_estimators,
}
"""The pictures of docs/displays.md, and what each is drawn from."""


def main(everything: bool) -> None:
    """Draw the pictures."""
    mpl.use("Agg")
    DOCS.mkdir(exist_ok=True)
    RUNS.mkdir(parents=True, exist_ok=True)
    for source in (from_estimators, from_folders):
        for name, draw in source().items():
            if PICTURES[name] is source:
                write(draw(), DOCS / f"{name}.png")
            if everything:
                write(draw(), RUNS / f"{source.__name__}-{name}.png")


def write(display: object, path: Path) -> None:
    """Write a display as a small picture."""
    file = io.BytesIO()
    display.figure_.savefig(file, dpi=100, format="png")  # type: ignore[attr-defined]
    plt.close("all")
    image = Image.open(file).convert("RGB")
    image.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {image.width} x {image.height}, {size / 1e3:.0f} kB")
    if size > LARGEST:
        sys.exit(f"{path} is larger than {LARGEST / 1e3:.0f} kB")


if __name__ == "__main__":
    main("--all" in sys.argv[1:])
