"""What a run leaves: model files, checkpoints, and the JSON, TOML and CSV files of run folders."""

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import narrows
from faults.mutators import (
    VALUES,
    holders_in,
    mutate_bytes,
    mutate_csv,
    mutate_json,
    mutate_safetensors,
    mutate_toml,
    mutate_value,
)
from faults.target import Target, command, each
from narrows import NarrowsError, TrainConfig
from narrows.inference.sampling import fit_sampler
from narrows.inference.trained import open_trained
from narrows.paper.experiments import plan
from narrows.paper.folder import ExperimentFolder
from narrows.paper.plan import Options
from narrows.report.comparison import write_comparison, write_front
from narrows.report.contents import read_run
from narrows.report.figures.figure_files import draw_curves
from narrows.report.figures.gate_lines import gate_lines
from narrows.report.run_page import write_report
from narrows.runs.evaluation import Evaluation, Measured, Unit
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder
from narrows.runs.records import DecisionRow, HeldOut
from narrows.training.checkpoint import MAGIC
from narrows.training.config import to_dict
from narrows.training.listeners import Listener

STEPS, SAVED = 12, 8
TENSORS = (
    torch.zeros(0), torch.zeros(()), torch.full((3, 3), torch.nan), torch.ones(7, dtype=torch.int64),
    torch.zeros(2, dtype=torch.bool),
    torch.zeros(3, dtype=torch.complex64), torch.full((16,), torch.inf, dtype=torch.float64),
    torch.zeros(1).expand(1 << 30),
)  # fmt: skip


class Stopped(Exception):
    """The end of a run that did not finish."""


class StopsIn(Listener):
    """Ends a run as a crash would, after its second checkpoint."""

    def row(self, row: object) -> None:
        if row.step > SAVED:  # type: ignore[attr-defined]
            raise Stopped


def inputs() -> np.ndarray:
    """Return 120 images of 4 x 4 bytes."""
    return (np.arange(120 * 16) * 37 % 251).astype(np.uint8).reshape(120, 4, 4)


def settings(recipe: str) -> TrainConfig:
    """Return the settings of a run that takes a few hundredths of a second."""
    return TrainConfig(
        tau=3.0, recipe=recipe, n=4, width=2, steps=STEPS, batch=16, threads=1, device="cpu", log_every=2,
        eval_every=20, checkpoint_every=SAVED // 2,
    )  # fmt: skip


def make_run(folder: Path, recipe: str, ends: bool) -> None:
    """Train a run to its end, or until its second checkpoint."""
    with contextlib.suppress(Stopped):
        narrows.train(settings(recipe), folder, inputs(), None if ends else StopsIn())


def _models(folder: Path) -> None:
    for recipe in ("fast", "paper"):
        make_run(folder / "run", recipe, ends=True)
        shutil.move(folder / "run" / "model.safetensors", folder / f"{recipe}.safetensors")
        shutil.rmtree(folder / "run")
    table = folder / "table.csv"
    rows = np.linspace(0, 9, 120 * 3).reshape(120, 3) ** 2
    np.savetxt(table, rows, delimiter=",", header="a,b,c", comments="")
    run = narrows.train(
        TrainConfig(data=str(table), tau=1.0, n=2, width=2, steps=6, batch=16, threads=1), folder / "run"
    )
    shutil.move(run.folder.model, folder / "table.safetensors")
    shutil.rmtree(folder / "run")
    table.unlink()


def _read_model(folder: Path, victim: Path, rng: Random) -> None:
    trained = open_trained(victim)
    x = torch.zeros(2, *trained.shape)
    codes = trained.model.encode(x).mean.detach()
    trained.error(x, trained.model.decode(codes))
    if rng.random() < 0.2 and torch.isfinite(codes).all() and codes.shape[1]:
        fit_sampler("gaussian", codes.double().numpy(), 1, 0)


def _pretrained(folder: Path) -> None:
    make_run(folder / "run", "fast", ends=True)
    for name in ("model.safetensors", "result.json"):
        shutil.move(folder / "run" / name, folder / name)
    shutil.rmtree(folder / "run")


def _mutate_pretrained(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return (mutate_json if content.startswith(b"{") else mutate_safetensors)(rng, content, ())


def _read_pretrained(folder: Path, victim: Path, rng: Random) -> None:
    model = narrows.Pretrained.from_pretrained(folder)
    model.save_pretrained(folder / "copy")


def without_data(*arguments: object) -> None:
    """Run a command whose data are missing, which it notices only after everything else was read and accepted."""
    try:
        command(*arguments)
    except NarrowsError as error:
        if not any(words in str(error) for words in ("no such file", "names data that are not on this machine")):
            raise


def _mutate_state(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change what a checkpoint holds, or its bytes; mostly with a digest that is right again."""
    if rng.random() < 0.25:
        return mutate_bytes(rng, content, others)
    payload = content[len(MAGIC) + 32 :]
    if rng.random() < 0.3:
        payload = mutate_bytes(rng, payload)
    else:
        state = torch.load(io.BytesIO(payload), weights_only=True)
        changed = _with_other_tensor(rng, state) if rng.random() < 0.5 else None
        made = io.BytesIO()
        torch.save(changed or mutate_value(rng, state, (*VALUES, *TENSORS)), made)
        payload = made.getvalue()
    return MAGIC + hashlib.sha256(payload).digest() + payload


def _with_other_tensor(rng: Random, state: Any) -> Any:
    """Change one tensor of a state: its values, its type, its shape, or how it lies in memory."""
    holders = [one for one in holders_in(state) if isinstance(one, dict)]
    places = [(one, key) for one in holders for key, value in one.items() if isinstance(value, torch.Tensor)]
    holder, key = rng.choice(places)
    holder[key] = _other_tensor(rng, holder[key])
    return state


def _other_tensor(rng: Random, old: torch.Tensor) -> torch.Tensor:
    kind, flat = rng.randrange(7), old.flatten()
    if kind == 0 and old.is_floating_point():
        return torch.full_like(old, rng.choice((torch.nan, torch.inf, 1e38, -1.0)))
    if kind == 1:
        return old.to(rng.choice((torch.float16, torch.float64, torch.int64, torch.uint8, torch.complex64, torch.bool)))
    if kind == 2 and old.ndim and old.numel():
        return flat[:1].expand(old.numel()).view(old.shape)  # all elements in one place of memory
    if kind == 3 and old.ndim:
        return torch.stack([flat, flat], 1)[:, 0].view(old.shape) if old.ndim == 1 else old.transpose(0, -1)
    if kind == 4:
        return flat[: old.numel() // 2].clone()
    return old[None].expand(3, *old.shape).clone() if kind == 5 else torch.zeros_like(old)


def _resume(folder: Path, victim: Path, rng: Random) -> None:
    narrows.resume(folder, data=inputs())


def _run(folder: Path) -> None:
    """A finished run on a file, which config.json names relative to the folder, with decisions that a page draws."""
    import matplotlib.font_manager  # noqa: F401  (starts a program that lists the fonts, once)

    np.save(folder / "x.npy", inputs())
    run = narrows.train(replace(settings("fast"), data=str(folder / "x.npy")), folder / "run").folder
    for path in run.path.iterdir():
        shutil.move(path, folder / path.name)
    run.path.rmdir()
    run = RunFolder(folder)
    shutil.rmtree(run.checkpoints)
    run.write_config({**run.read_config(), "data": "x.npy"})
    for step, action, count, gates in ((3, "close", 4, "2"), (5, "restore", 3, "2"), (7, "close", 4, "0 3")):
        run.append_decision(DecisionRow(step, action, count, 0.9, gates))
    run.append_costs(4, [0.5, float("nan"), 0.1, 2.0])
    unit, held = Unit(1, 0.2, 0.4, 0.9), HeldOut(1.0, 1.2, 0.9, 20, 0.3)
    measured = Measured("run", 1, 3.0, "squared", held, [unit], 0.5, {"prior": 1.0, "mixture": 0.7})
    Evaluation("x", 20, 100, 100, 5, 90, 0, 3, "pixels", {"digit": 0.9}, 0.1, measured, measured).write(folder)


def _read_run(folder: Path, victim: Path, rng: Random) -> None:
    """Show a run and read what its figures need; sometimes write its report or a comparison with itself."""
    run = RunFolder(folder)
    calls: list[Callable[[], object]] = [
        lambda: command("show", folder),
        lambda: command("show", folder, "--json"),
        lambda: gate_lines(read_run(run)),
        run.read_first_costs,
        lambda: open_trained(folder),
    ]
    choice = rng.random()
    if choice < 0.4:
        calls.append(lambda: write_report(run))
    elif choice < 0.5:
        calls.append(lambda: write_comparison([run, run], folder / "compare.html"))
    elif choice < 0.55:
        calls.append(lambda: draw_curves(run))
    each(*calls)


def _front(folder: Path) -> None:
    front = FrontFolder(folder)
    front.write_about([2.0, 3.0], to_dict(replace(settings("fast"), tau=None, data="x.npy")))
    for tau in (2.0, 3.0):
        narrows.train(replace(settings("fast"), tau=tau), front.level(tau).path, inputs())
        shutil.rmtree(front.level(tau).checkpoints)
    front.write_table(front.read_results())


def _read_front(folder: Path, victim: Path, rng: Random) -> None:
    front = FrontFolder(folder)
    calls: list[Callable[[], object]] = [
        lambda: command("show", folder),
        lambda: command("show", folder, "--json"),
        lambda: without_data("resume", folder),
    ]
    if rng.random() < 0.4:
        calls.append(lambda: write_front(front))
    each(*calls)


def _experiment(folder: Path) -> None:
    experiment, options = ExperimentFolder(folder, "front"), Options(only="6,10")
    experiment.open(options, resume=False)
    for job in plan("front", options):
        rows = [replace(row, dims=5, met=True, error=5.0, high=5.5, steps=9, seconds=1.0) for row in job.rows("done")]
        (folder / job.key).mkdir()
        experiment.write_rows(job.key, rows)


def _read_experiment(folder: Path, victim: Path, rng: Random) -> None:
    experiment, options = ExperimentFolder(folder, "front"), Options(only="6,10")
    experiment.open(options, resume=True)
    experiment.write_table(experiment.rows(plan("front", options)))
    experiment.budget()


def _configs(folder: Path) -> None:
    known = {name: value for name, value in to_dict(settings("fast")).items() if value is not None and name != "data"}
    (folder / "settings.json").write_text(json.dumps(known))
    (folder / "settings.toml").write_text("".join(f"{name} = {json.dumps(v)}\n" for name, v in known.items()))


def _mutate_config(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return (mutate_json if content.startswith(b"{") else mutate_toml)(rng, content, others)


def _read_config(folder: Path, victim: Path, rng: Random) -> None:
    without_data("train", "gone.npy", "--config", victim)


TARGETS = (
    Target("model", _models, _read_model, mutate_safetensors),
    Target("pretrained", _pretrained, _read_pretrained, _mutate_pretrained, writes=True),
    *(
        Target(f"checkpoint-{recipe}", partial(make_run, recipe=recipe, ends=False), _resume, _mutate_state,
               f"checkpoints/*{SAVED}.ckpt", writes=True)
        for recipe in ("fast", "paper")
    ),
    Target("resume-csv", partial(make_run, recipe="fast", ends=False), _resume, mutate_csv, "*.csv", writes=True),
    Target("run-json", _run, _read_run, mutate_json, "*.json", writes=True),
    Target("run-csv", _run, _read_run, mutate_csv, "*.csv", writes=True),
    Target("front", _front, _read_front, mutate_json, "front.json", writes=True),
    Target("experiment", _experiment, _read_experiment, mutate_json, writes=True),
    Target("config", _configs, _read_config, _mutate_config),
)  # fmt: skip
