"""Sweeps: many runs from one description, in processes of their own, and one table."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from narrows._util.checks import FLAG, argument, path_argument
from narrows._util.errors import NarrowsError
from narrows.data.load import kind_of
from narrows.sweeps.engine import Engine, EngineName, Task, run_tasks
from narrows.sweeps.folder import SweepFolder
from narrows.sweeps.page import ComparisonPage
from narrows.sweeps.plan import Plan, Run, make_plan
from narrows.sweeps.process import Ended
from narrows.sweeps.run import train_run
from narrows.sweeps.table import Row, SweepTable, row_of, write_table
from narrows.training.listeners import Listener
from narrows.training.start import LISTENER


def sweep(
    settings: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    engine: EngineName = "local",
    jobs: int | None = None,
    address: str | None = None,
    resume: bool = False,
    listener: Listener | None = None,
) -> SweepTable:
    """Train one run for every combination of settings, each in a process of its own.

    A run that fails, crashes or diverges becomes a row with its reason and stops nothing. The files of the sweep
    (sweeps/folder.py) are written whenever a run ends.

    Arguments:
        settings: A .toml or .json file, or a dict of the same form: settings of `TrainConfig`, each a value or a list,
            and under "sweep" how they are combined and what a run takes (sweeps/plan.py).
        out: The sweep's folder, new or empty; by default runs/sweep-FILE, or runs/sweep for a dict.
        engine: "local": processes on this machine; "ray": tasks on a Ray cluster.
        jobs: Runs at a time; by default as many as there are cores for, or on an existing cluster as it takes.
        address: The Ray cluster, HOST:PORT; by default RAY_ADDRESS, else one is started on this machine.
        resume: Continue what is in the folder: runs that are done stay, others continue, and those that failed are
            tried again.
        listener: Hears of every run that ends, by `stage`.

    Returns:
        The table: one row per run, or per tau of a front.

    Raises:
        NarrowsError: The settings or the engine cannot be used, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the runs have written checkpoints. It is a KeyboardInterrupt.
    """
    if not isinstance(settings, Mapping):
        settings = path_argument("settings", settings, "a .toml or .json file or a dict")
    if out is None:
        out = Path("runs") / ("sweep" if isinstance(settings, Mapping) else f"sweep-{Path(settings).stem}")
    folder = SweepFolder(Path(path_argument("out", out)).absolute())
    argument("resume", resume, FLAG)
    listener = argument("listener", listener, LISTENER, or_none=True) or Listener()
    plan = make_plan(settings)
    chosen = Engine(engine, plan.jobs if jobs is None else jobs, address, plan.task).checked()
    chosen.check_reachable()
    if not folder.about.exists():
        _check_data(plan)
    return train_all(plan, folder, chosen, resume, listener)


def _check_data(plan: Plan) -> None:
    """Raise if there are no data for any run; where some runs have theirs, the others become rows with the reason."""
    missing: list[NarrowsError] = []
    for data in dict.fromkeys(run.config.data for run in plan.runs):
        try:
            kind_of(data)
            return
        except NarrowsError as error:
            missing.append(error)
    raise missing[0]


def train_all(plan: Plan, folder: SweepFolder, engine: Engine, resume: bool, listener: Listener) -> SweepTable:
    """Train the runs of a plan that are not done, and return the rows of all."""
    token = folder.open(plan, resume)
    with folder.lock():
        progress = _Progress(plan, folder, listener)
        todo = [run for run in plan.runs if run.name not in progress.done]
        tasks = [Task(run.name, partial(train_run, run, plan.taus, folder.path, token)) for run in todo]
        try:
            run_tasks(tasks, engine, folder.path, progress.on_end)
        finally:
            progress.page.write(progress.table(), now=True)
    return progress.table()


class _Progress:
    """What is known of each run, and the files that say so."""

    def __init__(self, plan: Plan, folder: SweepFolder, listener: Listener) -> None:
        self.plan, self.folder, self.listener = plan, folder, listener
        self.page = ComparisonPage(folder.page, {run.config.data for run in plan.runs})
        self.runs = {run.name: run for run in plan.runs}
        self.rows: dict[str, list[Row]] = {}
        for run in plan.runs:
            results = folder.results(run, plan.taus)
            if results is not None:
                self.rows[run.name] = self._rows(run, results)
        self.done = set(self.rows)
        if self.done:
            listener.stage(f"{len(self.done)} of {len(self.runs)} runs are done already")
        write_table(folder.table, self.table())

    def on_end(self, task: Task, ended: Ended) -> None:
        """Note how a run ended."""
        run = self.runs[task.name]
        reason = ended.reason or ("it was stopped by a signal" if ended.stopped else "")
        rows = self._unknown(run, reason) if reason else self._rows(run, ended.value)
        self.rows[run.name] = rows
        table = self.table()
        write_table(self.folder.table, table)
        self.page.write(table)
        self.listener.stage(f"{len(self.rows)} of {len(self.runs)}: {_told(rows)}")

    def table(self) -> SweepTable:
        """Return the table as it is now."""
        rows = [row for run in self.plan.runs for row in self.rows.get(run.name) or self._unknown(run)]
        return SweepTable(tuple(rows), self.folder.path)

    def _rows(self, run: Run, results: list[Any]) -> list[Row]:
        return [row_of(name, run.swept, result) for name, result in zip(self._names(run), results, strict=True)]

    def _unknown(self, run: Run, reason: str = "") -> list[Row]:
        taus: list[float | None] = [*self.plan.taus] or [run.config.tau]
        return [
            Row(name, "failed" if reason else "not yet", reason, run.swept, tau)
            for name, tau in zip(self._names(run), taus, strict=True)
        ]

    def _names(self, run: Run) -> list[str]:
        folders = self.folder.runs(run, self.plan.taus)
        return [folder.path.relative_to(self.folder.path).as_posix() for folder in folders]


def _told(rows: list[Row]) -> str:
    """Return what happened to a run, as one line."""
    first = rows[0]
    if first.status != "done":
        return f"{first.run}: {first.reason}"
    return "; ".join(f"{row.run}: {row.dims} of {row.n} dimensions, error {row.test_error:.4g}" for row in rows)
