"""The figures of the paper's experiments, from our rows and runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.experiments.board import Board
from narrows.experiments.plan import Row
from narrows.experiments.work import SHOWN
from narrows.report import published
from narrows.report.curves import BLUE, GREEN, GREY, ORANGE
from narrows.runs import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {
    ("paper", False): (ORANGE, "s", "paper's recipe"),
    ("fast", False): (BLUE, "o", "fast recipe"),
    ("fast", True): (GREEN, "^", "fast recipe, one run"),
}
"""Colour, marker and name by recipe and whether all taus come from one run."""
MOST_SHOWN = 6
"""Reconstructions along a front."""


def draw(board: Board, rows: Sequence[Row]) -> list[tuple[Path, str]]:
    """Draw what the finished rows of an experiment allow; return files and captions."""
    done = [row for row in rows if row.status == "done"]
    made: list[tuple[str, Figure, str]] = []
    if done and board.name == "training":
        made.append(("training", _training(board, done), "Error, gates, multiplier and tolerance hits while training."))
    if done and board.name == "front":
        caption = (
            "Latent dimensions against tau. Below: one 7 of the test images and its reconstructions, decoding the mean."
        )
        made.append(("front", _front(board, done), caption))
    if done and board.name == "reconstructions":
        for recipe in sorted({row.recipe for row in done}):
            sheet = _sheet(board, [row for row in done if row.recipe == recipe and row.seed == 0])
            caption = f"Test images (first row) and their reconstructions, {STYLES[recipe, False][2]}."
            made.append((f"reconstructions-{recipe}", sheet, caption))
    if done and board.name == "table":
        made.append(("table", _table(done), "Dimensions kept, beside the paper's after 400,000 batches."))
    paths = []
    for name, figure, caption in made:
        path = board.path / f"{name}.png"
        figure.savefig(path, dpi=150)
        figure.savefig(path.with_suffix(".svg"))
        paths.append((path, caption))
    return paths


def _training(board: Board, rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogFormatter, MaxNLocator, PercentFormatter

    figure = Figure(figsize=(8, 9), layout="constrained")
    error, gates, multiplier, hits = figure.subplots(4, 1, sharex=True)
    highest = 0.0
    for row in rows:
        colour, _, name = STYLES[row.recipe, False]
        metrics = RunFolder(board.path / row.run).read_rows()
        steps = [m.step for m in metrics]
        label = name if row.seed == 0 else None
        marker = "." if len(steps) == 1 else ""
        look: dict[str, Any] = {"color": colour, "linewidth": 0.9, "marker": marker}
        error.plot(steps, [m.error for m in metrics], label=label, **look)
        gates.plot(steps, [m.gate_sum for m in metrics], label=label, **look)
        multiplier.semilogy(steps, [m.multiplier for m in metrics], **look)
        hits.plot(steps, [m.hits for m in metrics], **look)
        highest = max(highest, sorted(m.error for m in metrics)[int(0.95 * (len(metrics) - 1))])
    tau = rows[0].tau or 0.0
    error.axhline(tau, color=GREY, linestyle="--", linewidth=1.2, label=f"τ = {tau:g}")
    error.set_ylim(0, max(1.2 * highest, 2 * tau))
    error.set_ylabel("training error\nper image")
    printed = published.OPEN_WHILE_TRAINING
    gates.plot(list(printed), [one.value for one in printed.values()], "kx", markersize=7, label="printed in the paper")
    gates.set_ylim(0, 1.05 * rows[0].n)
    gates.yaxis.set_major_locator(MaxNLocator(integer=True))
    gates.set_ylabel("sum of π")
    multiplier.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    multiplier.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    multiplier.set_ylabel("multiplier λ′\n(fast: of E / τ)")
    hits.set_ylim(0, 1)
    hits.yaxis.set_major_formatter(PercentFormatter(1.0))
    hits.set_ylabel("tolerance hits")
    hits.set_xlabel("batch")
    hits.set_xlim(left=0)
    for axis in (error, gates, multiplier, hits):
        _plain(axis)
    for axis in (error, gates):
        axis.legend(loc="upper right", frameon=False, fontsize=9)
    return figure


def _front(board: Board, rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(2.6, 1))  # type: ignore[misc]
    axis = top.subplots()
    for kind, (colour, marker, name) in STYLES.items():
        chosen = [row for row in rows if (row.recipe, row.one_run) == kind]
        for seed in sorted({row.seed for row in chosen}):
            line = [row for row in chosen if row.seed == seed]
            taus, dims = [row.tau for row in line], [row.dims for row in line]
            axis.plot(taus, dims, color=colour, linewidth=1, alpha=0.6)
            label = f"{name} (hollow: τ not met)" if seed == 0 else None
            axis.plot([], [], marker=marker, color=colour, linestyle="", label=label)
            for row in line:
                fill = colour if row.met else "white"
                axis.plot(row.tau or 0, row.dims or 0, marker, color=colour, markerfacecolor=fill, markersize=6)
    printed = published.FRONT
    axis.plot(list(printed), [one.value for one in printed.values()], "kx", markersize=8, label="printed in the paper")
    axis.set_xlabel("τ: accepted error per image")
    axis.set_ylabel("latent dimensions")
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    _plain(axis)
    axis.legend(frameon=False, fontsize=9)
    _strip(bottom, board, rows)
    return figure


def _strip(figure: "Figure", board: Board, rows: Sequence[Row]) -> None:
    """Show one digit and what models along the curve make of it."""
    first = next((kind for kind in STYLES if any((row.recipe, row.one_run) == kind for row in rows)), None)
    chosen = [row for row in rows if (row.recipe, row.one_run) == first and row.seed == 0]
    spots = np.unique(np.linspace(0, len(chosen) - 1, min(MOST_SHOWN, len(chosen))).round().astype(int))
    images = [
        (f"τ = {chosen[i].tau:g}\n{chosen[i].dims} dims", np.load(board.path / chosen[i].run / SHOWN)) for i in spots
    ]
    axes = figure.subplots(1, len(images) + 1, squeeze=False)[0]
    cells = [("original", images[0][1][0, 0]), *((title, pair[1, 0]) for title, pair in images)]
    for axis, (title, image) in zip(axes, cells, strict=True):
        _image(axis, image)
        axis.set_title(title, fontsize=9)
    assert first is not None
    figure.supxlabel(f"{STYLES[first][2]}, decoding the mean", fontsize=9)


def _sheet(board: Board, rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure

    pairs = [np.load(board.path / row.run / SHOWN) for row in rows]
    lines = [("original", pairs[0][0])]
    lines += [(f"τ = {row.tau:g}\n{row.dims} dims", pair[1]) for row, pair in zip(rows, pairs, strict=True)]
    count = len(pairs[0][0])
    figure = Figure(figsize=(0.75 * count + 1, 0.85 * len(lines)), layout="constrained")
    axes = figure.subplots(len(lines), count, squeeze=False)
    for i, (title, images) in enumerate(lines):
        for axis, image in zip(axes[i], images, strict=True):
            _image(axis, image)
        axes[i][0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    return figure


def _table(rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys((row.set, row.n // 2) for row in rows))
    figure = Figure(figsize=(8, 0.42 * len(names) + 1.4), layout="constrained")
    axis = figure.subplots()
    for y, name in enumerate(names):
        axis.plot(published.TABLE[name].open[-1], y, "kx", markersize=8, label=None if y else "printed in the paper")
    for recipe, offset in (("paper", -0.12), ("fast", 0.12)):
        colour, marker, label = STYLES[recipe, False]
        for i, row in enumerate(r for r in rows if r.recipe == recipe):
            fill = colour if row.met else "white"
            height = names.index((row.set, row.n // 2)) + offset
            shown = None if i else f"{label} (hollow: τ not met on test images)"
            axis.plot(row.dims or 0, height, marker, color=colour, markerfacecolor=fill, markersize=6, label=shown)
    axis.set_yticks(range(len(names)), [f"{data}, n = {n}" for data, n in names])
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("latent dimensions kept, of 2n")
    _plain(axis)
    axis.legend(frameon=False, fontsize=9)
    return figure


def _image(axis: "Axes", image: np.ndarray) -> None:
    axis.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255)
    axis.set_xticks([])
    axis.set_yticks([])


def _plain(axis: "Axes") -> None:
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
