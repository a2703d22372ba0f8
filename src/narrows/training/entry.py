"""The two ways into training: start a run, or go on with one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from narrows.data import Data, absolute, from_array, from_dataset, load
from narrows.errors import NarrowsError
from narrows.fronts import FRONT
from narrows.runs import Result, RunFolder, claim_run_path
from narrows.training.checkpoint import load_newest
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.training.display import Display
from narrows.training.loop import Trainer
from narrows.training.setup import on_first_process
from narrows.training.signals import Interrupted

IN_MEMORY = "(an array in memory)"
AnyData = Data | np.ndarray | torch.Tensor | TorchDataset[Any]
"""What Python callers may pass instead of a name or a path."""


def train(
    config: TrainConfig,
    out: Path | str | None = None,
    data: AnyData | None = None,
    display: Display | None = None,
) -> tuple[Result, RunFolder]:
    """Train a model under `config` and return the answer and the folder with everything.

    `data`, which may be `Data`, an array, a tensor or a torch Dataset, is loaded by `config.data` unless given. `out`
    must not exist yet, or be empty; by default it is the next free runs/NAME-1, -2, ... Nothing is written before
    settings and data have been found good.
    """
    config = config.checked()
    display = display or Display()
    config = replace(config, data=absolute(config.data) if data is None else IN_MEMORY)
    loaded = load_data(config, data, display)
    if config.as_good_as is not None:
        Trainer(_plain(config), loaded, display)  # settings and data are found good before anything is written
        folder = on_first_process(config, lambda: _prepare(config, out, loaded.name))
        return _train_as_good_as(config, folder, loaded, display), folder
    trainer = Trainer(config, loaded, display)
    if out is None and trainer.accelerator.is_main_process:
        out = claim_run_path(Path("runs"), loaded.name)
    folder = RunFolder(out or "runs")
    return trainer.start_in(folder), folder


def resume(
    out: Path | str,
    steps: int | None = None,
    data: AnyData | None = None,
    display: Display | None = None,
) -> tuple[Result, RunFolder, list[str]]:
    """Go on with a stopped run exactly as if it had not stopped; with `steps`, to that many batches in all.

    Also returns a line for each damaged checkpoint that was passed over. A finished run is returned as it is.
    """
    folder = RunFolder(out)
    if (folder.path.parent / FRONT).exists():
        raise NarrowsError(f"{out} is one tau of a front; go on with `narrows resume {folder.path.parent}`")
    config = config_from_dict(folder.read_config(), str(folder.config))
    if data is None and config.data == IN_MEMORY:
        raise NarrowsError(f"{out} was trained on an array in memory: resume it from Python, with data=...")
    if steps is not None:
        if config.recipe != "paper" and folder.read_result() is not None:
            raise NarrowsError(f"{out} has had its last phase and cannot go on; start a new run, with more --patience")
        config = replace(config, steps=steps).checked()
    if config.as_good_as is not None:
        display = display or Display()
        return _train_as_good_as(config, folder, load_data(config, data, display), display), folder, []
    done = folder.read_result()
    if done is not None and (config.steps in ("auto", done.steps)) and folder.model.exists():
        return done, folder, []
    state, passed = load_newest(folder.checkpoints)
    if config.steps != "auto" and config.steps < state["step"]:
        raise NarrowsError(f"--steps {config.steps} is less than the {state['step']} batches this run has done")
    display = display or Display()
    return Trainer(config, load_data(config, data, display), display).continue_in(folder, state), folder, passed


def _prepare(config: TrainConfig, out: Path | str | None, name: str) -> RunFolder:
    """Make the folder that the plain run goes into first."""
    folder = RunFolder(out or claim_run_path(Path("runs"), name))
    folder.create()
    folder.write_config(to_dict(config))
    return folder


def _plain(config: TrainConfig) -> TrainConfig:
    """Return the settings of the plain VAE that sets tau: the same, without gates."""
    assert config.as_good_as is not None
    return replace(
        config,
        recipe="plain",
        n=config.as_good_as,
        as_good_as=None,
        estimator="arm",
        gate_noise="example",
        constraint="auto",
    )


def _train_as_good_as(config: TrainConfig, folder: RunFolder, data: Data, display: Display) -> Result:
    """Train a plain VAE in plain/ (or go on with it), then the narrow one that must be as good on held-out data.

    As good: tau is the upper end of the plain one's interval on the validation split, which it keeps itself.
    """
    assert config.as_good_as is not None
    count = f"{config.as_good_as} dimension{'' if config.as_good_as == 1 else 's'}"
    try:
        display.stage(f"first a plain VAE with {count}: what error does it have?")
        if on_first_process(config, RunFolder(folder.plain).config.exists):
            reference, _, _ = resume(folder.plain, data=data, display=display)
        else:
            reference = Trainer(_plain(config), data, display).start_in(RunFolder(folder.plain))
    except Interrupted as stopped:
        raise Interrupted(stopped.step, folder.path, stopped.number) from None
    n = 2 * config.as_good_as if config.n == "auto" else config.n
    narrow = replace(config, as_good_as=None, tau=reference.validation.high, n=n)
    display.stage(f"now from {n} dimensions, as few as are as good as that one")
    return Trainer(narrow, data, display).start_in(folder, prepared=True)


def load_data(config: TrainConfig, given: AnyData | None, display: Display) -> Data:
    """Return the data that were given, or else those that the settings name."""
    reading = {"source": "auto", "image_size": None, "skip_broken": False, "columns": None}
    for name, default in reading.items():
        if given is not None and config.data == IN_MEMORY and getattr(config, name) not in (default, ""):
            raise NarrowsError(f"{name} is for data that narrows reads itself; leave it out with data=..., or use load")
    if isinstance(given, Data):
        return given
    if isinstance(given, TorchDataset):
        return from_dataset(given, config.values, progress=display.loading)
    if given is not None:
        return from_array(given, config.values)
    try:
        display.data = load(
            config.data,
            config.values,
            origin=config.source,
            image_size=config.image_size,
            skip_broken=config.skip_broken,
            columns=config.columns,
            progress=display.loading,
        )
        return display.data
    finally:
        display.loaded()
