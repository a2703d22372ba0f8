"""All jobs of an experiment, one after another or in parallel; the rows of a job are stored as soon as it ends."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from narrows._util.errors import NarrowsError, as_option
from narrows.paper.folder import ExperimentFolder
from narrows.paper.job import DataMissing, run_job
from narrows.paper.plan import Job, Row
from narrows.sweeps.engine import Engine, Task, run_tasks
from narrows.sweeps.process import Ended
from narrows.training.listeners import Listener


def run_jobs(
    folder: ExperimentFolder,
    jobs: Sequence[Job],
    engine: Engine,
    listener: Listener,
    on_rows: Callable[[list[Row]], object],
) -> list[Row]:
    """Run the jobs that are not done and return all rows; a job that fails does not stop the others.

    Arguments:
        folder: The experiment's folder.
        jobs: What to run.
        engine: Where, and how many at a time. One at a time on this machine trains in this process, so that `listener`
            hears of every batch.
        listener: Hears how training goes.
        on_rows: Called with all rows whenever a job ends.
    """
    unfinished: dict[str, list[Row]] = {}

    def update() -> list[Row]:
        rows = folder.rows(jobs, unfinished)
        folder.write_table(rows)
        return rows

    def ended(job: Job, rows: list[Row]) -> None:
        unfinished[job.key] = rows
        on_rows(update())

    def task_ended(task: Task, how: Ended) -> None:
        job = by_key[task.name]
        rows = how.value or job.rows("failed", f"{how.reason or 'it was stopped by a signal'}; --resume tries again")
        listener.stage(f"{job.key}: {rows[0].status}")
        ended(job, rows)

    update()
    todo = [job for job in jobs if folder.read_rows(job.key) is None]
    if engine.name == "local" and engine.jobs == 1:
        for i, job in enumerate(todo):
            listener.stage(f"{job.key}: {i + 1} of {len(todo)}")
            ended(job, attempt(folder, job, listener))
        return update()
    by_key = {job.key: _with_threads(job, engine.task.cpus) for job in todo}
    tasks = [Task(key, partial(attempt, folder, job)) for key, job in by_key.items()]
    run_tasks(tasks, engine, folder.path, task_ended)
    return update()


def attempt(folder: ExperimentFolder, job: Job, listener: Listener | None = None) -> list[Row]:
    """Run one job and store its rows; if it cannot be run, return rows with the reason."""
    try:
        rows = run_job(job, folder.path, listener or Listener())
        folder.write_rows(job.key, rows)
        return rows
    except NarrowsError as error:
        return job.rows("missing" if isinstance(error, DataMissing) else "failed", error.spelled(as_option))


def _with_threads(job: Job, threads: int) -> Job:
    baseline = None if job.baseline is None else replace(job.baseline, threads=threads)
    return replace(job, config=replace(job.config, threads=threads), baseline=baseline)
