"""The figures of the paper's experiments, from our rows and runs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.paper import published
from narrows.paper.folder import ExperimentFolder
from narrows.paper.job import SHOWN
from narrows.paper.plan import Row
from narrows.report.contents import read_run
from narrows.report.figures.charts import comparison_charts
from narrows.report.figures.figure_files import PALETTE, draw_charts, new_figure, plain, save
from narrows.report.figures.specification import BLUE, GREEN, ORANGE
from narrows.runs.folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STYLES = {
    ("paper", False): (ORANGE, "s", "paper's recipe"),
    ("fast", False): (BLUE, "o", "fast recipe"),
    ("fast", True): (GREEN, "^", "fast recipe, one run"),
}
"""Colour, marker and name by recipe and whether all taus come from one run."""
MOST_SHOWN = 6
"""Reconstructions along a front."""


def draw(folder: ExperimentFolder, rows: Sequence[Row]) -> list[tuple[Path, str]]:
    """Draw what the finished rows of an experiment allow; return files and captions."""
    done = [row for row in rows if row.status == "done"]
    if not done:
        return []
    if folder.name != "reconstructions":
        figure, caption = FIGURES[folder.name]
        return [(save(figure(folder, done), folder.path / f"{folder.name}.png"), caption)]
    drawn = []
    for recipe in sorted({row.recipe for row in done}):
        sheet = _sheet(folder, [row for row in done if row.recipe == recipe and row.seed == 0])
        caption = f"Test images (first row) and their reconstructions, {STYLES[recipe, False][2]}."
        drawn.append((save(sheet, folder.path / f"reconstructions-{recipe}.png"), caption))
    return drawn


def _training(folder: ExperimentFolder, rows: Sequence[Row]) -> "Figure":
    """Return the four curves of every run, with the numbers of open gates that the paper prints."""
    runs = [(STYLES[row.recipe, False], row.seed, read_run(RunFolder(folder.path / row.run))) for row in rows]
    named = [(name if seed == 0 else "", run) for (_, _, name), seed, run in runs]
    figure = draw_charts(comparison_charts(named, [colour for (colour, _, _), _, _ in runs]))
    _finish(figure.axes[1], figure.axes[1].yaxis, published.OPEN_WHILE_TRAINING.items())
    return figure


def _front(folder: ExperimentFolder, rows: Sequence[Row]) -> "Figure":
    figure = new_figure(8, 6)
    top, bottom = figure.subfigures(2, 1, height_ratios=(2.6, 1))  # type: ignore[misc]
    axis = top.subplots()
    for kind, (colour, _, _) in STYLES.items():
        chosen = [row for row in rows if (row.recipe, row.one_run) == kind]
        for seed in sorted({row.seed for row in chosen}):
            line = [row for row in chosen if row.seed == seed]
            taus, dims = [row.tau for row in line], [row.dims for row in line]
            axis.plot(taus, dims, color=PALETTE[colour], linewidth=1, alpha=0.6)
        _points(axis, kind, [(row.tau, row.dims) for row in chosen], chosen)
    _finish(axis, axis.yaxis, published.FRONT.items())
    axis.set(xlabel="τ: accepted error per image", ylabel="latent dimensions", ylim=(0, None))
    _strip(bottom, folder, rows)
    return figure


def _strip(figure: "Figure", folder: ExperimentFolder, rows: Sequence[Row]) -> None:
    """Show one digit and its reconstructions by models along the front."""
    first = next(kind for kind in STYLES if any((row.recipe, row.one_run) == kind for row in rows))
    chosen = [row for row in rows if (row.recipe, row.one_run) == first and row.seed == 0]
    spots = np.unique(np.linspace(0, len(chosen) - 1, min(MOST_SHOWN, len(chosen))).round().astype(int))
    lines = _lines(folder, [chosen[i] for i in spots])
    for axis, (title, images) in zip(figure.subplots(1, len(lines)), lines, strict=True):
        _image(axis, images[0])
        axis.set_title(title, fontsize=9)
    figure.supxlabel(f"{STYLES[first][2]}, decoding the mean", fontsize=9)


def _lines(folder: ExperimentFolder, rows: Sequence[Row]) -> list[tuple[str, np.ndarray]]:
    """Return the original test images, then each row's reconstructions of them, with titles."""
    pairs = [np.load(folder.path / row.run / SHOWN) for row in rows]
    named = [(f"τ = {row.tau:g}\n{row.dims} dims", pair[1]) for row, pair in zip(rows, pairs, strict=True)]
    return [("original", pairs[0][0]), *named]


def _sheet(folder: ExperimentFolder, rows: Sequence[Row]) -> "Figure":
    lines = _lines(folder, rows)
    count = len(lines[0][1])
    figure = new_figure(0.75 * count + 1, 0.85 * len(lines))
    axes = figure.subplots(len(lines), count, squeeze=False)
    for i, (title, images) in enumerate(lines):
        for axis, image in zip(axes[i], images, strict=True):
            _image(axis, image)
        axes[i][0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    return figure


def _table(folder: ExperimentFolder, rows: Sequence[Row]) -> "Figure":
    names = list(dict.fromkeys((row.set, row.n // 2) for row in rows))
    figure = new_figure(8, 0.42 * len(names) + 1.4)
    axis = figure.subplots()
    for recipe, offset in (("paper", -0.12), ("fast", 0.12)):
        chosen = [row for row in rows if row.recipe == recipe]
        heights = [names.index((row.set, row.n // 2)) + offset for row in chosen]
        _points(axis, (recipe, False), [(row.dims, y) for row, y in zip(chosen, heights, strict=True)], chosen)
    _finish(axis, axis.xaxis, [(published.TABLE[name].open[-1], y) for y, name in enumerate(names)])
    axis.set_yticks(range(len(names)), [f"{data}, n = {n}" for data, n in names])
    axis.invert_yaxis()
    axis.set(xlabel="latent dimensions kept, of 2n", xlim=(0, None))
    return figure


def _points(axis: "Axes", kind: tuple[str, bool], places: Sequence[tuple[Any, Any]], rows: Sequence[Row]) -> None:
    """Draw one point per row, hollow if tau is not met."""
    number, marker, name = STYLES[kind]
    colour, label = PALETTE[number], f"{name} (hollow: τ not met on test images)"
    for i, (place, row) in enumerate(zip(places, rows, strict=True)):
        fill = colour if row.met else "white"
        axis.plot(*place, marker, color=colour, markerfacecolor=fill, markersize=6, label=None if i else label)


def _finish(axis: "Axes", dimensions: "Axis", printed: Iterable[tuple[float, float]]) -> None:
    """Add the numbers that the paper prints, whole numbers of dimensions, the grid and the legend."""
    from matplotlib.ticker import MaxNLocator

    axis.plot(*zip(*printed, strict=True), "kx", markersize=8, label="printed in the paper")
    dimensions.set_major_locator(MaxNLocator(integer=True))
    plain(axis)
    axis.legend(frameon=False, fontsize=9)


def _image(axis: "Axes", image: np.ndarray) -> None:
    axis.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255)
    axis.set_xticks([])
    axis.set_yticks([])


FIGURES = {
    "training": (_training, "Error, gates, multiplier and tolerance hits while training."),
    "front": (
        _front,
        "Latent dimensions against tau. Below: one 7 of the test images and its reconstructions, decoding the mean.",
    ),
    "table": (_table, "Dimensions kept, beside the paper's after 400,000 batches."),
}
"""The figure of an experiment, and its caption."""
