"""A checkpoint whose digest is right may still hold anything: every entry is checked before any is used."""

import hashlib
import io
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from commands import small
from narrows._util.errors import NarrowsError
from narrows.cli import main
from narrows.data import from_array
from narrows.runs.folder import RunFolder
from narrows.training.checkpoint import (
    MAGIC,
    Damaged,
    list_checkpoints,
    load_newest,
    read_checkpoint,
    write_state,
)
from narrows.training.config import TrainConfig
from narrows.training.front import resume_front, train_front
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.sinks import FolderSink
from narrows.training.state import check_state
from narrows.training.trainer import Trainer

Path = tuple[Any, ...]
MAY_GO = [("optimiser", "param_groups", 0, "initial_lr")]
"""Entries that need not be there: the rate before the last phase."""


@pytest.fixture(scope="module", params=["fast", "paper"])
def trained(request, tmp_path_factory) -> tuple[Trainer, RunFolder]:
    """A run that has closed gates, kept candidates and ended, and a trainer that could resume it."""
    x = np.random.default_rng(0).normal(size=(400, 2)) @ np.random.default_rng(1).normal(size=(2, 6))
    config = TrainConfig(
        explained=0.5, n=4, width=2, steps=400, batch=16, log_every=20, recipe=request.param, values="any"
    )
    data, folder = from_array(x.astype(np.float32), "any"), RunFolder(tmp_path_factory.mktemp("run"))
    config = replace(config.checked(), checkpoint_every=150, eval_every=50, threads=1)
    Trainer(make_plan(config, data), Listener()).start(FolderSink(folder))
    return Trainer(make_plan(config, data), Listener()), folder


def newest(folder: RunFolder) -> dict[str, Any]:
    return read_checkpoint(list_checkpoints(folder.checkpoints)[-1])


def entries(value: Any, where: Path = ()) -> Iterator[Path]:
    """Yield the place of every entry, at every depth, once per list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*where, key)
            yield from entries(one, (*where, key))
    elif isinstance(value, list) and value:
        yield (*where, 0)
        yield from entries(value[0], (*where, 0))


def at(state: Any, where: Path) -> Any:
    for key in where:
        state = state[key]
    return state


GONE = object()


def replaced(state: dict[str, Any], where: Path, value: Any) -> Iterator[str]:
    """Give one entry another value for a moment, or take it out."""
    inside, key = at(state, where[:-1]), where[-1]
    old = inside.get(key, GONE) if isinstance(inside, dict) else inside[key]
    if value is GONE:
        del inside[key]
    else:
        inside[key] = value
    yield f"{where} {'is missing' if value is GONE else f'= {value!r:.40}'}"
    if old is GONE:
        del inside[key]
    else:
        inside[key] = old


def tampered(state: dict[str, Any]) -> Iterator[str]:
    """Remove, replace or add one entry at a time; yield what was done while it is."""
    for where in list(entries(state)):
        if where[0] == "config":
            continue  # settings have their own reader
        old = at(state, where)
        others = ["four", -1, {}, [], None, True, float("nan"), torch.zeros(2, 3, 5), object]
        if isinstance(old, torch.Tensor):
            others += [old[None], old.to(torch.complex64), old.to_sparse() if old.ndim else -1]
        for other in others:
            if isinstance(old, torch.Tensor) or type(other) is not type(old):
                yield from replaced(state, where, other)
        if isinstance(where[-1], str) and not any(where[: len(path)] == path for path in MAY_GO):
            yield from replaced(state, where, GONE)
        if isinstance(old, dict):
            yield from replaced(state, (*where, "surprise"), 1)


def test_the_run_has_every_kind_of_state(trained):
    """Otherwise the test below would have nothing to tamper with."""
    trainer, folder = trained
    state = newest(folder)
    assert state["optimiser"]["state"]
    assert state["records"]["metrics.csv"]
    if trainer.config.recipe == "fast":
        assert state["recipe"]["good"]
        assert state["records"]["decisions.csv"]
    assert state["selection"]["regular"]


def test_what_a_run_has_written_passes(trained):
    trainer, folder = trained
    for path in list_checkpoints(folder.checkpoints):
        read_checkpoint(path, partial(check_state, trainer))


def test_every_entry_that_was_changed_is_noticed(trained):
    """One entry at a time, at every depth: removed, replaced by another type or shape, or joined by a stranger."""
    trainer, folder = trained
    state = newest(folder)
    accepted = [what for what in tampered(state) if not is_refused(trainer, state)]
    assert accepted == []


def is_refused(trainer: Trainer, state: dict[str, Any]) -> bool:
    try:
        check_state(trainer, state)
    except NarrowsError as error:
        return "\n" not in str(error)
    return False


@pytest.mark.parametrize("trained", ["fast"], indirect=True)
@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("recipe", "controller", "phase"), "holiday"),
        (("recipe", "controller", "pending"), [99]),
        (("recipe", "controller", "seen"), [(1, 2, 3)]),
        (("batches", "position"), 10**9),
        (("selection", "best"), (1.0, "two")),
        (("noise",), torch.zeros(5056, dtype=torch.uint8)),
        (("records", "metrics.csv"), ["1,2"]),
        (("records", "decisions.csv"), ["60,close,2,0.9,99"]),
        (("step",), 10**400 * -1),
        (("objective", "model.encoder.first.bias"), torch.full((16,), torch.nan)),
    ],
)
def test_values_that_cannot_be_are_noticed(trained, where, value):
    trainer, folder = trained
    state = newest(folder)
    at(state, where[:-1])[where[-1]] = value
    with pytest.raises(ValueError, match=r"must be"):
        check_state(trainer, state)


def wrapped(payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(payload).digest() + payload


def pickled(value: object) -> bytes:
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


class Surprise:
    def __reduce__(self):
        return print, ("code from a checkpoint was run",)


@pytest.mark.parametrize(
    "payload",
    [b"", b"nothing", pickle.dumps(Surprise()), pickled(Surprise()), pickled(None), pickled([1]), pickled({})],
    ids=["empty", "text", "pickle", "code", "none", "list", "no entries"],
)
def test_whole_files_with_anything_in_them_are_damaged(trained, tmp_path, payload, capsys):
    trainer, _ = trained
    path = tmp_path / "batch-000000001.ckpt"
    path.write_bytes(wrapped(payload))
    with pytest.raises(Damaged, match="is damaged"):
        read_checkpoint(path, partial(check_state, trainer))
    assert capsys.readouterr().out == ""


def test_the_checkpoint_before_a_tampered_one_is_used(trained):
    trainer, folder = trained
    earlier, last = list_checkpoints(folder.checkpoints)
    good = last.read_bytes()
    state = newest(folder)
    del state["optimiser"]
    write_state(last, state)
    try:
        found, passed = load_newest(folder.checkpoints, partial(check_state, trainer))
    finally:
        last.write_bytes(good)
    assert found["step"] == read_checkpoint(earlier)["step"]
    assert passed == [f"the checkpoint {last} is damaged (the content lacks optimiser)"]


def test_a_resumed_run_says_which_checkpoint_was_tampered_with(images, tmp_path, capsys):
    run = ["train", str(images), "--tau", "180", "--steps", "80", "--out", str(tmp_path / "run"), *small()]
    assert main(run) == 0
    folder = RunFolder(tmp_path / "run")
    before = folder.model.read_bytes()
    last = list_checkpoints(folder.checkpoints)[-1]
    write_state(last, {**read_checkpoint(last), "objective": {"weights": 1}})
    folder.result.unlink()
    assert main(["resume", str(folder.path)]) == 0
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"narrows: warning: the checkpoint {last} is damaged (objective lacks " in error
    assert folder.model.read_bytes() == before


def test_a_front_says_which_checkpoint_was_damaged(tmp_path):
    x = np.random.default_rng(0).normal(size=(400, 2)) @ np.random.default_rng(1).normal(size=(2, 6))
    config = TrainConfig(n=4, width=2, steps=300, batch=16, values="any", checkpoint_every=100, threads=1)
    front = train_front(config, [2.0, 4.0], tmp_path / "front", data=x.astype(np.float32)).folder
    level = front.level(4.0)
    before = level.model.read_bytes()
    last = list_checkpoints(level.checkpoints)[-1]
    last.write_bytes(last.read_bytes()[:-1])
    level.result.unlink()
    outcome = resume_front(front.path, data=x.astype(np.float32))
    assert outcome.warnings == [f"the checkpoint {last} is damaged"]
    assert level.model.read_bytes() == before


def test_a_checkpoint_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "batch-000000001.ckpt")
    with pytest.raises(NarrowsError, match="is a named pipe"):
        read_checkpoint(tmp_path / "batch-000000001.ckpt")
