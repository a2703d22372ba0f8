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

from narrows._util.checks import argument, instance_of, path_argument
from narrows._util.errors import NarrowsError, setting
from narrows.data import Data, absolute, from_array, from_dataset
from narrows.data.load import read
from narrows.model.storage import load_model
from narrows.recipes.registry import RECIPES
from narrows.runs.folder import RunFolder, claim_folder
from narrows.runs.front import FRONT
from narrows.runs.records import Result
from narrows.training.checkpoint import load_newest
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan, on_first_process, tau_as_good
from narrows.training.signals import Interrupted, ended_by
from narrows.training.sinks import FolderSink
from narrows.training.state import check_state
from narrows.training.trainer import Trainer

IN_MEMORY = "(an array in memory)"
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


def train(
    config: TrainConfig,
    out: str | os.PathLike[str] | None = None,
    data: AnyData | None = None,
    listener: Listener | None = None,
) -> Outcome:
    """Train a model under `config`. Nothing is written before settings and data are known to be usable.

    Arguments:
        config: The settings.
        out: The run's folder, new or empty; by default the next free runs/NAME-1, runs/NAME-2, ...
        data: `Data`, an array, a tensor or a torch Dataset; by default what `config.data` names.
        listener: Hears how training goes.

    Returns:
        The answer, the run's folder and the data.

    Raises:
        NarrowsError: Settings or data cannot be used, or the folder cannot be written.
        Interrupted: Ctrl-C or SIGTERM stopped the run, whose checkpoint is written; it is a KeyboardInterrupt.
    """
    config, listener = check_arguments(config, out, listener)
    config = replace(config, data=absolute(config.data) if data is None else IN_MEMORY)
    loaded = load_data(config, data, listener)
    first = config if config.as_good_as is None else _reference(config)
    trainer = Trainer(make_plan(first, loaded), listener)
    folder = on_first_process(config, lambda: RunFolder(claim_folder(out, loaded.name)))
    with interrupted_in(folder.path):
        if config.as_good_as is None:
            return Outcome(trainer.start(FolderSink(folder)), folder, loaded)
        on_first_process(config, lambda: folder.write_config(to_dict(config), new=True))
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
    folder, listener = (
        RunFolder(path_argument("out", out)),
        argument("listener", listener, LISTENER, or_none=True) or Listener(),
    )
    if (folder.path.parent / FRONT).exists():
        raise NarrowsError(f"{out} is one tau of a front; continue with `narrows resume {folder.path.parent}`")
    config = config_from_dict(folder.read_config(), str(folder.config))
    finished = folder.read_result()
    if steps is not None:
        if RECIPES[config.recipe].ends_by_itself and finished is not None:
            larger = f"a larger {setting('steps')}, or none"
            other = setting("effort", "thorough") if config.steps == "auto" else larger
            raise NarrowsError(f"{out} has had its last phase and cannot continue; start a new run with {other}")
        config = replace(config, steps=steps).checked()
    ended = finished is not None and config.as_good_as is None and config.steps in ("auto", finished.steps)
    if finished is not None and ended and _is_whole(folder.model):
        return Outcome(finished, folder, None)
    loaded = load_data(config, data, listener)
    with interrupted_in(folder.path):
        if config.as_good_as is not None:
            return _train_as_good_as(config, folder, loaded, listener)
        trainer = Trainer(make_plan(config, loaded), listener)
        if on_first_process(config, folder.is_untouched):  # killed before its first checkpoint
            return Outcome(trainer.start(FolderSink(folder)), folder, loaded)
        state, warnings = load_newest(folder.checkpoints, partial(check_state, trainer))
        if finished is not None and finished.steps not in state["looks"]:
            state["looks"].append(finished.steps)  # a damaged checkpoint knew of it
        if config.steps != "auto" and config.steps < state["step"]:
            raise NarrowsError(
                f"{setting('steps', config.steps)} is less than the {state['step']} batches already trained"
            )
        return Outcome(trainer.resume(FolderSink(folder), state), folder, loaded, warnings)


def check_arguments(config: TrainConfig, out: Any, listener: Any) -> tuple[TrainConfig, Listener]:
    """Return the checked settings and a listener; raise if what a caller gave is something else."""
    checked = argument("config", config, CONFIG).checked()
    if out is not None:
        path_argument("out", out)
    return checked, argument("listener", listener, LISTENER, or_none=True) or Listener()


def _is_whole(model: Path) -> bool:
    """Return whether a run's model can be loaded; otherwise the run ends once more, from its last checkpoint."""
    try:
        load_model(model)
    except NarrowsError:
        return False
    return True


def _reference(config: TrainConfig) -> TrainConfig:
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
    if trainer is None and on_first_process(config, plain.config.exists):
        resumed = resume(plain.path, data=data, listener=listener)
        reference, warnings = resumed.result, resumed.warnings
    else:
        trainer = trainer or Trainer(make_plan(_reference(config), data), listener)
        reference = trainer.start(FolderSink(plain))
    n = 2 * count if config.n == "auto" else config.n
    narrow = replace(config, as_good_as=None, tau=tau_as_good(reference.validation, config, data), n=n)
    listener.stage(f"now from {n} dimensions, as few as are as good as that one")
    return Outcome(Trainer(make_plan(narrow, data), listener).start(FolderSink(folder)), folder, data, warnings)


@contextlib.contextmanager
def interrupted_in(path: Path) -> Iterator[None]:
    """Let an interruption of a part of a run, or between its parts, name the folder of the whole."""
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(stopped.step, path, stopped.number) from None
    except KeyboardInterrupt as stopped:
        raise Interrupted(0, path, ended_by(stopped)) from None


def load_data(config: TrainConfig, given: AnyData | None, listener: Listener) -> Data:
    """Return the data that were passed, or else those that the settings name."""
    if given is None and config.data == IN_MEMORY:
        raise NarrowsError("this run was trained on an array in memory; resume it from Python, with data=...")
    options = config.reading()
    if given is not None and config.data == IN_MEMORY and options.given():
        name = options.given()[0]
        raise NarrowsError(
            f"{setting(name)} is for data that narrows reads itself; leave it out with data=..., or use load"
        )
    if isinstance(given, Data):
        return given
    if isinstance(given, TorchDataset):
        return from_dataset(given, config.values, progress=listener.loading)
    if given is not None:
        return from_array(given, config.values)
    try:
        found = read(config.data, options, listener.loading)
        if found.stream is not None:
            found.stream.split(config.split_seed)  # copies what is held out, while loading is shown
        return found
    finally:
        listener.loaded()
