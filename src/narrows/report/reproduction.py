"""An experiment's page: our numbers beside the paper's, with budget, recipe, seed, figures and the command."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from narrows.experiments import table, training
from narrows.experiments.board import Board
from narrows.experiments.plan import Name, Options, Row
from narrows.files import write_atomic
from narrows.report import published, reproduction_figures
from narrows.report.pages import Page

TITLES: dict[Name, str] = {
    "training": "Experiment 1: how a training run goes (dSprites, n = 10, tau = 20)",
    "front": "Experiment 2: dimensions against tau (MNIST, n = 32)",
    "reconstructions": "Experiment 3: what is lost first (dSprites, tau = 20 and 35)",
    "table": "Experiment 4: as good as a plain VAE with n dimensions, starting from 2n",
}


def command(name: Name, options: Options) -> str:
    """Return the command line that makes these rows."""
    words = ["narrows reproduce", name]
    default = Options()
    for option in ("budget", "recipe", "only", "seeds", "width", "device"):
        value = getattr(options, option)
        if value != getattr(default, option):
            words.append(f"--{option} {value}")
    return " ".join([*words, "--one-run"] if options.one_run else words)


def write_page(board: Board, options: Options, rows: Sequence[Row]) -> Path:
    """Draw what the rows allow and write page.md and page.html; return the latter."""
    page = Page(TITLES[board.name])
    page.command(command(board.name, options))
    cores = f"{os.cpu_count()} cores of {platform.machine() or 'an unknown machine'}"
    page.text(
        f"Budget: {board.budget():g} of the paper's batches, networks of width {options.width}; {cores}, Python "
        f"{platform.python_version()}. Rows of other calls in the same folder are shown too. An error is the sum of an "
        f"image's squared differences, on test images, with its 95% interval; `met` means that the interval is within "
        f"tau. Seconds are training time."
    )
    {"training": _training, "front": _front, "reconstructions": _front, "table": _table}[board.name](page, board, rows)
    for path, caption in reproduction_figures.draw(board, rows):
        page.figure(path, caption)
    write_atomic(board.path / "page.md", page.markdown())
    write_atomic(board.path / "page.html", page.html())
    return board.path / "page.html"


def _training(page: Page, board: Board, rows: Sequence[Row]) -> None:
    header = ["recipe", "seed"]
    marks = training.marks(Options(budget=board.budget()))
    for mark in marks:
        printed = published.OPEN_WHILE_TRAINING.get(mark)
        header.append(f"open after {mark:,}" + (f" (paper: {printed.value:g})" if printed else ""))
    lines = [[row.recipe, str(row.seed), *_opened(row, len(marks)), *_outcome(row)] for row in rows]
    page.table([*header, *OUTCOME], lines)
    page.text(f"The paper's numbers: {_places(published.OPEN_WHILE_TRAINING)}.")


def _front(page: Page, board: Board, rows: Sequence[Row]) -> None:
    printed = published.FRONT if board.name == "front" else published.RECONSTRUCTIONS
    lines = []
    for row in rows:
        known = printed.get(int(row.tau or 0))
        paper = f"{known.value:g}" if known else "figure only"
        lines.append([f"{row.tau:g}", _source(row), str(row.seed), paper, *_outcome(row)])
    page.table(["tau", "recipe", "seed", "paper's dimensions", *OUTCOME], lines)
    page.text(f"The paper's numbers: {_places(printed)}.")


def _table(page: Page, board: Board, rows: Sequence[Row]) -> None:
    marks = [f"{max(1, round(board.budget() * mark)):,}" for mark in table.MARKS]
    header = ["set", "n", "recipe", "seed", "plain VAE's error (paper's)"]
    header += [
        f"open after {mark} (paper after {full // 1000}K)" for mark, full in zip(marks, table.MARKS, strict=True)
    ]
    lines = []
    for row in rows:
        printed = published.TABLE[(row.set, row.n // 2)]
        opened = [f"{ours} ({theirs})" for ours, theirs in zip(_opened(row, len(marks)), printed.open, strict=True)]
        error = "" if row.tau is None or row.status != "done" else f"{row.tau:.4g} "
        lines.append(
            [
                row.set,
                str(row.n // 2),
                row.recipe,
                str(row.seed),
                f"{error}({printed.error:g})",
                *opened,
                *_outcome(row),
            ]
        )
    page.table([*header, *OUTCOME], lines)
    page.text(
        f"The paper's numbers: {published.TABLE_PLACE}. Batches are those of the plain VAE and of the narrow one."
    )


OUTCOME = ("our dimensions", "test error", "met", "batches", "seconds", "run")


def _outcome(row: Row) -> list[str]:
    """Return the cells that every experiment has; of a row without a result, why."""
    if row.status != "done":
        return [f"{row.status}{': ' if row.reason else ''}{row.reason}", "", "", "", "", ""]
    steps = f"{row.steps:,}" if row.baseline_steps is None else f"{row.baseline_steps:,} + {row.steps:,}"
    error = f"{row.error:.4g} ({row.low:.4g} to {row.high:.4g})"
    return [str(row.dims), error, "yes" if row.met else "no", steps, f"{row.seconds:.0f}", row.run]


def _opened(row: Row, count: int) -> list[str]:
    return list(map(str, row.open)) if row.open else [""] * count


def _source(row: Row) -> str:
    return f"{row.recipe}, one run" if row.one_run else row.recipe


def _places(printed: dict[int, published.Printed]) -> str:
    return "; ".join(dict.fromkeys(one.where for one in printed.values()))
