"""The paper's four curves (its figure 1) from a run's metrics: error and tau, sum of pi, lambda, tolerance hits."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.fronts import FrontFolder
from narrows.runs import DecisionRow, MetricRow, Result, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
"""Okabe and Ito's colours, told apart by colour-blind readers."""
WIDE = 20
"""Taus further apart than this go on a logarithmic axis."""


def draw_curves(folder: RunFolder) -> Path | None:
    """Write curves.png and curves.svg into the run folder; None when there is nothing to draw yet."""
    rows = folder.read_rows()
    if not rows:
        return None
    config = folder.read_config()
    figure = four_curves(rows, config["tau"], config["n"], folder.read_result(), folder.read_decisions())
    figure.savefig(folder.figure, dpi=150)
    figure.savefig(folder.figure.with_suffix(".svg"))
    return folder.figure


def staircase(decisions: Sequence[DecisionRow], n: int, end: int) -> tuple[list[int], list[int]]:
    """Return the batches at which gates closed or opened again, and how many were open from then on."""
    at, count = [0], [n]
    for decision in decisions:
        change = {"close": -1, "reopen": 1}.get(decision.action, 0) * len(decision.gates.split())
        at.append(decision.step)
        count.append(decision.open + change)
    return [*at, end], [*count, count[-1]]


def is_sampled(rows: Sequence[MetricRow]) -> bool:
    """Tell whether gates were sampled with probabilities (the paper's recipe): such runs watch no held-out error."""
    return all(math.isnan(row.watched) for row in rows)


def four_curves(
    rows: list[MetricRow],
    tau: float | None,
    n: int,
    result: Result | None = None,
    decisions: Sequence[DecisionRow] = (),
) -> "Figure":
    """Return the figure, not yet written; with the result, also its headline and where the saved model was taken."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogFormatter, MaxNLocator, PercentFormatter

    steps = [row.step for row in rows]
    figure = Figure(figsize=(8, 8.5), layout="constrained")
    error, gates, multiplier, hits = figure.subplots(4, 1, sharex=True)

    error.plot(steps, [row.error for row in rows], color=BLUE, linewidth=1, label="training error")
    sampled = is_sampled(rows)
    if not sampled:
        watched = [row.watched for row in rows]
        error.plot(steps, watched, color=GREEN, linewidth=1.2, label="held-out error, averaged weights")
    if tau is not None:
        error.axhline(tau, color=ORANGE, linestyle="--", linewidth=1.2, label=f"τ = {tau:g}")
    error.set_ylim(0, max(upper([row.error for row in rows]), 1.6 * (tau or 0)))
    error.set_ylabel("error\nper input")

    if sampled:
        gates.plot(steps, [row.gate_sum for row in rows], color=BLUE, linewidth=1.2, label="sum of π")
        gates.plot(steps, [row.open for row in rows], color=GREY, linewidth=0.8, linestyle=":", label="open gates")
    else:
        at, count = staircase(decisions, n, steps[-1])
        gates.step(at, count, where="post", color=BLUE, linewidth=1.2, label="open gates")
    gates.set_ylim(0, n * 1.05)
    gates.yaxis.set_major_locator(MaxNLocator(integer=True))
    gates.set_ylabel("gates")

    multiplier.semilogy(steps, [row.multiplier for row in rows], color=BLUE, linewidth=1)
    multiplier.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    multiplier.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    multiplier.set_ylabel("multiplier λ′")

    hits.plot(steps, [row.hits for row in rows], color=BLUE, linewidth=1)
    hits.set_ylim(0, 1)
    hits.yaxis.set_major_formatter(PercentFormatter(1.0))
    hits.set_ylabel("tolerance hits")
    hits.set_xlabel("batch")
    hits.set_xlim(0, steps[-1])

    for axis in (error, gates, multiplier, hits):
        axis.grid(color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        if result is not None:
            axis.axvline(result.model_step, color=GREY, linewidth=0.8)
    if result is not None:
        verdict = "" if tau is None else f", τ {tau:g} {'met' if result.met else 'not met'}"
        figure.suptitle(
            f"{result.dims} of {result.n} dimensions; test error {result.heldout.error:.4g}{verdict}"
            f" (vertical line: the saved model)",
            fontsize=11,
        )
    for axis in (error, gates):
        axis.legend(loc="upper right", frameon=False, fontsize=9)
    return figure


def draw_front(folder: FrontFolder, results: list[Result]) -> Path:
    """Write front.png and front.svg: dimensions against tau; hollow points are promises not kept."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogFormatter, MaxNLocator

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    taus, dims = [result.tau or 0.0 for result in results], [result.dims for result in results]
    axis.step(taus, dims, where="post", color=BLUE, linewidth=1, alpha=0.5)
    for tau, result in zip(taus, results, strict=True):
        fill = BLUE if result.met else "white"
        label = "met on test data" if result.met else "not met"
        axis.plot(tau, result.dims, "o", color=BLUE, markerfacecolor=fill, markersize=6, label=label)
        axis.annotate(str(result.dims), (tau, result.dims), (5, 5), textcoords="offset points", ha="left")
    if max(taus) >= WIDE * min(taus):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    labels = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axis.legend(labels.values(), labels.keys(), loc="upper right", frameon=False, fontsize=9)
    axis.set_xlabel("τ: accepted error per input")
    axis.set_ylabel("latent dimensions")
    axis.set_ylim(0, 1.15 * max([*dims, 1]))
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder.figure, dpi=150)
    figure.savefig(folder.figure.with_suffix(".svg"))
    return folder.figure


def upper(errors: list[float]) -> float:
    """Return an axis limit that the first steep fall does not flatten the rest of the curve."""
    ordered = sorted(errors)
    return 1.15 * ordered[int(0.98 * (len(ordered) - 1))]
