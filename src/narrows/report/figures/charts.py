"""The charts of runs, built in one place for the page, for curves.png and for the terminal."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.recipes.registry import RecipeTraits
from narrows.report.contents import RunContents
from narrows.report.figures.gate_lines import open_counts
from narrows.report.figures.specification import BLUE, GREEN, GREY, ORANGE, Axis, Chart, GateLine, Rule, Series
from narrows.runs.records import MetricRow, Result

if TYPE_CHECKING:  # `narrows watch` starts without torch
    from narrows.inference.inspect import Traversal

MOST_ROWS = 1_200
"""Points of a curve. Of more rows of metrics the extremes of each part are kept, of more values every second, ..."""
BINS = 40
RUN_COLOURS = (0, 1, 2, 3, 4, 5, 7)
"""Colours of compared runs: all but grey."""
MOST_MOVING = 5
"""Columns in one traversal's chart: those that move most."""
WIDE = 20
"""Values of tau further apart than this factor get a logarithmic axis."""


def run_charts(run: RunContents) -> list[Chart]:
    """Return the four curves of one run: error, gates, multiplier and tolerance hits."""
    counts = open_counts(run.decisions, run.n, run.rows[-1].step)
    saved = None if run.result is None else run.result.model_step
    return curve_charts(run.rows, run.recipe, run.n, run.tau, counts, saved)


def curve_charts(
    rows: Sequence[MetricRow],
    recipe: RecipeTraits,
    n: int,
    tau: float | None,
    counts: tuple[Sequence[int], Sequence[int]],
    saved: int | None,
) -> list[Chart]:
    """Return the four curves.

    Arguments:
        rows: The metrics, at least one.
        recipe: What the recipe does.
        n: Latent dimensions at the start.
        tau: The promise, if there is one.
        counts: The batches at which the number of open gates changed, and the numbers.
        saved: The batch after which the saved model was taken, if there is one.
    """
    rows = thin(rows)
    errors = [_curve("training error", rows, "error", thin=True)]
    if recipe.measures_heldout:
        errors.append(_curve("held-out error, averaged weights", rows, "watched", GREEN))
    if recipe.samples_gates:
        gates = [_curve("sum of π", rows, "gate_sum"), _curve("open gates", rows, "open", GREY, step=True, dash=True)]
    else:
        gates = [Series("open gates", *counts, step=True)]
    bound = [] if tau is None else [_tau_rule(tau, ORANGE)]
    taken = [] if saved is None else [Rule("x", saved, "the saved model", GREY)]
    curves = [errors, gates, [_curve("", rows, "multiplier")], [_curve("", rows, "hits")]]
    return _four_charts(curves, _highest_error(rows, tau), n, bound, taken)


def comparison_charts(runs: Sequence[tuple[str, RunContents]], colours: Sequence[int] = ()) -> list[Chart]:
    """Return the four curves of several runs; by default each has a colour of its own."""
    curves: list[list[Series]] = [[], [], [], []]
    highest = 0.0
    for i, (name, run) in enumerate(runs):
        if not run.rows:
            continue
        rows = thin(run.rows)
        error = "watched" if run.recipe.measures_heldout else "error"
        colour, dash = (colours[i], False) if colours else run_style(i)
        for series, column in zip(curves, (error, "open", "multiplier", "hits"), strict=True):
            series.append(_curve(name, rows, column, colour, step=column == "open", dash=dash))
        highest = max(highest, _highest_error(rows, run.tau))
    if not curves[0]:
        return []
    taus = {run.tau for _, run in runs if run.tau is not None}
    bound = [_tau_rule(tau, GREY) for tau in taus] if len(taus) == 1 else []
    return _four_charts(curves, highest, max(row.open for _, run in runs for row in run.rows), bound, [])


def _four_charts(
    curves: Sequence[Sequence[Series]], highest: float, n: int, bound: Sequence[Rule], saved: Sequence[Rule]
) -> list[Chart]:
    errors, gates, multiplier, hits = curves
    x = Axis("batch", 0, max(series.x[-1] for series in errors), whole=True)
    known = [value for series in multiplier for value in series.y if value > 0 and math.isfinite(value)]
    low, high = (min(known) / 1.2, max(known) * 1.2) if known else (0.1, 10.0)
    parts = [
        ("Error per input", Axis("error per input", 0, highest), errors, [*bound, *saved]),
        ("Open gates", Axis("gates", 0, 1.05 * n, whole=True), gates, saved),
        ("Multiplier λ′", Axis("multiplier λ′", low, high, log=True), multiplier, saved),
        ("Tolerance hits", Axis("tolerance hits", 0, 1, percent=True, fixed=True), hits, saved),
    ]
    return [
        Chart(title, _about(title, series), x, y, series=series, rules=rules, group="batches")
        for title, y, series, rules in parts
    ]


def gate_chart(lines: Sequence[GateLine], end: int) -> Chart:
    """Return one line per gate over the batches."""
    left, again = sum(line.open for line in lines), count_reopened(lines)
    about = f"One line per gate: {left} of {len(lines)} are open at the end, {again} reopened."
    x, y = Axis("batch", 0, end, whole=True), Axis("gates", 0, len(lines), fixed=True)
    return Chart("Gates over the batches", about, x, y, kind="gates", gates=lines, group="batches")


def count_reopened(lines: Sequence[GateLine]) -> int:
    """Return how often a gate reopened."""
    return sum(change == "reopened" for line in lines for _, change in line.changes)


def error_histogram(errors: np.ndarray, tau: float | None, inputs: str = "test inputs") -> Chart:
    """Return how many inputs have which error, in another colour beyond tau. The last bar has all larger errors.

    There are about 40 bars, however far the errors are from tau: tau is an edge of one, so that none has both colours.
    """
    finite = errors[np.isfinite(errors)]
    highest = float(np.percentile(finite, 99.5)) if len(finite) else 0.0
    top = max(highest, 1.25 * (tau or 0.0)) or 1.0
    rules = [Rule("x", float(finite.mean()), "mean of these inputs", GREEN)] if len(finite) else []
    share, edges = "", _edges(top, tau)
    if tau is not None:
        rules.append(Rule("x", tau, f"τ = {tau:g}, the bound on the mean", ORANGE, dash=True))
        share = f" {np.mean(errors <= tau):.0%} of them are at or below tau."
    places = np.searchsorted(edges, errors, side="right") - 1  # nan comes last, like all that is larger than the axis
    counts = np.bincount(np.clip(places, 0, len(edges) - 2), minlength=len(edges) - 1).tolist()
    return Chart(
        f"{len(errors):,} {inputs}",
        f"A histogram of the errors of {len(errors):,} {inputs}.{share}",
        Axis("error of one input", 0, edges[-1]),
        Axis("inputs", 0, 1.08 * max(counts), whole=True, fixed=True),
        kind="bars",
        rules=rules,
        edges=edges,
        counts=counts,
        over=tau,
        height=260,
    )


def _edges(top: float, tau: float | None) -> list[float]:
    """Return the edges of bars from 0 to at least `top`, one of which is tau."""
    width = top / BINS
    below = 0 if tau is None else round(tau / width)
    if tau is not None and below:
        width = tau / below
    edges = [i * width for i in range(math.ceil(top / width) + 1)]
    if tau is not None and not below:
        edges.insert(1, tau)  # a bar of its own at the left end: bars as narrow as this tau would be too many
    return edges


def front_chart(results: Sequence[Result], links: Sequence[str | None] = ()) -> Chart:
    """Return dimensions against tau, one point per model; hollow points do not keep the promise."""
    taus, errors = [result.tau or 0.0 for result in results], [result.heldout.error for result in results]
    return levels_chart(taus, [result.dims for result in results], errors, [result.met for result in results], links)


def levels_chart(
    taus: Sequence[float],
    dims: Sequence[int],
    errors: Sequence[float],
    met: Sequence[bool],
    links: Sequence[str | None] = (),
) -> Chart:
    """Return the same from one list per quantity."""
    notes = [
        f"τ {tau:g}: {k} dimensions, error {error:.4g}, {'met' if kept else 'not met'}"
        for tau, k, error, kept in zip(taus, dims, errors, met, strict=True)
    ]
    points = Series(
        "",
        taus,
        dims,
        step=True,
        marks=True,
        hollow=[not kept for kept in met],
        labels=list(map(str, dims)),
        notes=notes,
        links=list(links),
    )
    low, high, label = min(taus), max(taus), "τ: accepted error per input"
    wide = high >= WIDE * low > 0
    if wide or low == high:
        x = Axis(label, low * 0.9, high * 1.1, log=wide)
    else:
        x = Axis(label, low - 0.04 * (high - low), high + 0.06 * (high - low))
    return Chart(
        "Dimensions against τ",
        f"Latent dimensions against tau. {'; '.join(notes)}.",
        x,
        Axis("latent dimensions", 0, 1.2 * max([*dims, 1]), whole=True, fixed=True),
        series=[points],
        height=320,
    )


def scree_chart(result: Result) -> Chart:
    """Return the error of decoding only the first k dimensions, for every k from 0 to all of them."""
    return first_chart(result.errors_of_first, result.tau)


def first_chart(errors: Sequence[float], tau: float | None) -> Chart:
    """Return the same from the errors."""
    notes = [f"first {k}: error {error:.4g}" for k, error in enumerate(errors)]
    marks = len(errors) <= 64
    title = "Error with the first k dimensions"
    return Chart(
        title,
        f"{title}: {'; '.join(notes)}.",
        Axis("dimensions decoded", 0, len(errors) - 1, whole=True),
        Axis("error per input", 0, 1.08 * max(_finite([*errors, tau or 0.0]))),
        series=[Series("", range(len(errors)), errors, marks=marks, notes=notes if marks else ())],
        rules=[] if tau is None else [_tau_rule(tau, ORANGE)],
        height=260,
    )


def cost_chart(runs: Sequence[tuple[int, str, Result]]) -> Chart:
    """Return several runs' costs of removal, largest first. A run's number gives its colour."""
    return costs_chart([(i, name, [dimension.cost for dimension in result.dimensions]) for i, name, result in runs])


def costs_chart(runs: Sequence[tuple[int, str, Sequence[float]]]) -> Chart:
    """Return the same from the costs."""
    series = []
    for i, name, costs in runs:
        colour, dash = run_style(i)
        series.append(Series(name, range(1, len(costs) + 1), costs, colour, dash=dash, marks=len(costs) <= 64))
    most = max(len(one.x) for one in series)
    every = [cost for one in series for cost in one.y]
    title = "Cost of removal of each kept dimension, largest first"
    return Chart(
        title,
        _about(title, series),
        Axis("dimension, by cost", 0.5, most + 0.5, whole=True),
        Axis("cost of removal", min(_finite([0.0, *every])), 1.1 * max(_finite([0.0, *every]))),
        series=series,
        height=260,
    )


def run_style(place: int) -> tuple[int, bool]:
    """Return the colour of one of several runs, and whether it is dashed, as it is from the eighth on."""
    return RUN_COLOURS[place % len(RUN_COLOURS)], place >= len(RUN_COLOURS)


def shown_columns(
    one: "Traversal", unit: np.ndarray | float, costs: np.ndarray | None = None, of_values: Sequence[int] = ()
) -> list[int]:
    """Return the values that a dimension's chart shows: those of the columns that the dimension says most about.

    Of a category it is the level that moves most. Without costs it is the values that move most.

    Arguments:
        one: The dimension moved through its range.
        unit: The unit of each value.
        costs: By how much each column's error rises without the dimension, (columns,).
        of_values: The column of each value; by default each value is a column.
    """
    moved = np.nan_to_num(np.ptp(one.decoded / unit, axis=0))
    column = np.array(of_values) if len(of_values) == len(moved) else np.arange(len(moved))
    if costs is None or len(costs) != column.max() + 1:
        return np.argsort(-moved, kind="stable")[:MOST_MOVING].tolist()
    first = np.argsort(-np.asarray(costs), kind="stable")[:MOST_MOVING]
    return [max(np.flatnonzero(column == c).tolist(), key=lambda value: moved[value]) for c in first]


def traversal_chart(
    one: "Traversal", columns: Sequence[str], unit: np.ndarray | float, shown: Sequence[int] | None = None
) -> Chart:
    """Return what one dimension does to a vector: named columns against the code, unnamed values as profiles.

    Arguments:
        one: The dimension moved through its range.
        columns: The names of the values, if they have any.
        unit: The unit of each value.
        shown: The values that are shown, of named ones; by default those that move most.
    """
    if columns:
        scaled = one.decoded / unit
        moved = scaled - scaled[len(scaled) // 2]
        most = shown_columns(one, unit) if shown is None else shown
        xs = one.positions.tolist()
        series = [Series(columns[c], xs, moved[:, c].tolist(), RUN_COLOURS[i]) for i, c in enumerate(most)]
        x, label = Axis("code", xs[0], xs[-1]), "change"
    else:
        xs = list(range(0, one.decoded.shape[1], math.ceil(one.decoded.shape[1] / MOST_ROWS)))
        profiles = zip((0, len(one.decoded) // 2, len(one.decoded) - 1), (BLUE, GREY, ORANGE), strict=True)
        series = [Series(f"code {one.positions[i]:.3g}", xs, one.decoded[i, xs].tolist(), c) for i, c in profiles]
        x, label = Axis("value", 0, max(1, xs[-1]), whole=True), "decoded"
    everything = _finite([v for s in series for v in s.y]) or [0.0]
    low, high = min(everything), max(everything)
    pad = 0.06 * (high - low) or 0.1
    title = f"Dimension {one.dimension + 1}"
    return Chart(title, _about(title, series), x, Axis(label, low - pad, high + pad), series=series, height=210)


def thin(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return at most about 1,200 rows that draw the same curves: of each part, the extremes of each curve."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    kept = {0, len(rows) - 1}
    names = ("error", "watched", "gate_sum", "multiplier", "hits")
    for part in np.array_split(np.arange(len(rows)), MOST_ROWS // (2 * len(names))):
        for name in names:
            values = np.array([getattr(rows[i], name) for i in part])
            if not np.isnan(values).all():
                kept |= {int(part[np.nanargmin(values)]), int(part[np.nanargmax(values)])}
    return [rows[i] for i in sorted(kept)]


def _highest_error(rows: Sequence[MetricRow], tau: float | None) -> float:
    """Return the error axis's end, chosen so that the first steep fall does not flatten the rest of the curve."""
    ordered = sorted(row.error for row in rows if math.isfinite(row.error)) or [0.0]
    return max(1.15 * ordered[int(0.98 * (len(ordered) - 1))], 1.6 * (tau or 0.0))


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _curve(name: str, rows: Sequence[MetricRow], column: str, colour: int = BLUE, **style: Any) -> Series:
    return Series(name, [row.step for row in rows], [getattr(row, column) for row in rows], colour, **style)


def _tau_rule(tau: float, colour: int) -> Rule:
    return Rule("y", tau, f"τ = {tau:g}", colour, dash=True)


def _about(title: str, series: Sequence[Series]) -> str:
    ends = [f"{one.name or title} ends at {one.y[-1]:.4g}" for one in series if len(one.y)]
    return f"{title}: {'; '.join(ends)}."
