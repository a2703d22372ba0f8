"""The paper's four curves (its figure 1) from a run's metrics: error and tau, sum of pi, lambda, tolerance hits."""

from pathlib import Path
from typing import TYPE_CHECKING

from narrows.runs import MetricRow, Result, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
"""Okabe and Ito's colours, told apart by colour-blind readers."""


def draw_curves(folder: RunFolder) -> Path | None:
    """Write curves.png and curves.svg into the run folder; None when there is nothing to draw yet."""
    rows = folder.read_rows()
    if not rows:
        return None
    config = folder.read_config()
    figure = four_curves(rows, config["tau"], config["n"], folder.read_result())
    figure.savefig(folder.figure, dpi=150)
    figure.savefig(folder.figure.with_suffix(".svg"))
    return folder.figure


def four_curves(rows: list[MetricRow], tau: float, n: int, result: Result | None = None) -> "Figure":
    """Return the figure, not yet written; with the result, also its headline and where the saved model was taken."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogFormatter, MaxNLocator, PercentFormatter

    steps = [row.step for row in rows]
    figure = Figure(figsize=(8, 8.5), layout="constrained")
    error, gates, multiplier, hits = figure.subplots(4, 1, sharex=True)

    error.plot(steps, [row.error for row in rows], color=BLUE, linewidth=1, label="training error")
    error.axhline(tau, color=ORANGE, linestyle="--", linewidth=1.2, label=f"τ = {tau:g}")
    error.set_ylim(0, max(_upper([row.error for row in rows]), 1.6 * tau))
    error.set_ylabel("squared error\nper input")

    gates.plot(steps, [row.gate_sum for row in rows], color=BLUE, linewidth=1.2, label="sum of π")
    gates.plot(steps, [row.open for row in rows], color=GREY, linewidth=0.8, linestyle=":", label="open gates")
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
        verdict = "met" if result.met else "not met"
        figure.suptitle(
            f"{result.dims} of {result.n} dimensions; test error {result.heldout.error:.4g}, τ {tau:g} {verdict}"
            f" (vertical line: the saved model)",
            fontsize=11,
        )
    for axis in (error, gates):
        axis.legend(loc="upper right", frameon=False, fontsize=9)
    return figure


def _upper(errors: list[float]) -> float:
    """Return an axis limit that the first steep fall does not flatten the rest of the curve."""
    ordered = sorted(errors)
    return 1.15 * ordered[int(0.98 * (len(ordered) - 1))]
