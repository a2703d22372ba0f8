"""All jobs of an experiment, one after another or in parallel; the rows of a job are stored as soon as it ends."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from narrows._util.allocator import keep_memory
from narrows._util.errors import NarrowsError, as_option
from narrows.paper.folder import ExperimentFolder
from narrows.paper.job import DataMissing, run_job
from narrows.paper.plan import Job, Row
from narrows.training.listeners import Listener
from narrows.training.signals import Interrupted, StopRequest

Ended = Callable[[Job, list[Row]], None]
STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)
"""Exit codes of a process that was asked to stop."""


def run_jobs(
    folder: ExperimentFolder,
    jobs: Sequence[Job],
    parallel: int,
    listener: Listener,
    on_rows: Callable[[list[Row]], object],
) -> list[Row]:
    """Run the jobs that are not done and return all rows; a job that fails does not stop the others.

    Arguments:
        folder: The experiment's folder.
        jobs: What to run.
        parallel: Jobs at a time.
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

    update()
    todo = [job for job in jobs if folder.read_rows(job.key) is None]
    if parallel > 1:
        _run_in_parallel(folder, todo, parallel, listener, ended)
    else:
        for i, job in enumerate(todo):
            listener.stage(f"{job.key}: {i + 1} of {len(todo)}")
            ended(job, attempt(folder, job, listener))
    return update()


def attempt(folder: ExperimentFolder, job: Job, listener: Listener) -> list[Row]:
    """Run one job and store its rows; if it cannot be run, return rows with the reason."""
    try:
        rows = run_job(job, folder.path, listener)
        folder.write_rows(job.key, rows)
        return rows
    except NarrowsError as error:
        return job.rows("missing" if isinstance(error, DataMissing) else "failed", error.spelled(as_option))


def _run_in_parallel(
    folder: ExperimentFolder, jobs: list[Job], parallel: int, listener: Listener, ended: Ended
) -> None:
    """Run up to `parallel` jobs at a time, each in its own process with its share of the cores."""
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // parallel)
    waiting, forwarded = list(jobs), 0
    running: dict[SpawnProcess, tuple[Job, Connection]] = {}
    with StopRequest() as stop:
        while running or (waiting and not stop.signal):
            while waiting and len(running) < parallel and not stop.signal:
                job = waiting.pop(0)
                answer, send = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(folder, _with_threads(job, threads), send))
                process.start()
                send.close()
                running[process] = (job, answer)
                listener.stage(f"{job.key}: started, {len(waiting)} waiting")
            wait([process.sentinel for process in running], timeout=0.2)
            for process in [process for process in running if not process.is_alive()]:
                job, answer = running.pop(process)
                rows = _received(job, answer, process.exitcode or 0)
                if rows is not None:
                    listener.stage(f"{job.key}: {rows[0].status}")
                    ended(job, rows)
            if stop.signal and not forwarded:
                forwarded = stop.signal
                for process in running:
                    os.kill(process.pid or 0, forwarded)
    if stop.signal:
        raise Interrupted(0, folder.path, stop.signal)


def _with_threads(job: Job, threads: int) -> Job:
    baseline = None if job.baseline is None else replace(job.baseline, threads=threads)
    return replace(job, config=replace(job.config, threads=threads), baseline=baseline)


def _received(job: Job, answer: Connection, code: int) -> list[Row] | None:
    """Return the rows that a process sent before it ended; None if it was asked to stop."""
    try:
        rows: list[Row] = answer.recv()
        return rows
    except EOFError:
        if code in STOPPED:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return job.rows("failed", f"its process ended with {how}; --resume tries again")


def _child(folder: ExperimentFolder, job: Job, send: Connection) -> None:
    """Run one job in a process that ends when its parent does."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C in a terminal then reaches only the parent, which forwards it once
    keep_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        send.send(attempt(folder, job, Listener()))
    except Interrupted as stopped:
        sys.exit(128 + stopped.number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
