"""The front: how many dimensions each tau needs, from one run.

The smallest tau comes first. When its size is found, because closing more gates has failed, the state is kept. The
model from before that closing has its last phase and becomes this tau's model. Then training continues from the kept
state under the next, larger tau, which may well allow what has just failed. So the number of dimensions can only fall
from one tau to the next, and no batch of the search is lost.

Each tau is an ordinary run in a folder of its own (OUT/tau-3, OUT/tau-4, ...); front.json lists them.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from narrows._util.checks import argument, path_argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.processes import on_first_process
from narrows._util.text import brief
from narrows.data import Data
from narrows.recipes.registry import RECIPES
from narrows.runs.cell import front_cell
from narrows.runs.folder import RunFolder, claim_folder
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result
from narrows.training.build import make_accelerator
from narrows.training.checkpoint import Damaged, load_newest, read_checkpoint
from narrows.training.config import LARGEST, PROMISES, SMALLEST, TrainConfig, config_from_dict, to_dict
from narrows.training.listeners import Listener
from narrows.training.request import is_front_begun, with_equipment
from narrows.training.setup import make_plan
from narrows.training.sinks import FolderSink
from narrows.training.start import LISTENER, AnyData, check_arguments, interrupted_in, load_data, named_data
from narrows.training.state import check_state
from narrows.training.trainer import Trainer


@dataclass(frozen=True, eq=False)
class FrontOutcome:
    """What a front leaves."""

    results: list[Result]
    """The answers, for the smallest tau first."""
    folder: FrontFolder
    data: Data
    warnings: list[str] = field(default_factory=list)
    """One line per damaged checkpoint that was skipped."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return front_cell(self.results, str(self.folder.path))


def train_front(
    config: TrainConfig,
    taus: Sequence[float | str],
    out: str | os.PathLike[str] | None = None,
    data: AnyData | None = None,
    listener: Listener | None = None,
    resume: bool = False,
) -> FrontOutcome:
    """Find the number of dimensions for each tau.

    Arguments:
        config: The settings, without a promise.
        taus: The promises, numbers or texts of numbers, in any order.
        out: The front's folder, new or empty; by default the next free runs/NAME-front-1, ...
        data: As for `train`.
        listener: Hears how training goes.
        resume: Start the front if `out` does not hold it yet, continue it if it was stopped, and return its answers if
            it has ended.

    Raises:
        NarrowsError: Settings, taus or data cannot be used, the folder cannot be written, or it holds something else.
    """
    config, listener = check_arguments(config, out, listener, resume)
    levels = checked_taus(config, taus)
    config = replace(config, data=named_data(config, data))
    make_accelerator(config)
    if resume and out is not None:
        named = FrontFolder(out)
        if on_first_process(lambda: is_front_begun(named, levels, config)):
            return _continue(named, with_equipment(_stored(named), config), data, listener)
    loaded = load_data(config, data, listener)
    trainer = Trainer(make_plan(replace(config, tau=levels[0]), loaded), listener)
    folder = on_first_process(lambda: FrontFolder(claim_folder(out, f"{loaded.name}-front")))
    on_first_process(lambda: folder.write_about(levels, to_dict(config)))
    return _train_levels(config, levels, folder, loaded, listener, trainer)


def resume_front(
    out: str | os.PathLike[str], data: AnyData | None = None, listener: Listener | None = None
) -> FrontOutcome:
    """Continue a front that was stopped: finished levels stay, and the level in progress continues.

    Arguments:
        out: The front's folder.
        data: The data, for a front that was trained on an array in memory.
        listener: Hears how training goes.
    """
    folder = FrontFolder(path_argument("out", out))
    listener = argument("listener", listener, LISTENER, or_none=True) or Listener()
    return _continue(folder, _stored(folder), data, listener)


def _stored(folder: FrontFolder) -> TrainConfig:
    return config_from_dict(folder.read_about()["config"], str(folder.about))


def _continue(folder: FrontFolder, config: TrainConfig, data: AnyData | None, listener: Listener) -> FrontOutcome:
    """Continue a front that has begun, with its settings."""
    make_accelerator(config)
    taus, loaded = folder.read_about()["taus"], load_data(config, data, listener, folder.about)
    return _train_levels(config, taus, folder, loaded, listener)


def checked_taus(config: TrainConfig, taus: Sequence[float | str]) -> list[float]:
    """Return the taus of a front in rising order; raise if they, or the settings, are not those of a front."""
    try:
        numbers = [float(tau) for tau in taus]
    except (TypeError, ValueError, OverflowError):
        raise NarrowsError(f"{setting('taus')} must be numbers, such as 3,4,6; they are {brief(taus)}") from None
    if not numbers or not all(SMALLEST <= tau <= LARGEST for tau in numbers):
        raise NarrowsError(f"{setting('taus')} must be numbers above 0, such as 3,4,6; they are {numbers}")
    given = [name for name in PROMISES if getattr(config, name) is not None]
    if given:
        raise NarrowsError(f"a front has its own {setting('taus')}; leave {setting(given[0])} out")
    recipe = RECIPES[config.recipe]
    if not (recipe.closes_gates and recipe.ends_by_itself):
        raise NarrowsError(f"a front cannot be trained with {setting('recipe', config.recipe)}; leave it out")
    twice = [number for number, count in Counter(numbers).items() if count > 1]
    if twice:
        raise NarrowsError(f"{setting('taus')} has {twice[0]:g} more than once; give each tau once")
    return sorted(numbers)


def _train_levels(
    config: TrainConfig,
    taus: Sequence[float],
    folder: FrontFolder,
    data: Data,
    listener: Listener,
    trainer: Trainer | None = None,
) -> FrontOutcome:
    """Train every level that has no answer yet; `trainer` is the first one's, if it is built already."""
    results: list[Result] = []
    warnings: list[str] = []
    previous: RunFolder | None = None
    with interrupted_in(folder.path):
        for tau in taus:
            run = folder.level(tau)
            result = on_first_process(run.read_result)
            if result is None:
                listener.stage(f"tau {tau:g}, {len(results) + 1} of {len(taus)}")
                trainer = trainer or Trainer(make_plan(replace(config, tau=tau), data), listener)
                result = _train_level(trainer, run, previous, warnings)
            results.append(result)
            on_first_process(lambda: folder.write_table(results))
            previous, trainer = run, None
    return FrontOutcome(results, folder, data, warnings)


def _train_level(trainer: Trainer, run: RunFolder, previous: RunFolder | None, warnings: list[str]) -> Result:
    """Train one level from the state in which the level before it found its size; `warnings` grow by damaged files."""
    sink = FolderSink(run, keep_settled=True)
    if on_first_process(lambda: any(run.checkpoints.glob("*.ckpt"))):
        state, damaged = load_newest(run.checkpoints, partial(check_state, trainer, began=run.began()))
        warnings += damaged
        return trainer.resume(sink, state)
    if previous is not None:
        try:
            trainer.continue_from(read_checkpoint(previous.settled, partial(check_state, trainer, same_run=False)))
        except Damaged as error:
            raise NarrowsError(f"{error}; delete {previous.path} and resume the front again") from None
    return trainer.start(sink)
