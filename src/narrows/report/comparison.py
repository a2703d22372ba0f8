"""Several runs on one page: their answers side by side, their curves in one chart, the same inputs through each.

A front is such a page with a curve on top: dimensions against tau, every point a model with a report of its own.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch

from narrows.data import Data, split
from narrows.errors import NarrowsError
from narrows.files import write_atomic
from narrows.fronts import FrontFolder
from narrows.report import charts, elements, sheets, words
from narrows.runs import Result, RunFolder
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.using import Trained, layout, open_data, open_trained

SHOWN = 12
"""Test inputs that go through every model."""
READING = ("data", "source", "image_size", "skip_broken", "columns", "values", "split_seed")
"""Settings that must agree for two runs to have the same test inputs."""
MOST_ROWS = 24
"""Models in the sheet of reconstructions."""


class Compared:
    """One of the runs, with a name that tells it from the others."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.folder, self.name = folder, name
        self.config: TrainConfig = config_from_dict(folder.read_config(), str(folder.config))
        self.result: Result | None = folder.read_result()
        self.rows = folder.read_rows()

    def link(self, out: Path) -> str | None:
        """Return where its own report is, as seen from the page `out`."""
        if not self.folder.report.exists():
            return None
        return quote(Path(os.path.relpath(self.folder.report.resolve(), out.resolve().parent)).as_posix())


def write_comparison(folders: Sequence[RunFolder], out: Path, data: Data | None = None) -> Path:
    """Write a page about several runs."""
    runs = [Compared(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    write_atomic(out, _page(f"{len(runs)} runs compared", runs, out, data, None))
    return out


def write_front(folder: FrontFolder, data: Data | None = None, out: Path | None = None) -> Path:
    """Write a front's page: the curve, and what its models do."""
    out = out or folder.report
    taus = folder.read_about()["taus"]
    levels = [folder.level(tau) for tau in taus]
    runs = [Compared(level, f"τ {tau:g}") for tau, level in zip(taus, levels, strict=True) if level.config.exists()]
    write_atomic(out, _page(_front_title(runs), runs, out, data, folder))
    return out


def _front_title(runs: list[Compared]) -> str:
    done = [run.result for run in runs if run.result is not None]
    if len(done) < 2:
        return "Dimensions against τ"
    first, last = done[0], done[-1]
    return f"From {words.plural(first.dims, 'dimension')} at τ {first.tau:g} to {last.dims} at τ {last.tau:g}"


def _page(title: str, runs: list[Compared], out: Path, data: Data | None, front: FrontFolder | None) -> str:
    where = ", ".join(dict.fromkeys(Path(run.config.data).name for run in runs))
    parts = [
        ("answers", "The answers", _answers(runs, out, front)),
        ("training", "How training went", _training(runs)),
        ("dimensions", "What each dimension is worth", _costs(runs)),
        ("reconstructions", "The same test inputs through each model", _reconstructions(runs, data)),
        ("settings", "Settings that differ", _settings(runs)),
    ]
    made = [part for part in parts if part[2]]
    links = elements.navigation((identity, identity.capitalize()) for identity, _, _ in made)
    about = elements.paragraph(f"narrows · {where}" + (f" · {front.path}" if front else ""), "about")
    sections = "\n".join(elements.section(*part) for part in made)
    body = f"<header>{about}<h1>{elements.escape(title)}</h1>{links}</header>\n<main>{sections}</main>"
    return elements.document(title, body)


def _answers(runs: list[Compared], out: Path, front: FrontFolder | None) -> str:
    rows = []
    mixed = len({_measure(run) for run in runs}) > 1
    for run in runs:
        result = run.result
        tau = run.config.tau if result is None else result.tau
        promise = "–" if tau is None else f"{tau:.6g}"
        if result is None:
            rows.append([run.name, promise, "not ended", "", "", f"{run.rows[-1].step:,}" if run.rows else "0", ""])
            continue
        held = result.heldout
        error = f"{held.error:.4g} ({held.low:.4g} to {held.high:.4g})"
        verdict = "–" if tau is None else "yes" if result.met else "no"
        size = f"{result.dims} of {result.n}"
        rows.append([run.name, promise, size, error, verdict, f"{result.steps:,}", f"{result.seconds:,.0f}"])
    header = ["run", "τ", "dimensions", "test error (95%)", "met", "batches", "seconds"]
    if mixed:
        header += ["data", "error is"]
        rows = [[*row, Path(run.config.data).name, _kind(run.config)] for row, run in zip(rows, runs, strict=True)]
    table = elements.table(header, rows, numbers=True)
    if mixed:
        word = "These runs count errors in different ways or on different data: compare dimensions, not errors."
        table += elements.paragraph(word, "note")
    own = [
        f'<a href="{elements.escape(link)}">{elements.escape(run.name)}</a>' for run in runs if (link := run.link(out))
    ]
    reports = f'<p class="note">Reports of their own: {", ".join(own)}.</p>' if own else ""
    if front is None:
        return table + reports
    done = [run for run in runs if run.result is not None]
    missing = len(front.read_about()["taus"]) - len(done)
    note = elements.paragraph(f"{missing} of {missing + len(done)} not done yet.", "lead") if missing else ""
    if not done:
        return note + table
    results = [run.result for run in done if run.result is not None]
    spec = charts.front_chart(results, [run.link(out) for run in done])
    word = "a point is a model, filled if the promise is kept on test inputs; it leads to its report"
    return note + elements.chart("front", "Dimensions against τ", spec, word) + table + reports


def _measure(run: Compared) -> tuple[object, ...]:
    """Return what must agree for two runs' errors to be comparable."""
    return *_reading(run), run.config.error, run.config.scaling


def _kind(config: TrainConfig) -> str:
    """Say how a run counts its error."""
    unit = {"standard": ", in deviations", "minmax": ", in ranges"}.get(config.scaling, "")
    return f"{config.error}{unit}"


def _training(runs: list[Compared]) -> str:
    most = max((row.open for run in runs for row in run.rows), default=1)
    taus = [run.config.tau if run.result is None else run.result.tau for run in runs]
    made = charts.many_charts([(run.name, run.rows) for run in runs], taus, most)
    if not made:
        return elements.paragraph("There are no metrics yet.", "note")
    drawn = "".join(elements.chart(f"curve-{i}", title, spec) for i, (title, spec) in enumerate(made))
    hint = "Errors are those of held-out inputs where a run watched them, else of training batches."
    return elements.paragraph(hint, "note") + f'<div class="grid">{drawn}</div>'


def _costs(runs: list[Compared]) -> str:
    done = [(i, run.name, run.result) for i, run in enumerate(runs) if run.result and run.result.dimensions]
    if not done:
        return ""
    return elements.chart("costs", "Cost of removal of each kept dimension, largest first", charts.cost_chart(done))


def _reconstructions(runs: list[Compared], data: Data | None) -> str:
    """Send the same test inputs through every model whose inputs they are."""
    opened = [(run, open_trained(run.folder.path)) for run in runs if run.folder.model.exists()]
    trained = [one for one in opened if len(one[1].shape) == 3]
    if not trained:
        return ""
    first, model = trained[0]
    chosen = [one for one in trained if _reading(one[0]) == _reading(first)][:MOST_ROWS]
    try:
        data = data or open_data(model)
        index = split(data, first.config.split_seed).test
    except (NarrowsError, OSError) as error:
        return elements.paragraph(words.sentence(f"The test inputs could not be read: {error}"), "note")
    x = data.examples.batch(index[:: max(1, len(index) // SHOWN)][:SHOWN])
    low, high = sheets.levels([layout(x)])
    rows = [layout(x), *(_through(one, x) for _, one in chosen)]
    names = ["input", *(f"{run.name}: {words.plural(one.model.n, 'dim')}" for run, one in chosen)]
    source = sheets.grid([sheets.as_bytes(row, low, high) for row in rows])
    about = f"{len(x)} test inputs, and below them what each model makes of them"
    left = len(runs) - len(chosen)
    note = "decoding the mean" + (f"; {left} of {len(runs)} runs have other inputs or are not shown" if left else "")
    return elements.sheet(source, about, names, f"{len(x)} test inputs", note)


@torch.no_grad()
def _through(trained: Trained, x: torch.Tensor) -> np.ndarray:
    return layout(trained.model.reconstruct(x))


def _reading(run: Compared) -> list[object]:
    return [getattr(run.config, name) for name in READING]


def _settings(runs: list[Compared]) -> str:
    if len(runs) < 2:
        return ""
    stored = [to_dict(run.config) for run in runs]
    rows = []
    for name in stored[0]:
        values = [one[name] for one in stored]
        if any(value != values[0] for value in values):
            rows.append([name, *("–" if value is None else str(value) for value in values)])
    if not rows:
        return elements.paragraph("None: these runs were told the same.", "note")
    return elements.table(["setting", *(run.name for run in runs)], rows)


def _names(folders: Sequence[RunFolder]) -> list[str]:
    """Return the folders' names, with their parents' where two are called the same."""
    short = [folder.path.resolve().name for folder in folders]
    if len(set(short)) == len(short):
        return short
    return [os.path.join(*folder.path.resolve().parts[-2:]) for folder in folders]
