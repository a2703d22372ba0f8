"""An experiment's jobs, done one after the other or several at a time; each has its rows as soon as it has ended."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.context import SpawnProcess

from narrows.allocator import keep_memory
from narrows.errors import NarrowsError
from narrows.experiments.board import Board
from narrows.experiments.plan import Job, Row
from narrows.experiments.work import NotHere, work
from narrows.training.display import Display
from narrows.training.signals import Interrupted, StopRequest

Told = Callable[[list[Row]], object]
"""Hears all rows whenever there is something new."""


def run(board: Board, jobs: Sequence[Job], parallel: int, display: Display, told: Told) -> list[Row]:
    """Do the jobs that are not done, and return all rows. A job that fails does not stop the others."""
    outcome: dict[str, list[Row]] = {}

    def ended(job: Job, rows: list[Row]) -> None:
        outcome[job.key] = rows
        everything = board.rows(jobs, outcome)
        board.write_table(everything)
        told(everything)

    board.write_table(board.rows(jobs))
    todo = [job for job in jobs if board.done(job.key) is None]
    if parallel == 1:
        for i, job in enumerate(todo):
            display.stage(f"{job.key}: {i + 1} of {len(todo)}")
            ended(job, attempt(board, job, display))
    else:
        _side_by_side(board, todo, parallel, display, ended)
    rows = board.rows(jobs, outcome)
    board.write_table(rows)
    return rows


def attempt(board: Board, job: Job, display: Display) -> list[Row]:
    """Do one job and keep its rows; return rows that say why where it cannot be done."""
    try:
        rows = work(job, board.path, display)
        board.keep(job.key, rows)
        return rows
    except NotHere as error:
        return job.rows("missing", str(error))
    except NarrowsError as error:
        return job.rows("failed", str(error))


def _side_by_side(
    board: Board, jobs: list[Job], parallel: int, display: Display, ended: Callable[[Job, list[Row]], None]
) -> None:
    """Train up to `parallel` jobs at a time, each in a process of its own with its share of the cores."""
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // parallel)
    waiting, asked = list(jobs), 0
    running: dict[SpawnProcess, tuple[Job, multiprocessing.connection.Connection]] = {}
    with StopRequest() as stop:
        while running or (waiting and not asked):
            while waiting and len(running) < parallel and not asked:
                job = waiting.pop(0)
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(board, _with_threads(job, threads), there))
                process.start()
                there.close()
                running[process] = (job, here)
                display.stage(f"{job.key}: started, {len(waiting)} waiting")
            multiprocessing.connection.wait([process.sentinel for process in running], timeout=0.2)
            for process in [process for process in running if not process.is_alive()]:
                job, here = running.pop(process)
                rows = _answer(job, here, process.exitcode or 0)
                if rows is not None:
                    display.stage(f"{job.key}: {rows[0].status}")
                    ended(job, rows)
            if stop.signal and not asked:
                asked = stop.signal
                for process in running:
                    os.kill(process.pid or 0, asked)
    if asked:
        raise Interrupted(0, board.path, asked)


def _with_threads(job: Job, threads: int) -> Job:
    baseline = None if job.baseline is None else replace(job.baseline, threads=threads)
    return replace(job, config=replace(job.config, threads=threads), baseline=baseline)


def _answer(job: Job, here: multiprocessing.connection.Connection, code: int) -> list[Row] | None:
    """Return what a process sent before it ended; None if it was asked to stop."""
    try:
        rows: list[Row] = here.recv()
        return rows
    except EOFError:
        if code in (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM):
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return job.rows("failed", f"its process ended with {how}; --resume tries again")


def _child(board: Board, job: Job, answer: multiprocessing.connection.Connection) -> None:
    """Do one job in a process of its own, which ends when the one that started it does."""
    if hasattr(os, "setsid"):
        os.setsid()  # a terminal's Ctrl-C goes to the parent alone, which passes it on once
    keep_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer.send(attempt(board, job, Display()))
    except Interrupted as stopped:
        sys.exit(128 + stopped.number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
