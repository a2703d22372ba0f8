"""Axes for a display, and images side by side in one of them. Importing this does not import matplotlib."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.report.images import SMALLEST_SIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.legend import Legend

LONGEST_NAME = 24
"""Characters of a column's name in a figure."""
BELOW = 34
"""Points from the x axis to what is below its label."""


def axes_for(
    ax: Any, count: int, across: int, size: tuple[float, float], sharey: bool = False
) -> tuple["Figure", "list[Axes]"]:
    """Return the axes to draw in, row by row, and their figure.

    Arguments:
        ax: None for a new figure of pyplot; one `Axes`, which is divided if several are needed; or as many as needed.
        count: How many axes are needed.
        across: How many are beside each other.
        size: Inches of a new figure.
        sharey: Whether the axes share their y axis.
    """
    from matplotlib.axes import Axes
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    figure: Any
    rows = math.ceil(count / across)
    axes: list[Axes] = []
    if ax is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size, layout="constrained")
        grid: Any = figure.add_gridspec(rows, across)
    else:
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, object)))
        if not given or not all(isinstance(one, Axes) for one in given) or len(given) not in (1, count):
            raise NarrowsError(f"ax must be {_words(count)}; it is {brief(ax)}")
        figure, place = given[0].figure, given[0].get_subplotspec()
        if len(given) == count:
            return figure, given
        if place is None:
            raise NarrowsError(
                f"ax must be {_words(count)}; this one was not made by subplots, so it cannot be divided"
            )
        given[0].set_axis_off()
        grid = GridSpecFromSubplotSpec(rows, across, place)
    for i in range(count):
        axes.append(figure.add_subplot(grid[i // across, i % across], sharey=axes[0] if sharey and axes else None))
    return figure, axes


def _words(count: int) -> str:
    return "matplotlib Axes" if count == 1 else f"matplotlib Axes, which is divided, or {count} of them"


def name_of(column: str) -> str:
    """Return a column's name; of a long one the middle is left out, because levels of a category differ at the end."""
    half = (LONGEST_NAME - 3) // 2
    return column if len(column) <= LONGEST_NAME else f"{column[:half]}...{column[-half:]}"


def name_lines(axes: "Axes", lines: Sequence[Any], names: Sequence[str], **place: Any) -> "Legend":
    """Give axes a legend; dollar signs in names are no formulas."""
    legend = axes.legend(lines, names, **{"frameon": False, "fontsize": 8, **place})
    for text in legend.get_texts():
        text.set_parse_math(False)
    return legend


def name_below(axes: "Axes", lines: Sequence[Any], names: Sequence[str], ncols: int) -> "Legend":
    """Give axes a legend below their x axis's label, where it covers nothing, however high the axes are."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = axes.figure
    down = axes.transAxes + ScaledTranslation(0, -BELOW / 72, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": down, "borderaxespad": 0}
    return name_lines(axes, lines, names, ncols=ncols, columnspacing=1.0, handlelength=1.2, **place)


def name_above(axes: "Axes", lines: Sequence[Any], names: Sequence[str]) -> "Legend":
    """Give axes a legend above them, in two columns."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    return name_lines(axes, lines, names, ncols=2, columnspacing=1.0, handlelength=1.2, **place)


def mosaic(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows of images, (N, H, W) or (N, H, W, 3) bytes each, as one coloured image with white lines between."""
    coloured = [row if row.ndim == 4 else np.repeat(row[..., None], 3, axis=-1) for row in rows]
    height, width = coloured[0].shape[1:3]
    times = max(1, SMALLEST_SIDE // max(height, width))
    gap = max(1, times * max(height, width) // 32)
    tall, wide = height * times + gap, width * times + gap
    sheet = np.full((len(rows) * tall - gap, max(map(len, rows)) * wide - gap, 3), 255, np.uint8)
    for i, row in enumerate(coloured):
        for j, pixels in enumerate(row):
            cell = pixels.repeat(times, 0).repeat(times, 1)
            sheet[i * tall : i * tall + height * times, j * wide : j * wide + width * times] = cell
    return sheet


def show_mosaic(axes: "Axes", rows: Sequence[np.ndarray], names: Sequence[str], below: Sequence[str]) -> "AxesImage":
    """Draw rows of images with a name beside each row and a text below each column; a cell is 1 wide and 1 high."""
    sheet = mosaic(rows)
    across, down = max(map(len, rows)), len(rows)
    square = (sheet.shape[0] / down) / (sheet.shape[1] / across)
    image: AxesImage = axes.imshow(sheet, extent=(0, across, down, 0), aspect=square)
    axes.set_yticks([i + 0.5 for i in range(down)], names, parse_math=False)
    axes.set_xticks([j + 0.5 for j in range(len(below))], below)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image
