"""Several runs on one page: their answers side by side, their curves in one chart, the same inputs through each.

A front's page is such a page with a chart on top: dimensions against tau, one point per model, with a link to its
report.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import torch

from narrows._util.errors import NarrowsError
from narrows._util.files import write_atomic
from narrows.data import Data, split
from narrows.inference.trained import layout, open_data, open_trained
from narrows.report import images, text
from narrows.report.contents import RunContents, read_run
from narrows.report.figures import charts
from narrows.report.html import Block, ChartFigure, Group, Links, Page, Picture, Section, Table, Text
from narrows.report.settings import shown
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder
from narrows.training.config import to_dict

SHOWN = 12
"""Test inputs that go through every model."""
MOST_ROWS = 24
"""Models in the picture of reconstructions."""


@dataclass(frozen=True)
class Compared:
    """One of the runs, with a name that tells it from the others."""

    name: str
    run: RunContents

    def link(self, out: Path) -> str | None:
        """Return the address of the run's own report, relative to the page `out`; None if there is no report."""
        report = self.run.files.report
        if not report.exists():
            return None
        return quote(os.fsencode(Path(os.path.relpath(report.resolve(), out.resolve().parent)).as_posix()))

    def reading(self) -> tuple[object, ...]:
        """Return the settings that say which test inputs the run has."""
        config = self.run.config
        return config.data, config.reading(), config.split_seed


@dataclass(frozen=True)
class _Inputs:
    """Where the test inputs come from."""

    data: Data | None
    """The data, if the caller has them."""
    trusted: bool
    """Whether data may be read for a model without a fingerprint."""


def write_comparison(
    folders: Sequence[RunFolder], out: Path, trust_data: bool = False, others: Sequence[tuple[str, str, str]] = ()
) -> Path:
    """Write a page about several runs.

    Arguments:
        folders: The runs.
        out: The page.
        trust_data: As for `write_report`.
        others: Runs of a sweep that have no answer: name, status and reason.
    """
    runs = [Compared(name, read_run(folder)) for folder, name in zip(folders, _names(folders), strict=True)]
    page = _page(f"{text.plural(len(runs), 'run')} compared", runs, out, _Inputs(None, trust_data), None)
    if others:
        missing = Table(["run", "status", "reason"], [list(other) for other in others])
        section = Section("others", "Runs without an answer", [missing])
        page = replace(page, sections=[*page.sections[:1], section, *page.sections[1:]])
    write_atomic(out, page.html())
    return out


def write_front(
    folder: FrontFolder, data: Data | None = None, out: Path | None = None, trust_data: bool = False
) -> Path:
    """Write a front's page to `out`, by default report.html in its folder; `trust_data` is that of `write_report`."""
    out = out or folder.report
    runs = [Compared(f"τ {run.tau:g}", run) for run in map(read_run, folder.levels())]
    write_atomic(out, _page(_front_title(runs), runs, out, _Inputs(data, trust_data), folder).html())
    return out


def _front_title(runs: list[Compared]) -> str:
    done = [one.run.result for one in runs if one.run.result is not None]
    if len(done) < 2:
        return "Dimensions against τ"
    first, last = done[0], done[-1]
    return f"From {text.plural(first.dims, 'dimension')} at τ {first.tau:g} to {last.dims} at τ {last.tau:g}"


def _page(title: str, runs: list[Compared], out: Path, inputs: _Inputs, front: FrontFolder | None) -> Page:
    names = ", ".join(dict.fromkeys(one.run.name for one in runs))
    links = [(one.name, link) for one in runs if (link := one.link(out))]
    answers: list[Block] = [*_front(runs, out, front), *_answers(runs)]
    sections = [
        Section("answers", "Answers", [*answers, *([Links("Their own reports:", links)] if links else [])]),
        Section("training", "How training went", _training(runs)),
        Section("dimensions", "What each dimension costs to remove", _costs(runs)),
        Section("reconstructions", "The same test inputs through each model", _reconstructions(runs, inputs)),
        Section("settings", "Settings that differ", _settings(runs)),
    ]
    about = f"narrows · {names}" + (f" · {front.path}" if front else "")
    return Page(title, title, about, sections=sections)


def _front(runs: list[Compared], out: Path, front: FrontFolder | None) -> list[Block]:
    """Return a front's chart, and how many of its runs are missing."""
    if front is None:
        return []
    done = [(one.run.result, one.link(out)) for one in runs if one.run.result is not None]
    count = len(front.read_about()["taus"])
    blocks: list[Block] = []
    if len(done) < count:
        blocks.append(Text(f"{count - len(done)} of {count} not done yet.", "lead"))
    if done:
        chart = charts.front_chart(*zip(*done, strict=True))
        note = "each point is a model and links to its report; filled points keep the promise on test inputs"
        blocks.append(ChartFigure("front", chart, note))
    return blocks


def _answers(runs: list[Compared]) -> list[Block]:
    rows = []
    for one in runs:
        run, result, tau = one.run, one.run.result, one.run.tau
        promise = "–" if tau is None else f"{tau:.6g}"
        if result is None:
            rows.append([one.name, promise, "not ended", "", "", f"{run.rows[-1].step:,}" if run.rows else "0", ""])
            continue
        error, size = text.with_upper_end(result), f"{result.dims} of {result.n}"
        verdict = "–" if tau is None else "yes" if result.met else "no"
        rows.append([one.name, promise, size, error, verdict, f"{result.steps:,}", f"{result.seconds:,.0f}"])
    header = ["run", "τ", "dimensions", "test error", "met", "batches", "seconds"]
    if len({(*one.reading(), one.run.config.error, one.run.config.scaling) for one in runs}) == 1:
        return [Table(header, rows, numbers=True)]
    header += ["data", "error"]
    units = {"standard": ", in standard deviations", "minmax": ", in ranges"}
    for row, one in zip(rows, runs, strict=True):
        row += [one.run.name, f"{one.run.config.error}{units.get(one.run.config.scaling, '')}"]
    note = "These runs measure errors in different ways or on different data: compare dimensions, not errors."
    return [Table(header, rows, numbers=True), Text(note)]


def _training(runs: list[Compared]) -> list[Block]:
    drawn = charts.comparison_charts([(one.name, one.run) for one in runs])
    if not drawn:
        return [Text("There are no metrics yet.")]
    note = "Errors are those of held-out inputs for recipes that measure them, else of training batches."
    return [Text(note), Group("grid", [ChartFigure(f"curve-{i}", chart) for i, chart in enumerate(drawn)])]


def _costs(runs: list[Compared]) -> list[Block]:
    done = [(i, one.name, one.run.result) for i, one in enumerate(runs) if one.run.result and one.run.result.dimensions]
    return [ChartFigure("costs", charts.cost_chart(done))] if done else []


@torch.no_grad()
def _reconstructions(runs: list[Compared], inputs: _Inputs) -> list[Block]:
    """Send the same test inputs through every model that was trained on their data; only for images."""
    opened = [(one, open_trained(one.run.files.path, inputs.trusted)) for one in runs if one.run.files.model.exists()]
    opened = [(one, trained) for one, trained in opened if len(trained.shape) == 3]
    if not opened:
        return []
    first, model = opened[0]
    chosen = [(one, trained) for one, trained in opened if one.reading() == first.reading()][:MOST_ROWS]
    try:
        data = inputs.data or open_data(model)
        index = split(data, first.run.config.split_seed).test
    except (NarrowsError, OSError) as error:
        return [Text(text.unread(error))]
    x = data.exact.batch(index[:: max(1, len(index) // SHOWN)][:SHOWN])
    low, high = images.levels([layout(x)])
    rows = [layout(x), *(layout(trained.model.reconstruct(x)) for _, trained in chosen)]
    names = ["input", *(f"{one.name}: {text.plural(trained.model.n, 'dim')}" for one, trained in chosen)]
    source = images.grid([images.as_bytes(row, low, high) for row in rows])
    note, left = "reconstructed from the mean of their codes", len(runs) - len(chosen)
    if left:
        note += f"; {left} of {len(runs)} runs have other inputs or are not shown"
    alt = f"{len(x)} test inputs, and below them each model's reconstructions"
    return [Picture(source, alt, f"{len(x)} test inputs", note, names)]


def _settings(runs: list[Compared]) -> list[Block]:
    if len(runs) < 2:
        return []
    stored = [to_dict(one.run.config) for one in runs]
    rows = [
        [name, *(shown(one[name]) for one in stored)]
        for name, value in stored[0].items()
        if any(one[name] != value for one in stored)
    ]
    if not rows:
        return [Text("None: these runs have the same settings.")]
    return [Table(["setting", *(one.name for one in runs)], rows)]


def _names(folders: Sequence[RunFolder]) -> list[str]:
    """Return the folders' names, with their parents' names if two are the same."""
    short = [folder.path.resolve().name for folder in folders]
    if len(set(short)) == len(short):
        return short
    return [os.path.join(*folder.path.resolve().parts[-2:]) for folder in folders]
