"""Where a run writes: a folder, or memory for the estimator. The trainer knows only the interface, `Sink`."""

import copy
import errno
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from narrows._util.errors import NarrowsError
from narrows.model.storage import save_model
from narrows.model.vae import VAE
from narrows.runs.folder import Records, RunFolder, way_on
from narrows.runs.front import outermost
from narrows.runs.records import DecisionRow, MetricRow, Result
from narrows.training.checkpoint import list_checkpoints, save_checkpoint, write_state
from narrows.training.signals import Interrupted, StopRequest, ended_by

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when there is no room."""
State = Callable[[], dict[str, Any]]
"""Returns the run's whole state; called only by a sink that stores it."""


class Sink:
    """The interface, and what all processes but the first use: it stores nothing.

    Arguments:
        folder: The run's folder, for listeners and messages; None for a run in memory.
        answers_when_stopped: Whether a run that is asked to stop ends with an answer, instead of with a checkpoint to
            resume from.
    """

    def __init__(self, folder: RunFolder | None = None, answers_when_stopped: bool = False) -> None:
        self.folder, self.answers_when_stopped = folder, answers_when_stopped

    def session(self) -> AbstractContextManager[StopRequest]:
        """Return what surrounds the whole run and says whether it should stop."""
        return StopRequest()

    def start(self, settings: dict[str, Any], state: State) -> None:
        """Begin a run that has no batch yet."""

    def restart(self, settings: dict[str, Any], step: int, records: Records) -> None:
        """Continue a run after batch `step`; `records` are the lines that it had written by then."""

    def write_row(self, row: MetricRow, costs: list[float] | None) -> None:
        """Store one row of metrics and the costs of removal at that batch."""

    def write_decision(self, row: DecisionRow) -> None:
        """Store one decision."""

    def write_checkpoint(self, step: int, state: State) -> None:
        """Store the state after `step` batches, so that the run can be resumed from there."""

    def write_settled(self, state: State) -> None:
        """Store the state in which the size was found."""

    def write_model(self, model: VAE, about: dict[str, Any]) -> None:
        """Store the model, in place of one stored before, with its description."""

    def write_result(self, result: Result) -> None:
        """Store the answer."""


class MemorySink(Sink):
    """Keeps what the run records, and the model.

    Arguments:
        keep_settled: Also keep the state in which the size was found; the next tau of a front continues from it.
        answers_when_stopped: Take the first Ctrl-C as a request to end training and answer with the model there is.
            Otherwise it ends the run at once, and nothing is kept.
    """

    def __init__(self, keep_settled: bool = False, answers_when_stopped: bool = False) -> None:
        super().__init__(None, answers_when_stopped)
        self.keep_settled = keep_settled
        self.stop = StopRequest([signal.SIGINT])
        self.rows: list[MetricRow] = []
        self.decisions: list[DecisionRow] = []
        self.first_costs: list[float] | None = None
        """The costs of removal that were measured first."""
        self.model: VAE | None = None
        self.about: dict[str, Any] = {}
        """The description of the model."""
        self.settled: dict[str, Any] | None = None
        """A copy of the state in which the size was found, if `keep_settled`."""

    def session(self) -> AbstractContextManager[StopRequest]:
        """Return what says whether the run should stop; signals are left as they are unless they are requests."""
        return self.stop if self.answers_when_stopped else nullcontext(self.stop)

    def request_stop(self) -> None:
        """Do what the first Ctrl-C does."""
        self.answers_when_stopped, self.stop.signal = True, signal.SIGINT

    def write_row(self, row: MetricRow, costs: list[float] | None) -> None:
        """Keep the row."""
        self.rows.append(row)
        self.first_costs = self.first_costs or costs

    def write_decision(self, row: DecisionRow) -> None:
        """Keep the decision."""
        self.decisions.append(row)

    def write_model(self, model: VAE, about: dict[str, Any]) -> None:
        """Keep the model."""
        self.model, self.about = model, about

    def write_settled(self, state: State) -> None:
        """Keep the state, once, if the next tau of a front needs it."""
        if self.keep_settled and self.settled is None:
            self.settled = copy.deepcopy(state())


class FolderSink(Sink):
    """Writes into a run's folder.

    Arguments:
        folder: The folder, which exists.
        keep_settled: Also store the state in which the size was found; the next tau of a front continues from it.
        request: The settings as they were asked for, if they are to be stored too.
    """

    def __init__(self, folder: RunFolder, keep_settled: bool = False, request: dict[str, Any] | None = None) -> None:
        super().__init__(folder)
        self.files, self.keep_settled, self.request = folder, keep_settled, request
        self.saved_step = 0
        self.records: Records = {path.name: [] for path in (folder.metrics, folder.decisions, folder.costs)}
        """The lines of the .csv files so far. Checkpoints hold them, so that a damaged file can be written anew."""

    @contextmanager
    def session(self) -> Iterator[StopRequest]:
        """Hold the folder and take signals as requests; after a second one or a full disk, say how to continue."""
        try:
            with super().session() as stop, self.files.lock():
                yield stop
        except Interrupted:
            raise
        except KeyboardInterrupt as stopped:
            raise Interrupted(self.saved_step, self.files.path, ended_by(stopped)) from None
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> NarrowsError:
        if not self.files.path.exists():
            return NarrowsError(
                f"the folder {self.files.path} was moved or deleted while its run was training; if it was moved, "
                f"resume it at its new place"
            )
        remedy = "free some space" if error.errno in FULL else "mend that"
        return NarrowsError(
            f"cannot write into {self.files.path}: {error.strerror or error}; what was saved is safe: {remedy}, then "
            f"{way_on(outermost(self.files))}"
        )

    def start(self, settings: dict[str, Any], state: State) -> None:
        """Write the settings and a checkpoint of batch 0, so that the run can be resumed from any moment on."""
        if list_checkpoints(self.files.checkpoints):
            raise NarrowsError(f"another process has just begun a run in {self.files.path}; choose another folder")
        if self.request is not None:
            self.files.write_request(self.request)
        self.files.write_config(settings)
        self.write_checkpoint(0, state)

    def restart(self, settings: dict[str, Any], step: int, records: Records) -> None:
        """Write the .csv files as they were after batch `step`, and drop the answer, which no longer holds."""
        self.saved_step = step
        self.records = {name: list(lines) for name, lines in records.items()}
        self.files.write_records(self.records)
        self.files.result.unlink(missing_ok=True)
        self.files.write_config(settings)

    def write_row(self, row: MetricRow, costs: list[float] | None) -> None:
        """Append to metrics.csv and costs.csv."""
        self.records[self.files.metrics.name].append(self.files.append_row(row))
        if costs is not None:
            self.records[self.files.costs.name].append(self.files.append_costs(row.step, costs))

    def write_decision(self, row: DecisionRow) -> None:
        """Append to decisions.csv."""
        self.records[self.files.decisions.name].append(self.files.append_decision(row))

    def write_checkpoint(self, step: int, state: State) -> None:
        """Write a checkpoint; the last two are kept."""
        save_checkpoint(self.files.checkpoints, step, {**state(), "records": self.records})
        self.saved_step = step

    def write_settled(self, state: State) -> None:
        """Write settled.ckpt, once, if the next tau of a front needs it."""
        if self.keep_settled and not self.files.settled.exists():
            write_state(self.files.settled, {**state(), "records": self.records})

    def write_model(self, model: VAE, about: dict[str, Any]) -> None:
        """Write model.safetensors."""
        self.files.path.stat()  # raises if the folder is gone
        save_model(model, self.files.model, about)

    def write_result(self, result: Result) -> None:
        """Write result.json."""
        self.files.write_result(result)
