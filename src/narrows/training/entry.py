"""The two ways into training: start a run, or go on with one."""

from dataclasses import replace
from pathlib import Path

from narrows.data import Data, load
from narrows.errors import NarrowsError
from narrows.runs import Result, RunFolder, new_run_path
from narrows.training.checkpoint import load_newest
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.training.display import Display
from narrows.training.loop import Trainer

IN_MEMORY = "(an array in memory)"


def train(
    config: TrainConfig,
    out: Path | str | None = None,
    data: Data | None = None,
    display: Display | None = None,
) -> tuple[Result, RunFolder]:
    """Train a model under `config` and return the answer and the folder with everything.

    `data` is loaded by `config.data` unless given. `out` must not exist yet, or be empty; by default it is the next
    free runs/NAME-1, -2, ... Nothing is written before settings and data have been found good.
    """
    config.check()
    if data is None:
        data = load(config.data, config.values)
    else:
        config = replace(config, data=IN_MEMORY)
    folder = RunFolder(out if out is not None else new_run_path(Path("runs"), data.name))
    trainer = Trainer(config, data, folder, display or Display())
    trainer.create_folder()
    return trainer.run(), folder


def resume(
    out: Path | str, steps: int | None = None, data: Data | None = None, display: Display | None = None
) -> tuple[Result, RunFolder, list[str]]:
    """Go on with a stopped run exactly as if it had not stopped; with `steps`, to that many batches in all.

    Also returns a line for each damaged checkpoint that was passed over. A finished run is returned as it is.
    """
    folder = RunFolder(out)
    config = config_from_dict(folder.read_config(), str(folder.config))
    if data is None and config.data == IN_MEMORY:
        raise NarrowsError(f"{out} was trained on an array in memory: resume it from Python, with data=...")
    done = folder.read_result()
    if done is not None and done.steps >= (steps or config.steps):
        return done, folder, []
    state, passed = load_newest(folder.checkpoints)
    if steps is not None:
        if steps < state["step"]:
            raise NarrowsError(f"--steps {steps} is less than the {state['step']} batches this run has done")
        config = replace(config, steps=steps)
        config.check()
    data = data or load(config.data, config.values)
    trainer = Trainer(config, data, folder, display or Display())
    trainer.load_state_dict(state)
    folder.write_config(to_dict(trainer.config))
    folder.truncate_rows(trainer.step)
    return trainer.run(), folder, passed
