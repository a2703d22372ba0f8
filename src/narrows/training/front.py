"""The front: how many dimensions each tau needs, from one run.

The tightest tau comes first. When its size is found, the state is kept; a last phase makes that tau's model, and then
training goes on from the kept state under the next, looser tau, with the gates that are left. So the number of
dimensions can only fall from one tau to the next, and each level begins with a network that is nearly trained.

Each tau is an ordinary run in a folder of its own (OUT/tau-3, OUT/tau-4, ...); front.json says which there are.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from narrows.data import Data, absolute
from narrows.errors import NarrowsError
from narrows.files import write_atomic
from narrows.fronts import FrontFolder
from narrows.runs import Result, RunFolder, claim_run_path
from narrows.training.checkpoint import load_newest, read_checkpoint
from narrows.training.config import LARGEST, PROMISES, SMALLEST, TrainConfig, config_from_dict, to_dict
from narrows.training.display import Display
from narrows.training.entry import IN_MEMORY, AnyData, load_data
from narrows.training.loop import Trainer
from narrows.training.setup import on_first_process
from narrows.training.signals import Interrupted


def train_front(
    config: TrainConfig,
    taus: Sequence[float],
    out: Path | str | None = None,
    data: AnyData | None = None,
    display: Display | None = None,
) -> tuple[list[Result], FrontFolder]:
    """Find the number of dimensions for each tau, tightest first; return the answers in that order, and the folder."""
    config, display = config.checked(), display or Display()
    taus = _checked(config, taus)
    config = replace(config, data=absolute(config.data) if data is None else IN_MEMORY)
    loaded = load_data(config, data, display)
    Trainer(replace(config, tau=taus[0]), loaded, display)  # all is found good before anything is written
    folder = on_first_process(config, lambda: _prepare(config, taus, out, loaded.name))
    return _levels(config, taus, folder, loaded, display), folder


def _prepare(config: TrainConfig, taus: list[float], out: Path | str | None, name: str) -> FrontFolder:
    folder = FrontFolder(out or claim_run_path(Path("runs"), f"{name}-front"))
    RunFolder(folder.path).create()
    (folder.path / "checkpoints").rmdir()  # each tau has its own
    write_atomic(folder.about, json.dumps({"taus": taus, "config": to_dict(config)}, indent=2) + "\n")
    return folder


def resume_front(
    out: Path | str, data: AnyData | None = None, display: Display | None = None
) -> tuple[list[Result], FrontFolder]:
    """Go on with a front that was stopped: what is done stays, the level that was at work goes on where it was."""
    folder, display = FrontFolder(out), display or Display()
    about = folder.read_about()
    config = config_from_dict(about["config"], str(folder.about))
    if data is None and config.data == IN_MEMORY:
        raise NarrowsError(f"{out} was trained on an array in memory: resume it from Python, with data=...")
    return _levels(config, about["taus"], folder, load_data(config, data, display), display), folder


def _checked(config: TrainConfig, taus: Sequence[float]) -> list[float]:
    try:
        numbers = [float(tau) for tau in taus]
    except (TypeError, ValueError):
        raise NarrowsError(f"taus must be numbers, such as [3, 4, 6]; they are {taus!r}") from None
    if not numbers or not all(SMALLEST <= tau <= LARGEST for tau in numbers):
        raise NarrowsError(f"--taus must be numbers above 0, such as 3,4,6; they are {numbers}")
    given = [f"--{name.replace('_', '-')}" for name in PROMISES if getattr(config, name) is not None]
    if given:
        raise NarrowsError(f"a front has its own --taus; leave {given[0]} out")
    if config.recipe != "fast":
        raise NarrowsError(f"a front is trained with --recipe fast, not {config.recipe}")
    return sorted(set(numbers))


def _levels(
    config: TrainConfig, taus: Sequence[float], folder: FrontFolder, data: Data, display: Display
) -> list[Result]:
    results: list[Result] = []
    before: RunFolder | None = None
    for tau in taus:
        run = folder.level(tau)
        result = on_first_process(config, run.read_result)
        if result is None:
            display.stage(f"tau {tau:g}, {len(results) + 1} of {len(taus)}")
            try:
                result = _level(replace(config, tau=tau), run, before, data, display)
            except Interrupted as stopped:
                raise Interrupted(stopped.step, folder.path, stopped.number) from None
        results.append(result)
        on_first_process(config, lambda: folder.write_table(results))
        before = run
    return results


def _level(config: TrainConfig, run: RunFolder, before: RunFolder | None, data: Data, display: Display) -> Result:
    trainer = Trainer(config, data, display)
    trainer.keep_settled = True
    if on_first_process(config, lambda: any(run.checkpoints.glob("*.ckpt"))):
        state, _ = load_newest(run.checkpoints)
        return trainer.continue_in(run, state)
    if before is not None:
        settled = read_checkpoint(before.settled)
        if settled is None:
            raise NarrowsError(f"{before.settled} is missing or damaged; delete {before.path} and go on again")
        trainer.go_on_from(settled)
    return trainer.start_in(run, prepared=True)
