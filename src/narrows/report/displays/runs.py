"""What a display takes from a run's folder: its records, and its model on test inputs."""

import os
from dataclasses import dataclass
from pathlib import Path

from narrows._util.checks import argument, path_argument
from narrows._util.errors import NarrowsError
from narrows.data import Data
from narrows.data.dataset import DATA
from narrows.inference.inspect import Inspection, inspect_model
from narrows.inference.trained import Trained, open_trained, training_data
from narrows.report.contents import RunContents, read_run
from narrows.runs.folder import RunFolder, resuming
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result

AnyRun = RunFolder | str | os.PathLike[str]


@dataclass(frozen=True)
class OpenedRun:
    """A run's model and what it does to test inputs."""

    contents: RunContents
    trained: Trained
    data: Data | None
    heldout: Inspection | None
    """None if the data cannot be read."""


def contents_of(folder: AnyRun) -> RunContents:
    """Read what a run's folder holds; raise if it is not a run's."""
    found = folder if isinstance(folder, RunFolder) else RunFolder(path_argument("folder", folder))
    if FrontFolder(found.path).about.exists():
        raise NarrowsError(f"{found.path} is a front; choose one of its runs, such as {found.path}/tau-...")
    return read_run(found)


def path_of(run: RunContents) -> Path:
    """Return the folder of a run that was read from one."""
    assert run.folder is not None
    return run.folder.path


def answer_of(run: RunContents) -> Result:
    """Return a run's answer; raise if it has not ended."""
    if run.result is None:
        path = path_of(run)
        raise NarrowsError(f"{path} has not ended, so it has no answer yet; continue it with `{resuming(path)}`")
    return run.result


def opened(folder: AnyRun, data: Data | None, trust_data: bool, needs_data: bool = True) -> OpenedRun:
    """Open a run's model and send test inputs through it, as its report does.

    Arguments:
        folder: The run's folder.
        data: The data that it was trained on; read again unless given.
        trust_data: Read the data that the run names even if its model has no fingerprint of them.
        needs_data: Raise if the data cannot be read.
    """
    argument("data", data, DATA, or_none=True)
    run = contents_of(folder)
    trained = open_trained(path_of(run), trust_data)
    try:
        found = training_data(trained, data)
    except (NarrowsError, OSError):
        if needs_data or data is not None:
            raise
        return OpenedRun(run, trained, None, None)
    return OpenedRun(run, trained, found, inspect_model(trained, found, run.config.split_seed))
