"""What each part of the fast recipe is worth: the paper's recipe, the fast one, and three variants of it.

python experiments/variants.py manifold
python experiments/variants.py mnist FOLDER
python experiments/variants.py dsprites

    kl-first       lambda is steered from the start, so the KL term takes the slack as soon as there is some
    trembling      decisions look at the weights as they are trained, not at their average
    no-reopening   a gate that was closed stays closed; the run ends when the error does not come back

The paper's recipe gets LIMIT batches, the others end by themselves; networks have the default width, 16 on dSprites,
where a run of width 32 takes half an hour. The tables say when a size was known to be enough, and what came out. The
runs stay in runs/variants, with their curves; docs/variants-SET.png has their errors and gates in one figure.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import Row, Table, read_mnist, summary

from narrows.allocator import keep_memory
from narrows.closing import Closing, Decision
from narrows.data import Data, from_array, load
from narrows.data.synthetic import curved_manifold
from narrows.fast import Fast
from narrows.model import GatedVAE
from narrows.report.curves import draw_curves
from narrows.runs import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.display import Display
from narrows.training.loop import Trainer
from narrows.training.recipes import FastRecipe

LIMIT = {"manifold": 12_000, "mnist": 15_000, "dsprites": 15_000}


class Stubborn(Closing):
    """Never opens a gate again: where the error does not come back, the last phase begins."""

    def _reopen(self) -> Decision:
        return self._release()


def kl_first(fast: Fast[GatedVAE]) -> None:
    """Steer lambda after every step, in every phase."""
    usual = fast.after_step

    def after_step(optimiser: torch.optim.Optimizer, before: Callable[[Decision], None] | None = None) -> Any:
        if fast.closing.phase != "release" and not torch.isinf(fast.watched).any():
            fast.constraint.steer((fast.watched / fast.target() - 1).float())
        return usual(optimiser, before)

    fast.after_step = after_step  # type: ignore[method-assign]


def trembling(fast: Fast[GatedVAE]) -> None:
    """Let the average be the weights themselves."""
    fast.monitor.follow = lambda since, window: fast.monitor.restart()  # type: ignore[method-assign]


def no_reopening(fast: Fast[GatedVAE]) -> None:
    """Decide without a way back."""
    fast.closing = Stubborn(fast.closing.config)


VARIANTS: dict[str, Callable[[Fast[GatedVAE]], None]] = {
    "fast": lambda fast: None,
    "kl-first": kl_first,
    "trembling": trembling,
    "no-reopening": no_reopening,
}


def setting(name: str) -> tuple[Data, dict[str, Any], tuple[int, ...]]:
    """Return data, settings and the sizes to watch for."""
    if name == "mnist":
        return read_mnist(sys.argv[2:]), {"tau": 10.0, "n": 32}, (13, 10)
    if name == "dsprites":
        return load("dsprites", origin="drawn"), {"tau": 20.0, "n": 10, "width": 16}, (6, 5)
    x = curved_manifold(20_000, d=5, ambient=50, seed=0)
    return from_array(x, "any"), {"explained": 0.96, "n": 16}, (5,)


def run(name: str, variant: str, data: Data, settings: dict[str, Any], sizes: tuple[int, ...]) -> Row:
    """Train one variant and return its row."""
    folder = RunFolder(Path("runs/variants") / f"{name}-{variant}")
    if variant == "paper":
        plain = "relative" if name == "manifold" else "plain"
        settings = {**settings, "recipe": "paper", "steps": LIMIT[name], "constraint": plain}
    trainer = Trainer(TrainConfig(threads=1, device="cpu", **settings), data, Display())
    if isinstance(trainer.recipe, FastRecipe):
        VARIANTS[variant](trainer.recipe.fast)
    result = trainer.start_in(folder)
    draw_curves(folder)
    row = summary(result, folder, sizes)
    if variant == "paper":  # it decides nothing: the batch from which so few gates were open until the end
        rows = folder.read_rows()
        for size in sizes:
            late = [r.step for r in rows if r.open > size]
            row[f"to_{size}"] = "" if late and late[-1] == rows[-1].step else (late[-1] if late else 0)
    return row


COLOURS = {
    "fast": "#0072B2",
    "paper": "#D55E00",
    "kl-first": "#009E73",
    "trembling": "#CC79A7",
    "no-reopening": "#777777",
}


def draw(name: str, tau: float) -> None:
    """Draw error and open gates of all variants over the batches; a star is the end, hollow where tau was not met."""
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
    """Run what is missing for one set."""
    keep_memory()
    if len(sys.argv) < 2 or sys.argv[1] not in LIMIT:
        sys.exit("usage: python experiments/variants.py manifold | mnist FOLDER | dsprites")
    name = sys.argv[1]
    data, settings, sizes = setting(name)
    table = Table(f"variants_{name}")
    for variant in ("fast", "paper", "kl-first", "trembling", "no-reopening"):
        table.run(lambda v=variant: run(name, v, data, settings, sizes), recipe=variant)  # type: ignore[misc]
    result = RunFolder(Path("runs/variants") / f"{name}-fast").read_result()
    assert result is not None
    draw(name, result.tau or 0.0)


if __name__ == "__main__":
    main()
