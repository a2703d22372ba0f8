"""A run's report: one self-contained page, made from the run's folder and, if they can be read, its data.

The answer and its certificate come first, then how training went, which dimensions are left and what they cost, what
the model does to inputs it never saw, and how to repeat the run. A run that has not ended has a page too, which says
so. If the data can no longer be read, the page does without reconstructions.
"""

import math
import os
from pathlib import Path

from narrows._util.checks import argument, new_file, path_argument
from narrows._util.files import write_atomic
from narrows._util.printing import warn
from narrows._util.text import printable
from narrows.data import Data
from narrows.data.dataset import DATA
from narrows.report import model_sections, text
from narrows.report.contents import RunContents, read_run
from narrows.report.figures import charts
from narrows.report.figures.gate_lines import gate_lines
from narrows.report.html import Block, ChartFigure, Details, Facts, Group, Heading, Page, Section, Table, Text
from narrows.report.settings import settings
from narrows.runs.certificate import certainty
from narrows.runs.folder import RunFolder
from narrows.runs.records import Certificate, Dimension, Result

MOST_DIMENSIONS, AT_ONCE = 64, 24
"""Rows of the table of costs, and those that are visible without a click."""
MOST_COLUMNS, MOST_BESIDE = 30, 12
"""Columns of a table, and dimensions beside each other, in what each dimension says about each column."""
LONG = 110
"""A longer sentence does not fit a heading: its reasons go below."""


def write_report(
    folder: RunFolder | str | os.PathLike[str],
    data: Data | None = None,
    out: str | os.PathLike[str] | None = None,
    trust_data: bool = False,
) -> Path:
    """Write a run's report.

    Arguments:
        folder: The run's folder, as a path or as a `RunFolder`.
        data: The data that the run was trained on; loaded again unless given.
        out: The .html file to write; by default report.html in the run's folder.
        trust_data: Read the data that the run names even if its model has no fingerprint of them.

    Returns:
        The path of the file.

    Raises:
        NarrowsError: If there is no run in the folder, its files are damaged, or `out` cannot be a file.
    """
    folder = folder if isinstance(folder, RunFolder) else RunFolder(path_argument("folder", folder))
    argument("data", data, DATA, or_none=True)
    run = read_run(folder)
    target = folder.report if out is None else new_file("out", out)
    model = model_sections.read_model(run, data, trust_data)
    write_atomic(target, run_page(run, model).html())
    if model.trained is not None and model.missing:
        warn(f"{target} shows no test inputs: {model.missing}")
    return target


def run_page(run: RunContents, model: model_sections.ModelContents) -> Page:
    """Return a run's report."""
    sections = [
        Section("training", "How training went", training(run)),
        Section("gates", "Which gate closed when", gates(run)),
        Section("dimensions", "What each dimension costs to remove", dimensions(run.result)),
        Section("reconstructions", "Reconstructions of test inputs", model_sections.reconstructions(model)),
        Section("errors", "Errors of single inputs", model_sections.errors(run, model)),
        Section("traversals", "What each dimension changes", model_sections.traversals(run, model)),
        Section("samples", "New examples", model_sections.samples(model)),
        Section("settings", "Settings, and how to repeat the run", settings(run)),
    ]
    name = run.name if model.data is None else model.data.name
    if run.result is None:
        return stopped_page(run, name, sections)
    return _ended_page(run, run.result, name, sections)


def stopped_page(run: RunContents, name: str, sections: list[Section]) -> Page:
    """Return the page of a run that was stopped, or is training without a live page."""
    lead = text.sentence(f"{text.progress(run)}, unless it is still running")
    return Page(
        title=f"{name}: a run that has not ended",
        heading="This run has not ended",
        about=f"narrows · {name} · {run.folder.path}",
        badge=("open", "Not ended"),
        blocks=[Text(lead, "lead")],
        sections=sections,
    )


def _ended_page(run: RunContents, result: Result, name: str, sections: list[Section]) -> Page:
    headline = text.headline(result)
    heading, *reasons = headline.split(": ", 1) if len(headline) > LONG else [headline]
    lead = [Text(text.sentence(line), "lead") for line in (*reasons, *text.notes(run))]
    return Page(
        title=f"{name}: {result.dims} of {result.n} dimensions",
        heading=heading[0].upper() + heading[1:],
        about=f"narrows · {name} · {run.folder.path}",
        badge=None if result.tau is None else _verdict(result),
        blocks=[*lead, _facts(result)],
        sections=sections,
    )


def _verdict(result: Result) -> tuple[str, str]:
    if result.met:
        return "kept", "τ kept"
    certain = result.tau is not None and result.validation.error > result.tau
    return "missed", "τ not reached" if certain else "τ not certain"


def _of_errors(claim: Certificate | None) -> str:
    return "Weighted error on test inputs" if claim is not None and claim.weighted else "Error on test inputs"


def _facts(result: Result) -> Facts:
    held, tau = result.heldout, result.tau
    claim = result.certificate
    upper = f"at most {held.high:.4g} with {certainty(claim)} confidence"
    entries = [
        ("Dimensions", f"{result.dims} of {result.n}", f"saved after batch {result.model_step:,}"),
        (_of_errors(claim), f"{held.error:.4g}", f"{upper}, {text.plural(held.count, text.unit_of(result))}"),
    ]
    if tau is not None:
        kind = "" if claim is None else f", {claim.kind}"
        note = f"{tau / result.values:.3g} per value; {'' if result.met else 'not '}certified{kind}"
        entries.append(("Promise τ", f"{tau:.6g}", note))
    if claim is not None and claim.share is not None:
        within = f"{math.floor(100 * claim.share)}% of inputs, {100 * claim.confidence:.6g}% confidence"
        entries.append(("Single errors", f"{claim.share_error:.4g}", f"at most, for at least {within}"))
    if result.variance:
        entries.append(("Variance explained", text.share(1 - held.error / result.variance), "of the training data"))
    if result.null_deviance and result.explainable:
        entries.append(("Deviance explained", text.explained_deviance(result), "of what is not noise"))
    entries.append(("Training", text.plural(result.steps, "batch"), text.minutes(result.seconds)))
    return Facts(entries)


def training(run: RunContents) -> list[Block]:
    """Return the four curves."""
    if not run.rows:
        return [Text("There are no metrics yet.")]
    drawn = charts.run_charts(run)
    note = "Drag over a part to zoom in, double-click to zoom out. The numbers are in `metrics.csv`."
    if run.rows[0].error > drawn[0].y.max:
        note += f" The error starts at {text.number(run.rows[0].error)}, above what the chart shows."
    return [Text(note), Group("grid", [ChartFigure(f"curve-{i}", chart) for i, chart in enumerate(drawn)])]


def gates(run: RunContents) -> list[Block]:
    """Return one line per gate; none for a recipe that closes no gates."""
    lines = gate_lines(run)
    if not lines or not run.recipe.closes_gates:
        return []
    if run.recipe.samples_gates:
        note = "This recipe records how many gates are open, not which: line k is drawn while at least k are open."
    else:
        note = "Each line is a gate while it is open; a cross is a closing, a ring a reopening."
        if again := charts.count_reopened(lines):
            note += f" {text.plural(again, 'gate')} reopened, because closing failed."
    return [Text(note), ChartFigure("gate-lines", charts.gate_chart(lines, run.rows[-1].step))]


def dimensions(result: Result | None) -> list[Block]:
    """Return each kept dimension's cost of removal as a bar, with its KL and the moments of its codes."""
    if result is None:
        return [Text("Costs of removal are measured when the run ends.")]
    if not result.dimensions:
        return [Text("No dimension is left: the decoder's constant output is within the promise.")]
    note = (
        "The cost of removal is how much the error on test inputs rises when a dimension is closed without further "
        "training. KL, in nats, is how much the dimension says about an input; mean and deviation are those of its "
        "codes (0 and 1 for the prior)."
    )
    shown = result.dimensions[:MOST_DIMENSIONS]
    if len(shown) < len(result.dimensions):
        note += f" Shown are the {len(shown)} of {len(result.dimensions)} with the largest cost; `result.json` has all."
    blocks: list[Block] = []
    if len(result.errors_of_first) > 1:
        about = (
            "The dimensions are ordered like the components of PCA: the curve is the error on test inputs when only "
            "the first k are decoded and the others are set to 0."
        )
        blocks = [Text(about), ChartFigure("scree-chart", charts.scree_chart(result))]
    blocks += [Text(note), _dimension_table(shown, 0, AT_ONCE)]
    if len(shown) > AT_ONCE:
        blocks.append(Details(f"{len(shown) - AT_ONCE} more", [_dimension_table(shown, AT_ONCE, MOST_DIMENSIONS)]))
    return [*blocks, *_features(result)]


def _features(result: Result) -> list[Block]:
    """Return what each dimension says about each column of a table."""
    if not (result.columns and result.feature_costs):
        return []
    note = (
        "How much the error of each column rises without each dimension; over all columns, that is the dimension's "
        "cost of removal."
    )
    order = sorted(range(len(result.columns)), key=lambda c: -sum(result.feature_costs[c]))[:MOST_COLUMNS]
    if len(order) < len(result.columns):
        note += (
            f" Shown are the {len(order)} of {len(result.columns):,} columns with the largest; `result.json` has all."
        )
    shown = range(min(result.dims, MOST_BESIDE))
    rows = [[printable(result.columns[c]), *(f"{result.feature_costs[c][j]:.2g}" for j in shown)] for c in order]
    table = Table(["column", *(str(j + 1) for j in shown)], rows, numbers=True)
    return [Heading("What each dimension says about each column"), Text(note), table]


def _dimension_table(every: list[Dimension], start: int, end: int) -> Table:
    header = ["dimension", "gate", "cost", "KL", "mean", "deviation"]
    rows = [
        [
            str(place),
            str(one.kept),
            f"{one.cost:.3g}" if math.isfinite(one.cost) else "unknown",
            f"{one.kl:.3g}",
            f"{one.mean:.2f}",
            f"{one.std:.2f}",
        ]
        for place, one in enumerate(every[start:end], start + 1)
    ]
    costs = [one.cost for one in every]
    return Table(header, rows, numbers=True, bars=costs[start:end], longest=max(costs))
