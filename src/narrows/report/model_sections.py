"""The sections of a run's page that need its model: reconstructions, errors, traversals and samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.text import printable
from narrows.data import Data
from narrows.data.mixed import Column, by_column, column_of_values
from narrows.inference.inspect import Inspection, Reconstructions, Traversal, inspect_model, prior_samples, traverse
from narrows.inference.trained import Trained, open_trained, training_data
from narrows.report import images, text
from narrows.report.contents import RunContents
from narrows.report.figures import charts
from narrows.report.html import Block, ChartFigure, Group, Heading, Picture, Table, Text
from narrows.runs.records import Result

MOST_COLUMNS = 30
"""Columns in the table of errors: those with the largest."""
SHOWN_VALUES = 10
"""Columns of one input: those with the largest differences."""
SAMPLE_ROWS = 4
STRIP_BYTES = 1_500_000
"""Pixels of all traversals together, before compression."""
CHART_TRAVERSALS = 24
"""Traversals of vectors, with one chart each."""


@dataclass(frozen=True)
class ModelContents:
    """A run's saved model and what it does to test inputs."""

    trained: Trained | None = None
    data: Data | None = None
    heldout: Inspection | None = None
    missing: str = ""
    """Why `heldout` is missing, if it is."""
    inputs: str = "test inputs"
    """What `heldout` was measured on."""


def read_model(run: RunContents, data: Data | None = None, trust_data: bool = False) -> ModelContents:
    """Open a run's model and send test inputs through it; `data` are loaded again unless given."""
    if not run.files.model.exists():
        return ModelContents(missing="No model has been saved yet.")
    trained = open_trained(run.files.path, trust_data)
    try:
        data = training_data(trained, data)
        return ModelContents(trained, data, inspect_model(trained, data, run.config.split_seed))
    except (NarrowsError, OSError) as error:
        return ModelContents(trained, missing=text.unread(error))


def reconstructions(model: ModelContents) -> list[Block]:
    """Return the best, median and worst test inputs beside their reconstructions; for tables also columns' errors."""
    if model.trained is None or model.heldout is None:
        return [Text(model.missing)]
    held = model.heldout
    note = (
        f"Of {len(held.errors):,} evenly spaced {model.inputs}, those with the smallest, the median and the largest "
        "error, reconstructed from the mean of their codes."
    )
    picked = [("Best", held.best), ("Median", held.median), ("Worst", held.worst)]
    if held.column_errors is not None:
        return _column_errors(model.trained, held, held.column_errors, note, picked)
    low, high = images.levels([one.inputs for _, one in picked])
    scale = max(float(np.nanmax(np.abs(one.outputs - one.inputs))) for _, one in picked)
    note += f" Differences are orange where the output is too bright, blue where it is too dark, full at {scale:.2g}."
    return [Text(note), Group("grid three", [_triple(name, one, low, high, scale) for name, one in picked])]


def _triple(name: str, picked: Reconstructions, low: float, high: float, scale: float) -> Picture:
    rows = [images.as_bytes(one, low, high) for one in (picked.inputs, picked.outputs)]
    rows.append(images.differences(picked.inputs, picked.outputs, scale))
    alt = f"{name}: {len(picked.errors)} inputs, their reconstructions and the differences, one below the other"
    note = f"errors {', '.join(f'{error:.3g}' for error in picked.errors)}"
    return Picture(images.grid(rows), alt, name, note, ("input", "output", "difference"))


def _column_errors(
    trained: Trained, held: Inspection, errors: np.ndarray, note: str, picked: list[tuple[str, Reconstructions]]
) -> list[Block]:
    names, total = column_names(trained), max(float(errors.sum()), 1e-30)
    if trained.blocks:
        names, errors = [printable(column.name) for column in trained.table], by_column(errors, trained.table)
    order = np.argsort(-errors, kind="stable")[:MOST_COLUMNS]
    largest = errors[order].tolist()
    rows = [[names[c], f"{errors[c]:.3g}", f"{errors[c] / total:.1%}"] for c in order]
    title = "Each column's part of the error"
    title += f": the {len(order)} largest of {len(names):,}" if len(order) < len(names) else ""
    if trained.blocks:
        title += ", where 1 is what knowing only its mean or its frequencies costs"
    else:
        title += ", in the column's own unit" if isinstance(held.unit, np.ndarray) else ""
    table = Table(["column", "error", "share"], rows, numbers=True, bars=largest, longest=largest[0])
    single = [Group("", _one_input(name, one, column_names(trained), held)) for name, one in picked]
    apart = Group("apart", [Heading("Single inputs"), Text(note), Group("grid tables", single)])
    return [Heading(title), table, apart]


def _one_input(name: str, picked: Reconstructions, names: list[str], held: Inspection) -> list[Block]:
    x, y = picked.inputs[0], picked.outputs[0]
    order = np.argsort(-np.abs((y - x) / held.unit), kind="stable")[:SHOWN_VALUES]
    rows = [[names[c], *map(text.number, (x[c], y[c], y[c] - x[c]))] for c in order]
    title = f"{name}: error {picked.errors[0]:.3g}"
    return [Heading(title), Table(["column", "input", "output", "difference"], rows, numbers=True)]


def errors(run: RunContents, model: ModelContents) -> list[Block]:
    """Return the distribution of the errors beside tau."""
    if model.heldout is None:
        return []
    note = "The promise is about the mean over inputs; single inputs may be above τ. Codes are drawn, as in training."
    return [
        Text(note),
        ChartFigure("errors-chart", charts.error_histogram(model.heldout.errors, run.tau, model.inputs)),
    ]


def traversals(run: RunContents, model: ModelContents) -> list[Block]:
    """Return what each kept dimension changes while it moves through its range."""
    trained = model.trained
    if trained is None or trained.model.n == 0:
        return []
    moved, is_image = traverse(trained, model.heldout, run.result), len(trained.shape) == 3
    note = "One dimension moves through its range; the others stay at their mean."
    if model.heldout is not None:
        note = (
            "One dimension moves from the 1st to the 99th percentile of its codes; the others stay where an input with "
            "the median error has them."
        )
    shown = moved if is_image else moved[:CHART_TRAVERSALS]
    if len(shown) < trained.model.n:
        note += f" Shown are the {len(shown)} of {trained.model.n} with the largest cost of removal."
    costs = ["" if run.result is None else f"cost {run.result.dimensions[one.dimension].cost:.3g}" for one in shown]
    if is_image:
        return [Text(note), Group("strips", _strips(shown, costs))]
    columns, unit = trained.columns, 1.0 if model.heldout is None else model.heldout.unit
    shown_values = [telling_values(one, unit, trained.table, run.result) for one in shown]
    drawn = [
        ChartFigure(f"traversal-{one.dimension}", charts.traversal_chart(one, columns, unit, values), cost)
        for one, values, cost in zip(shown, shown_values, costs, strict=True)
    ]
    return [Text(note), Group("grid three", drawn)]


def telling_values(
    one: Traversal, unit: np.ndarray | float, table: Sequence[Column], result: Result | None
) -> list[int]:
    """Return the values of a vector that a dimension says most about, as far as the answer says."""
    if result is None or not result.feature_costs:
        return charts.shown_columns(one, unit)
    costs = np.array([of_column[one.dimension] for of_column in result.feature_costs])
    return charts.shown_columns(one, unit, costs, column_of_values(table))


def _strips(moved: list[Traversal], costs: list[str]) -> list[Picture]:
    low, high = images.levels([one.decoded for one in moved])
    side = images.side_of(len(moved) * len(moved[0].positions), moved[0].decoded[0], STRIP_BYTES)
    pictures = []
    for one, cost in zip(moved, costs, strict=True):
        name = f"dimension {one.dimension + 1}"
        alt = f"{len(one.positions)} images, decoded while {name} moves through its range"
        title = name.capitalize() + (f", {cost}" if cost else "")
        note = f"{one.positions[0]:.2f} to {one.positions[-1]:.2f}"
        pictures.append(Picture(images.grid([images.as_bytes(one.decoded, low, high)], side), alt, title, note))
    return pictures


def samples(model: ModelContents) -> list[Block]:
    """Return new examples, decoded from the prior."""
    if model.trained is None:
        return []
    drawn = prior_samples(model.trained)
    note = "Decoded from codes drawn from the prior."
    if len(model.trained.shape) == 3:
        rows = np.split(images.as_bytes(drawn, *images.levels([drawn])), SAMPLE_ROWS)
        return [Text(note), Group("samples", [Picture(images.grid(rows), f"{len(drawn)} examples made by the model")])]
    names = column_names(model.trained)[:SHOWN_VALUES]
    if len(names) < drawn.shape[1]:
        note += f" Shown are the first {len(names)} of {drawn.shape[1]:,} values."
    lines = [[str(i), *map(text.number, row[: len(names)])] for i, row in enumerate(drawn[:8], 1)]
    return [Text(note), Table(["sample", *names], lines, numbers=True)]


def column_names(trained: Trained) -> list[str]:
    """Return the names of a table's columns, or the places of a vector's values."""
    return trained.columns or list(map(str, range(trained.shape[0])))
