"""Starting and resuming runs: plan, check, train, and return an `Outcome`."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from narrows._util.checks import FLAG, argument, instance_of, path_argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.processes import on_each_process, on_first_process, others_needed
from narrows._util.surroundings import check_surroundings
from narrows.data import Data, absolute, from_array, from_dataset
from narrows.data.load import MissingData, read
from narrows.model.storage import load_model, read_description
from narrows.recipes.registry import RECIPES
from narrows.runs.cell import result_cell
from narrows.runs.folder import IN_MEMORY, RunFolder, claim_folder, data_moved, resuming, way_on
from narrows.runs.front import FRONT
from narrows.runs.records import Result
from narrows.training.build import make_accelerator
from narrows.training.checkpoint import OtherRun, load_newest
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.training.listeners import Listener
from narrows.training.request import check_no_level, is_begun, with_equipment
from narrows.training.setup import make_plan, tau_as_good
from narrows.training.signals import Interrupted, ended_by
from narrows.training.sinks import FolderSink
from narrows.training.state import check_state
from narrows.training.trainer import Trainer

CONFIG = instance_of(TrainConfig, "a TrainConfig, such as TrainConfig(data='my.npy', explained=0.95)")
LISTENER = instance_of(Listener, "a narrows.training.listeners.Listener")
AnyData = Data | np.ndarray | torch.Tensor | TorchDataset[Any]
"""What Python callers may pass instead of a name or a path."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run leaves."""

    result: Result
    """The answer with its certificate."""
    folder: RunFolder
    """The run's folder, with the model and everything else."""
    data: Data | None
    """The data it was trained on; None for a run that had already ended and was not trained any further."""
    warnings: list[str] = field(default_factory=list)
    """One line per damaged checkpoint that was skipped."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return result_cell(self.result, self.folder.read_rows(), str(self.folder.path))


def train(
    config: TrainConfig,
    out: str | os.PathLike[str] | None = None,
    data: AnyData | None = None,
    listener: Listener | None = None,
    resume: bool = False,
) -> Outcome:
    """Train a model under `config`. Nothing is written before settings and data are known to be usable.

    Arguments:
        config: The settings.
        out: The run's folder, new or empty; by default the next free runs/NAME-1, runs/NAME-2, ...
        data: `Data`, an array, a tensor or a torch Dataset; by default what `config.data` names.
        listener: Hears how training goes.
        resume: Start the run if `out` does not hold it yet, continue it if it was stopped, and return its answer if it
            has ended. So the same call can be made again after anything.

    Returns:
        The answer, the run's folder and the data.

    Raises:
        NarrowsError: Settings or data cannot be used, the folder cannot be written, or it holds a run with other
            settings.
        Interrupted: Ctrl-C or SIGTERM stopped the run, whose checkpoint is written; it is a KeyboardInterrupt.
    """
    config, listener = check_arguments(config, out, listener, resume)
    config = replace(config, data=named_data(config, data))
    make_accelerator(config)  # meets the other processes
    if resume and out is not None:
        named = RunFolder(out)
        if on_first_process(lambda: is_begun(named, config)):
            return _continue(named, with_equipment(_stored(named), config), data, listener)
    loaded = load_data(config, data, listener)
    first = config if config.as_good_as is None else reference(config)
    trainer = Trainer(make_plan(first, loaded), listener)
    folder = on_first_process(lambda: RunFolder(_claim(out, loaded.name, resume)))
    with interrupted_in(folder.path):
        if config.as_good_as is None:
            return Outcome(trainer.start(FolderSink(folder, request=to_dict(config))), folder, loaded)
        on_first_process(lambda: folder.write_config(to_dict(config), new=True))
        on_first_process(lambda: folder.write_request(to_dict(config)))
        return _train_as_good_as(config, folder, loaded, listener, trainer)


def resume(
    out: str | os.PathLike[str],
    steps: int | None = None,
    data: AnyData | None = None,
    listener: Listener | None = None,
) -> Outcome:
    """Continue a stopped run exactly as if it had not stopped. A finished run is returned as it is.

    Arguments:
        out: The run's folder.
        steps: Train to this many batches in all, instead of what the run was asked for.
        data: The data, for a run that was trained on an array in memory.
        listener: Hears how training goes.

    Raises:
        NarrowsError: The folder is not a run's, its checkpoints are damaged, or the data have changed.
    """
    folder = RunFolder(path_argument("out", out))
    listener = argument("listener", listener, LISTENER, or_none=True) or Listener()
    check_no_level(folder)
    return _continue(folder, _stored(folder), data, listener, steps)


def _claim(out: str | os.PathLike[str] | None, name: str, resume: bool) -> Path:
    """Create the run's folder; with `resume`, another process may have begun the same run since it was looked for."""
    if resume and out is not None and RunFolder(out).config.exists():
        raise NarrowsError(f"another process has just begun the run in {out}; wait for it, or send the command again")
    return claim_folder(out, name)


def _stored(folder: RunFolder) -> TrainConfig:
    return config_from_dict(folder.read_config(), str(folder.config))


def _continue(
    folder: RunFolder, config: TrainConfig, data: AnyData | None, listener: Listener, steps: int | None = None
) -> Outcome:
    """Continue a run that has begun, with its settings."""
    finished = folder.read_result()
    if steps is not None:
        if RECIPES[config.recipe].ends_by_itself and finished is not None:
            larger = f"a larger {setting('steps')}, or none"
            other = setting("effort", "thorough") if config.steps == "auto" else larger
            raise NarrowsError(
                f"{folder.path} has had its last phase and cannot continue; start a new run with {other}"
            )
        config = replace(config, steps=steps).checked()
    make_accelerator(config)
    if finished is not None and config.as_good_as is None and _has_ended(config, finished) and _is_whole(folder.model):
        if data is not None:
            _check_same_data(folder, config, load_data(config, data, listener))
        return Outcome(finished, folder, None)
    loaded = load_data(config, data, listener, folder.config)
    with interrupted_in(folder.path):
        if config.as_good_as is not None:
            return _train_as_good_as(config, folder, loaded, listener)
        trainer = Trainer(make_plan(config, loaded), listener)
        if on_first_process(folder.is_untouched):  # killed before its first checkpoint
            return Outcome(trainer.start(FolderSink(folder)), folder, loaded)
        state, warnings = load_newest(folder.checkpoints, partial(check_state, trainer, began=folder.began()))
        if finished is not None and finished.steps not in state["looks"]:
            state["looks"].append(finished.steps)  # a damaged checkpoint knew of it
        if config.steps != "auto" and config.steps < state["step"]:
            raise NarrowsError(
                f"{setting('steps', config.steps)} is less than the {state['step']} batches already trained"
            )
        return Outcome(trainer.resume(FolderSink(folder), state), folder, loaded, warnings)


def _has_ended(config: TrainConfig, finished: Result) -> bool:
    """Return whether there is nothing left to train in a run that has an answer."""
    return RECIPES[config.recipe].ends_by_itself or config.steps in ("auto", finished.steps)


def _check_same_data(folder: RunFolder, config: TrainConfig, data: Data) -> None:
    """Raise if data that a caller passes are not those that a finished run was trained on."""
    known = read_description(folder.model).get("fingerprint")
    if known not in (None, make_plan(config, data).fingerprint):
        raise OtherRun(f"{folder.path} was trained on other data than these; choose another {setting('out')}")


def check_arguments(config: TrainConfig, out: Any, listener: Any, resume: Any) -> tuple[TrainConfig, Listener]:
    """Return the checked settings and a listener; raise if what a caller gave is something else."""
    check_surroundings()
    checked = argument("config", config, CONFIG).checked()
    if out is not None:
        path_argument("out", out)
    if argument("resume", resume, FLAG) and out is None:
        raise NarrowsError(f"{setting('resume')} continues the run in a folder that you name; give {setting('out')}")
    return checked, argument("listener", listener, LISTENER, or_none=True) or Listener()


def _is_whole(model: Path) -> bool:
    """Return whether a run's model can be loaded; otherwise the run ends once more, from its last checkpoint."""
    try:
        load_model(model)
    except NarrowsError:
        return False
    return True


def reference(config: TrainConfig) -> TrainConfig:
    """Return the settings of the plain VAE that sets tau: the same, without gates."""
    assert config.as_good_as is not None
    unused = {name: getattr(TrainConfig, name) for name in RECIPES["plain"].unused}
    return replace(config, recipe="plain", n=config.as_good_as, as_good_as=None, constraint="auto", **unused)


def _train_as_good_as(
    config: TrainConfig, folder: RunFolder, data: Data, listener: Listener, trainer: Trainer | None = None
) -> Outcome:
    """Train a plain VAE in plain/, or continue it, and then the narrow model that must be as good.

    As good means: tau is the upper end that the plain model is expected to have on the test split, by its errors on the
    validation split and under the terms of the narrow model's certificate, so that it would keep tau itself.
    `trainer` is the plain model's, if it is built already.
    """
    assert config.as_good_as is not None
    count, plain = config.as_good_as, RunFolder(folder.plain)
    listener.stage(f"first, a plain VAE with {count} dimension{'' if count == 1 else 's'}: which error does it have?")
    warnings: list[str] = []
    if trainer is None and on_first_process(plain.config.exists):
        resumed = resume(plain.path, data=data, listener=listener)
        plainly, warnings = resumed.result, resumed.warnings
    else:
        trainer = trainer or Trainer(make_plan(reference(config), data), listener)
        plainly = trainer.start(FolderSink(plain))
    n = 2 * count if config.n == "auto" else config.n
    narrow = replace(config, as_good_as=None, tau=tau_as_good(plainly.validation, config, data), n=n)
    listener.stage(f"now from {n} dimensions, as few as are as good as that one")
    return Outcome(Trainer(make_plan(narrow, data), listener).start(FolderSink(folder)), folder, data, warnings)


@contextlib.contextmanager
def interrupted_in(path: Path) -> Iterator[None]:
    """Let what stops a part of a run, or comes between its parts, name the folder of the whole."""
    try:
        with others_needed(lambda: way_on(path)):
            yield
    except Interrupted as stopped:
        raise Interrupted(stopped.step, path, stopped.number) from None
    except KeyboardInterrupt as stopped:
        raise Interrupted(0, path, ended_by(stopped)) from None


def named_data(config: TrainConfig, given: AnyData | None) -> str:
    """Return what the settings of a new run say about its data; raise if they name some and others are passed."""
    if given is None:
        return absolute(config.data)
    if config.data not in (TrainConfig.data, IN_MEMORY):
        raise NarrowsError(
            f"the data are named twice, as {setting('data', config.data)} and by what was passed; leave one out"
        )
    return IN_MEMORY


def load_data(config: TrainConfig, given: AnyData | None, listener: Listener, stored: Path | None = None) -> Data:
    """Return the data that were passed, or else those that the settings name; all processes have them, or none.

    `stored` is the file with the settings of a run that has begun.
    """
    return on_each_process(lambda: _load_data(config, given, listener, stored))


def _load_data(config: TrainConfig, given: AnyData | None, listener: Listener, stored: Path | None) -> Data:
    if given is None and config.data == IN_MEMORY:
        call = "narrows.train(config, data=...)" if stored is None else resuming(stored.parent)
        raise NarrowsError(f"this run was trained on an array in memory, which only Python can pass again: `{call}`")
    options = config.reading()
    if given is not None and config.data == IN_MEMORY and options.given():
        name = options.given()[0]
        raise NarrowsError(
            f"{setting(name)} is for data that narrows reads itself; leave it out with data=..., or use load"
        )
    if isinstance(given, Data):
        return given
    if isinstance(given, TorchDataset):
        return from_dataset(given, options.values, progress=listener.loading)
    if given is not None:
        return from_array(given, options.values)
    try:
        found = read(config.data, options, listener.loading)
        if found.stream is not None:
            found.stream.split(config.split_seed)  # copies what is held out, while loading is shown
        return found
    except MissingData as error:
        if stored is None:
            raise
        call = f"narrows.{'resume_front' if stored.name == FRONT else 'resume'}({str(stored.parent)!r}, data=...)"
        raise data_moved(config.data, stored, f"continue in Python with `{call}`") from error
    finally:
        listener.loaded()
