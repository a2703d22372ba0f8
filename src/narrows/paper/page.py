"""An experiment's page: our numbers beside the paper's, with budget, recipe, seed, figures and the command."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from narrows._util.files import write_atomic
from narrows.paper import figures, published, table, training
from narrows.paper.folder import ExperimentFolder
from narrows.paper.plan import Name, Options, Row
from narrows.report import settings
from narrows.report.html import Block, Command, Page, Picture, Table, Text
from narrows.report.images import data_uri

TITLES: dict[Name, str] = {
    "training": "Experiment 1: how a training run goes (dSprites, n = 10, tau = 20)",
    "front": "Experiment 2: dimensions against tau (MNIST, n = 32)",
    "reconstructions": "Experiment 3: what is lost first (dSprites, tau = 20 and 35)",
    "table": "Experiment 4: as good as a plain VAE with n dimensions, starting from 2n",
}


def command(name: Name, options: Options) -> list[str]:
    """Return the words of the command that makes these rows."""
    return ["narrows", "reproduce", name, *settings.options(options)]


def write_page(folder: ExperimentFolder, options: Options, rows: Sequence[Row]) -> Path:
    """Draw the figures that the rows allow, write page.md and page.html, and return the latter."""
    cores = f"{os.cpu_count()} cores of {platform.machine() or 'an unknown machine'}"
    about = (
        f"Budget: {folder.budget():g} of the paper's batches, networks of width {options.width}; {cores}, Python "
        f"{platform.python_version()}. Rows from other calls with the same folder are shown too. An error is the sum "
        f"of an image's squared differences, on test images, with its upper end; `met` means that the upper end is "
        f"within tau. Seconds are training time."
    )
    tables = {"training": _training, "front": _front, "reconstructions": _front, "table": _table}
    place = Text(f"The paper's numbers: {published.PLACES[folder.name]}.", "")
    compared = tables[folder.name](folder, rows)
    blocks = [Command(command(folder.name, options)), Text(about, ""), *compared, place]
    drawn, title = figures.draw(folder, rows), TITLES[folder.name]
    pictures = [Picture(data_uri(path.read_bytes()), caption, caption, style="drawn") for path, caption in drawn]
    captions = [f"![{caption}]({path.name})\n\n{caption}" for path, caption in drawn]
    markdown = "\n\n".join([f"# {title}", *map(_markdown, blocks), *captions])
    write_atomic(folder.path / "page.md", f"{markdown}\n")
    write_atomic(folder.path / "page.html", Page(title, title, blocks=[*blocks, *pictures]).html())
    return folder.path / "page.html"


def _markdown(block: Block) -> str:
    if isinstance(block, Table):
        lines = [block.header, ["---"] * len(block.header), *block.rows]
        cells = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)
    if isinstance(block, Command):
        return f"```\n{' '.join(block.options())}\n```"
    assert isinstance(block, Text)
    return block.text


def _training(folder: ExperimentFolder, rows: Sequence[Row]) -> list[Block]:
    header = ["recipe", "seed"]
    marks = training.marks(Options(budget=folder.budget()))
    for mark in marks:
        printed = published.OPEN_WHILE_TRAINING.get(mark)
        header.append(f"open after {mark:,}" + (f" (paper: {printed})" if printed else ""))
    lines = [[row.recipe, str(row.seed), *_opened(row, len(marks)), *_outcome(row)] for row in rows]
    return [Table([*header, *OUTCOME], lines)]


def _front(folder: ExperimentFolder, rows: Sequence[Row]) -> list[Block]:
    printed = published.FRONT if folder.name == "front" else published.RECONSTRUCTIONS
    lines = []
    for row in rows:
        paper = str(printed.get(int(row.tau or 0), "figure only"))
        recipe = f"{row.recipe}, one run" if row.one_run else row.recipe
        lines.append([f"{row.tau:g}", recipe, str(row.seed), paper, *_outcome(row)])
    return [Table(["tau", "recipe", "seed", "paper's dimensions", *OUTCOME], lines)]


def _table(folder: ExperimentFolder, rows: Sequence[Row]) -> list[Block]:
    marks = [f"{max(1, round(folder.budget() * mark)):,}" for mark in table.MARKS]
    header = ["set", "n", "recipe", "seed", "plain VAE's error (paper's)"]
    header += [f"open after {ours} (paper: {full // 1000}K)" for ours, full in zip(marks, table.MARKS, strict=True)]
    lines = []
    for row in rows:
        printed = published.TABLE[(row.set, row.n // 2)]
        opened = [f"{ours} ({theirs})" for ours, theirs in zip(_opened(row, len(marks)), printed.open, strict=True)]
        error = "" if row.tau is None or row.status != "done" else f"{row.tau:.4g} "
        known = [row.set, str(row.n // 2), row.recipe, str(row.seed), f"{error}({printed.error:g})"]
        lines.append([*known, *opened, *_outcome(row)])
    return [Table([*header, *OUTCOME], lines), Text("Batches are those of the plain VAE and of the narrow one.", "")]


OUTCOME = ("our dimensions", "test error", "met", "batches", "seconds", "run")


def _outcome(row: Row) -> list[str]:
    """Return the cells that every experiment has; for a row without a result, the reason."""
    if row.status != "done":
        return [f"{row.status}{': ' if row.reason else ''}{row.reason}", "", "", "", "", ""]
    steps = f"{row.steps:,}" if row.baseline_steps is None else f"{row.baseline_steps:,} + {row.steps:,}"
    error = f"{row.error:.4g} (at most {row.high:.4g})"
    return [str(row.dims), error, "yes" if row.met else "no", steps, f"{row.seconds:.0f}", row.run]


def _opened(row: Row, count: int) -> list[str]:
    return list(map(str, row.open)) if row.open else [""] * count
