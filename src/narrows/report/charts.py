"""Rows to charts: what the page's script draws (assets/report.js), as plain dictionaries of numbers."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.report.curves import WIDE, is_sampled, staircase, upper
from narrows.report.staircase import GateLine
from narrows.runs import DecisionRow, MetricRow, Result

if TYPE_CHECKING:  # `narrows watch` need not wait for torch
    from narrows.report.evidence import Traversal

MOST_ROWS = 1_200
"""Rows of metrics in a chart; of more, the extremes of each part are kept."""
BINS = 40
BLUE, ORANGE, GREEN, GREY = 0, 1, 2, 6
RUN_COLOURS = (0, 1, 2, 3, 4, 5, 7)
MOVING = 5
"""Columns in one traversal's chart: those that move most."""
Chart = dict[str, Any]


def run_charts(
    rows: Sequence[MetricRow], tau: float | None, n: int, result: Result | None, decisions: Sequence[DecisionRow]
) -> list[tuple[str, Chart]]:
    """Return the four curves of one run, with their titles."""
    rows = thin(rows)
    steps, end = [row.step for row in rows], rows[-1].step
    saved = [_rule("x", result.model_step, "the saved model", GREY)] if result is not None else []
    errors = [_series("training error", steps, [row.error for row in rows], BLUE, thin=True)]
    sampled = is_sampled(rows)
    if not sampled:
        errors.append(_series("held-out error, averaged weights", steps, [row.watched for row in rows], GREEN))
    bound = [] if tau is None else [_rule("y", tau, f"τ = {tau:g}", ORANGE, dash=True)]
    if sampled:
        gates = [
            _series("sum of π", steps, [row.gate_sum for row in rows], BLUE),
            _series("open gates", steps, [row.open for row in rows], GREY, step=True, dash=True),
        ]
    else:
        at, count = staircase(decisions, n, end)
        gates = [_series("open gates", at, count, BLUE, step=True)]
    multiplier = [_series("", steps, [row.multiplier for row in rows], BLUE)]
    hits = [_series("", steps, [row.hits for row in rows], BLUE)]
    return _four(errors, gates, multiplier, hits, end, _error_top(rows, tau), n, bound, saved)


def many_charts(
    runs: Sequence[tuple[str, Sequence[MetricRow]]], taus: Sequence[float | None], n: int
) -> list[tuple[str, Chart]]:
    """Return the four curves of several runs, a colour each."""
    errors, gates, multiplier, hits, tops, end = [], [], [], [], [1e-12], 1
    for i, (name, all_rows) in enumerate(runs):
        if not all_rows:
            continue
        rows, colour = thin(all_rows), RUN_COLOURS[i % len(RUN_COLOURS)]
        dash = i >= len(RUN_COLOURS)
        steps = [row.step for row in rows]
        told = [row.error if math.isnan(row.watched) else row.watched for row in rows]
        errors.append(_series(name, steps, told, colour, dash=dash))
        gates.append(_series(name, steps, [row.open for row in rows], colour, step=True, dash=dash))
        multiplier.append(_series(name, steps, [row.multiplier for row in rows], colour, dash=dash))
        hits.append(_series(name, steps, [row.hits for row in rows], colour, dash=dash))
        tops.append(_error_top(rows, taus[i]))
        end = max(end, steps[-1])
    if not errors:
        return []
    shared = {tau for tau in taus if tau is not None}
    bound = [_rule("y", tau, f"τ = {tau:g}", GREY, dash=True) for tau in sorted(shared)] if len(shared) == 1 else []
    return _four(errors, gates, multiplier, hits, end, max(tops), n, bound, [])


def _four(
    errors: list[Chart],
    gates: list[Chart],
    multiplier: list[Chart],
    hits: list[Chart],
    end: int,
    top: float,
    n: int,
    bound: list[Chart],
    saved: list[Chart],
) -> list[tuple[str, Chart]]:
    x = {"label": "batch", "min": 0, "max": end, "whole": True}
    known = [v for one in multiplier for v in one["y"] if v > 0 and math.isfinite(v)]
    low, high = (min(known) / 1.2, max(known) * 1.2) if known else (0.1, 10.0)
    made = [
        ("Error per input", {"label": "error per input", "min": 0, "max": top}, errors, [*bound, *saved]),
        ("Open gates", {"label": "gates", "min": 0, "max": 1.05 * n, "whole": True}, gates, saved),
        ("Multiplier λ′", {"label": "multiplier", "min": low, "max": high, "log": True}, multiplier, saved),
        ("Tolerance hits", {"label": "hits", "min": 0, "max": 1, "percent": True, "fixed": True}, hits, saved),
    ]
    return [
        (
            title,
            {
                "kind": "lines",
                "about": _about(title, series),
                "x": x,
                "y": y,
                "series": series,
                "rules": rules,
                "group": "batches",
            },
        )
        for title, y, series, rules in made
    ]


def gate_chart(lines: Sequence[GateLine], end: int) -> Chart:
    """Return one line a gate over the batches."""
    rows = [
        {
            "name": line.name,
            "kept": line.is_open,
            "spans": line.spans,
            "marks": [[at, change] for at, change in line.changes],
        }
        for line in lines
    ]
    kept = sum(line.is_open for line in lines)
    again = sum(change == "opened again" for line in lines for _, change in line.changes)
    about = f"One line a gate over the batches: {kept} of {len(lines)} are open at the end; {again} openings again."
    return {
        "kind": "gates",
        "about": about,
        "x": {"label": "batch", "min": 0, "max": end, "whole": True},
        "rows": rows,
        "group": "batches",
        "left": 78,
    }


def error_histogram(errors: np.ndarray, tau: float | None) -> Chart:
    """Return how many inputs have which error; beyond tau in another colour. The last bar has all that is larger."""
    top = max(float(np.percentile(errors, 99.5)), 1.25 * (tau or 0.0), 1e-12)
    width = top / BINS
    if tau is not None:
        width = tau / max(1, round(tau / width))  # tau is an edge, so that no bar has both colours
    bins = max(1, math.ceil(top / width))
    counts = np.bincount(np.minimum((errors / width).astype(int), bins - 1), minlength=bins).tolist()
    rules = [_rule("x", float(errors.mean()), "mean of these inputs", GREEN)]
    if tau is not None:
        rules.append(_rule("x", tau, f"τ = {tau:g}, which the mean must keep", ORANGE, dash=True))
    within = "" if tau is None else f" {np.mean(errors <= tau):.0%} of them are at or below tau."
    return {
        "kind": "bars",
        "about": f"How many of {len(errors):,} test inputs have which error.{within}",
        "x": {"label": "error of one input", "min": 0, "max": bins * width},
        "y": {"label": "inputs", "whole": True},
        "edges": [i * width for i in range(bins + 1)],
        "counts": counts,
        "over": tau,
        "rules": rules,
        "height": 260,
    }


def front_chart(results: Sequence[Result], links: Sequence[str | None]) -> Chart:
    """Return dimensions against tau, each point a model; hollow where the promise is not certain."""
    taus, dims = [result.tau or 0.0 for result in results], [result.dims for result in results]
    notes = [
        f"τ {tau:g}: {result.dims} dimensions, error {result.heldout.error:.4g}, {'met' if result.met else 'not met'}"
        for tau, result in zip(taus, results, strict=True)
    ]
    points = _series("", taus, dims, BLUE, step=True)
    points |= {"marks": True, "hollow": [not result.met for result in results], "notes": notes, "links": list(links)}
    points |= {"labels": [str(count) for count in dims]}
    span = max(taus) - min(taus)
    wide = max(taus) >= WIDE * min(taus) > 0
    x: Chart = {"label": "τ: accepted error per input", "min": min(taus) - 0.04 * span, "max": max(taus) + 0.06 * span}
    if wide or not span:
        x |= {"min": min(taus) * 0.9, "max": max(taus) * 1.1, "log": wide}
    return {
        "kind": "lines",
        "about": f"Latent dimensions against tau. {'; '.join(notes)}.",
        "x": x,
        "y": {"label": "latent dimensions", "min": 0, "max": 1.2 * max([*dims, 1]), "whole": True, "fixed": True},
        "series": [points],
        "height": 320,
    }


def cost_chart(runs: Sequence[tuple[int, str, Result]]) -> Chart:
    """Return several runs' costs of removal, largest first; the numbers are the runs' places, which have colours."""
    series = []
    for i, name, result in runs:
        own = [d.cost for d in result.dimensions]
        one = _series(name, list(range(1, len(own) + 1)), own, RUN_COLOURS[i % len(RUN_COLOURS)])
        series.append(one | {"marks": len(own) <= 64, "dash": i >= len(RUN_COLOURS)})
    most = max(len(one["x"]) for one in series)
    costs = [cost for one in series for cost in one["y"]]
    return {
        "kind": "lines",
        "about": _about("Cost of removal of each kept dimension, largest first", series),
        "x": {"label": "dimension, by cost", "min": 0.5, "max": most + 0.5, "whole": True},
        "y": {"label": "cost of removal", "min": min(0.0, *costs), "max": 1.1 * max(1e-12, *costs)},
        "series": series,
        "height": 260,
    }


def traversal_chart(one: "Traversal", columns: Sequence[str], unit: np.ndarray | float) -> Chart:
    """Return what one dimension does to a vector: named columns against the code, others as profiles."""
    if columns:
        scaled = one.decoded / unit
        moved = scaled - scaled[len(scaled) // 2]
        most = np.argsort(-np.ptp(scaled, axis=0), kind="stable")[:MOVING]
        xs = one.positions.tolist()
        series = [_series(columns[c], xs, moved[:, c].tolist(), RUN_COLOURS[i]) for i, c in enumerate(most)]
        x: Chart = {"label": "code", "min": xs[0], "max": max(xs[-1], xs[0] + 1e-9)}
        y = "change"
    else:
        chosen = [0, len(one.decoded) // 2, len(one.decoded) - 1]
        xs = list(range(one.decoded.shape[1]))
        names = [f"code {one.positions[i]:.3g}" for i in chosen]
        looks = zip(chosen, names, (BLUE, GREY, ORANGE), strict=True)
        series = [_series(name, xs, one.decoded[i].tolist(), colour) for i, name, colour in looks]
        x = {"label": "value", "min": 0, "max": max(1, xs[-1]), "whole": True}
        y = "decoded"
    everything = [v for s in series for v in s["y"]]
    low, high = min(everything), max(everything)
    pad = 0.06 * (high - low) or 0.1
    return {
        "kind": "lines",
        "about": _about(f"Dimension {one.dimension + 1} through its range", series),
        "x": x,
        "y": {"label": y, "min": low - pad, "max": high + pad},
        "series": series,
        "height": 210,
    }


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


def _error_top(rows: Sequence[MetricRow], tau: float | None) -> float:
    return max(upper([row.error for row in rows]), 1.6 * (tau or 0.0), 1e-12)


def _series(name: str, x: Sequence[float], y: Sequence[float], colour: int, **look: Any) -> Chart:
    return {"name": name, "x": list(x), "y": list(y), "colour": colour, **look}


def _rule(axis: str, at: float, name: str, colour: int, **look: Any) -> Chart:
    return {"axis": axis, "at": at, "name": name, "colour": colour, **look}


def _about(title: str, series: Sequence[Chart]) -> str:
    ends = [f"{one['name'] or title} ends at {one['y'][-1]:.4g}" for one in series if len(one["y"])]
    return f"{title}: {'; '.join(ends)}."
