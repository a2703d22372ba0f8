"""What the process of one run does: the idempotent run in its own folder, and its report."""

import socket
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from narrows._util.errors import NarrowsError
from narrows.inference.trained import was_named
from narrows.report.comparison import write_front
from narrows.report.run_page import write_report
from narrows.runs.folder import InUse
from narrows.runs.records import Result
from narrows.sweeps.folder import ABOUT, read_about
from narrows.sweeps.plan import Run
from narrows.training.front import train_front
from narrows.training.start import train

RELEASED = 60.0
"""Seconds after which a process that was killed, here or on another node, holds its folder no more."""
Outcome = TypeVar("Outcome")


def train_run(run: Run, taus: Sequence[float], sweep: Path, token: str) -> list[Result]:
    """Start a run, or continue it from wherever it stopped, and return its answer; for a front, one per tau.

    Arguments:
        run: The run.
        taus: With them, it is a front.
        sweep: The folder of the sweep.
        token: What its sweep.json must hold.

    Raises:
        NarrowsError: The run cannot be trained, or this node does not see the folder.
    """
    _check_shared(sweep, token)
    out = sweep / run.name
    if taus:
        front = _patiently(lambda: train_front(run.config, taus, out, resume=True))
        levels = [front.folder.level(result.tau or 0.0) for result in front.results]
        _report(
            *(partial(write_report, level, front.data) for level in levels),
            partial(write_front, front.folder, front.data),
        )
        return front.results
    outcome = _patiently(lambda: train(run.config, out, resume=True))
    if not outcome.folder.report.exists():
        trust = was_named(outcome.folder, [run.config.data])
        _report(partial(write_report, outcome.folder, outcome.data, trust_data=trust))
    return [outcome.result]


def _report(*writers: Callable[[], object]) -> None:
    """Write reports; if one fails, the log says why, and the answer is safe."""
    try:
        for write in writers:
            write()
    except Exception:
        traceback.print_exc()


def _check_shared(sweep: Path, token: str) -> None:
    """Raise if the folder is not the one that the sweep was started in."""
    about = sweep / ABOUT
    if not about.exists() or read_about(about)["token"] != token:
        raise NarrowsError(
            f"node {socket.gethostname()} does not see the sweep's folder {sweep}; put it on a file system that all "
            f"nodes share"
        )


def _patiently(start: Callable[[], Outcome]) -> Outcome:
    """Start a run; if its folder is still held by a process that is about to end with its node, wait for that."""
    end = time.monotonic() + RELEASED
    while True:
        try:
            return start()
        except InUse:
            if time.monotonic() > end:
                raise
            time.sleep(1)
