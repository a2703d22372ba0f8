"""What each part of the fast recipe contributes: the paper's recipe, the fast recipe, and four variants of it.

python studies/variants.py manifold
python studies/variants.py mnist FOLDER
python studies/variants.py dsprites

    coordinates   the cheapest latent coordinates close, not the cheapest directions
    adam          every weight is trained with Adam at a rate of 0.001, as in the paper, not the hidden layers with Muon
    sampled       every measurement takes other held-out examples and other noise, not the same panel
    trembling     decisions are made on the weights as they are trained, not on their average

The paper's recipe gets LIMIT batches, the others end by themselves. Networks have the default width. The tables say
when a size was known to be enough, and the final result. The runs stay in runs/variants, with their curves;
docs/variants-SET.png shows their errors and gates in one figure.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Row, Table, read_mnist, summary

from narrows._util.allocator import keep_memory
from narrows.data import Data, from_array, load
from narrows.data.synthetic import curved_manifold
from narrows.recipes.fast import Fast
from narrows.report.figures.figure_files import draw_curves
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.sinks import FolderSink
from narrows.training.trainer import Trainer

LIMIT = {"manifold": 12_000, "mnist": 15_000, "dsprites": 15_000}


def coordinates(fast: Fast) -> None:
    """Leave the latent space in the coordinates it has."""
    fast.model.mixable = fast.monitor.averaged.mixable = False


def sampled(fast: Fast) -> None:
    """Draw other examples for every measurement."""
    fast.monitor._again = lambda number: fast.monitor.generator  # type: ignore[method-assign]


def trembling(fast: Fast) -> None:
    """Replace the averaged weights by the weights themselves."""
    fast.monitor.follow = lambda since, window: fast.monitor.restart()  # type: ignore[method-assign]


VARIANTS: dict[str, Callable[[Fast], None]] = {
    "fast": lambda fast: None,
    "coordinates": coordinates,
    "adam": lambda fast: None,  # the optimiser is built with the trainer
    "sampled": sampled,
    "trembling": trembling,
}


def setting(name: str) -> tuple[Data, dict[str, Any], tuple[int, ...]]:
    """Return the data, the settings, and the sizes whose batches the table lists."""
    if name == "mnist":
        return read_mnist(sys.argv[2:]), {"tau": 10.0, "n": 32}, (13, 10, 9)
    if name == "dsprites":
        return load("dsprites", source="drawn"), {"tau": 20.0, "n": 10}, (6, 5)
    x = curved_manifold(20_000, d=5, ambient=50, seed=0)
    return from_array(x, "any"), {"explained": 0.96, "n": 16}, (5,)


def run(name: str, variant: str, data: Data, settings: dict[str, Any], sizes: tuple[int, ...]) -> Row:
    """Train one variant and return its row."""
    folder = RunFolder(Path("runs/variants") / f"{name}-{variant}")
    if variant == "paper":
        plain = "relative" if name == "manifold" else "plain"
        settings = {**settings, "recipe": "paper", "steps": LIMIT[name], "constraint": plain}
    if variant == "adam":
        settings = {**settings, "learning_rate": 1e-3}
    config = TrainConfig(threads=1, device="cpu", **settings).checked()
    Fast.orthogonal_updates = variant != "adam"
    trainer = Trainer(make_plan(config, data), Listener())
    if variant != "paper":
        VARIANTS[variant](trainer.objective)
    folder.path.mkdir(parents=True)
    result = trainer.start(FolderSink(folder))
    draw_curves(folder)
    row = summary(result, folder, sizes)
    if variant == "paper":  # it makes no decisions: the batch from which at most so many gates were open until the end
        rows = folder.read_rows()
        for size in sizes:
            late = [r.step for r in rows if r.open > size]
            row[f"to_{size}"] = "" if late and late[-1] == rows[-1].step else (late[-1] if late else 0)
    return row


COLOURS = {
    "fast": "#0072B2",
    "paper": "#D55E00",
    "coordinates": "#009E73",
    "adam": "#CC79A7",
    "sampled": "#E69F00",
    "trembling": "#777777",
}


def draw(name: str, tau: float) -> None:
    """Draw error and open gates of all variants over the batches; a star is the end, hollow if tau was not met."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    error, gates = figure.subplots(2, 1, sharex=True)
    for variant, colour in COLOURS.items():
        folder = RunFolder(Path("runs/variants") / f"{name}-{variant}")
        rows, result = folder.read_rows(), folder.read_result()
        assert result is not None
        steps = [row.step for row in rows]
        width = 1.6 if variant in ("fast", "paper") else 0.9
        errors = [row.error if variant == "paper" else row.watched for row in rows]
        error.plot(steps, errors, color=colour, linewidth=width, label=variant)
        gates.plot(steps, [row.open for row in rows], color=colour, linewidth=width)
        fill = colour if result.met else "white"
        gates.plot(steps[-1], result.dims, "*", color=colour, markerfacecolor=fill, markersize=11)
    error.axhline(tau, color="black", linestyle="--", linewidth=1, label="tau")
    error.set_ylim(0, 3 * tau)
    error.set_ylabel("held-out error of the averaged weights\n(paper: training error)")
    error.legend(frameon=False, ncols=3, fontsize=9)
    gates.set_ylabel("open gates (star: saved model)")
    gates.set_ylim(bottom=0)
    gates.set_xlabel("batch")
    for axis in (error, gates):
        axis.grid(color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(f"docs/variants-{name}.png", dpi=110)


def main() -> None:
    """Train the missing runs for one set."""
    keep_memory()
    if len(sys.argv) < 2 or sys.argv[1] not in LIMIT:
        sys.exit("usage: python studies/variants.py manifold | mnist FOLDER | dsprites")
    name = sys.argv[1]
    data, settings, sizes = setting(name)
    table = Table(f"variants_{name}")
    for variant in COLOURS:
        table.run(lambda v=variant: run(name, v, data, settings, sizes), recipe=variant)  # type: ignore[misc]
    result = RunFolder(Path("runs/variants") / f"{name}-fast").read_result()
    assert result is not None
    draw(name, result.tau or 0.0)


if __name__ == "__main__":
    main()
