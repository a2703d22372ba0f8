"""The same command again: it starts a run, continues it, prints its answer, or refuses by name what differs."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import narrows
from commands import SMALL, run, run_until, small
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig, config_from_dict
from same_run import TAU, assert_same_run, whole_run

STEPS = 80


@pytest.fixture(scope="module")
def whole(images, tmp_path_factory) -> RunFolder:
    return whole_run(images, tmp_path_factory.mktemp("whole") / "run", STEPS)


def again(images, out, *changes):
    return ["train", images, "--tau", TAU, "--steps", STEPS, "--out", out, "--resume", *SMALL, *changes]


@pytest.mark.parametrize("step", [3, 61])
def test_the_same_command_starts_continues_and_answers(images, whole, tmp_path, step):
    out = tmp_path / "run"
    stopped = run_until(15, step, out, *again(images, out))  # SIGTERM
    assert stopped.returncode == 143
    assert f"stopped by SIGTERM after batch {step}" in stopped.stdout
    ended = run(*again(images, out))
    assert ended.returncode == 0, ended.stderr
    assert f"continuing after batch {step}" in ended.stdout
    assert_same_run(whole, RunFolder(out))
    before = {
        path: path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.suffix not in (".html", ".png", ".svg")
    }
    done = run(*again(images, out))
    assert done.returncode == 0, done.stderr
    assert "continuing" not in done.stdout
    answer = RunFolder(out).read_result()
    assert f"{answer.dims} of {answer.n} dimensions" in done.stdout
    assert before == {path: path.read_bytes() for path in before}


def test_other_settings_are_refused_by_name_and_other_equipment_is_taken(images, whole):
    for option, words in (
        ("--tau=99", "--tau was 180.0 and is 99.0"),
        ("--n=5", "--n was 4 and is 5"),
        ("--seed=1", "--seed was 0 and is 1"),
        ("--steps=81", "--steps was 80 and is 81"),
        ("--error=absolute", "--error was squared and is absolute"),
    ):
        name = option.partition("=")[0]
        command = [word for word in map(str, again(images, whole.path)) if not word.startswith(name + "=")]
        if name in command:
            place = command.index(name)
            del command[place : place + 2]
        done = run(*command, option)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert words in done.stderr
    words = [word for word in map(str, again(images, whole.path)) if not word.startswith("--checkpoint-every")]
    assert run(*words, "--checkpoint-every=5m").returncode == 0


def test_a_damaged_request_is_said_and_a_missing_one_is_replaced_by_the_settings(images, tmp_path):
    out = tmp_path / "run"
    assert run(*again(images, out)).returncode == 0
    folder = RunFolder(out)
    folder.request.write_text("{")
    done = run(*again(images, out))
    assert done.returncode == 2
    assert "request.json" in done.stderr
    assert f"continue with `narrows resume {out}`" in done.stderr
    folder.request.unlink()
    stored = config_from_dict(json.loads(folder.config.read_text()), "")
    assert narrows.train(stored, out, resume=True).result == folder.read_result()
    with pytest.raises(narrows.NarrowsError, match=r"has no request.json, .*; continue with `narrows resume "):
        narrows.train(replace(stored, seed=3), out, resume=True)


def test_an_answer_is_printed_when_the_data_have_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.random.default_rng(0).random((200, 6)).astype(np.float32))
    config = TrainConfig("v.npy", tau=0.5, steps=90, width=2, n=3, threads=1, device="cpu")
    first = narrows.train(config, "run", resume=True)
    os.remove("v.npy")
    for name in ("v.npy", "../" + tmp_path.name + "/v.npy", str(tmp_path / "v.npy")):
        assert narrows.train(replace(config, data=name), "run", resume=True).result == first.result
    with pytest.raises(narrows.NarrowsError, match=r"data was .*v\.npy and is w\.npy"):
        narrows.train(replace(config, data="w.npy"), "run", resume=True)


def test_data_that_have_moved_are_named_by_either_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.random.default_rng(0).random((200, 6)).astype(np.float32))
    config = TrainConfig("v.npy", tau=0.5, steps=90, width=2, n=3, threads=1, device="cpu")
    answer = narrows.train(config, "run", resume=True).result
    os.rename("v.npy", "w.npy")
    moved = replace(config, data="w.npy")
    with pytest.raises(narrows.NarrowsError, match=r'write into run/config\.json where its "data" have moved'):
        narrows.train(moved, "run", resume=True)
    folder = RunFolder("run")
    stored = json.loads(folder.config.read_text())
    folder.config.write_text(json.dumps({**stored, "data": "w.npy"}))
    folder.result.unlink()  # so that the data are read
    assert narrows.train(moved, "run", resume=True).result.dims == answer.dims
    assert narrows.train(config, "run", resume=True).result.dims == answer.dims
    with pytest.raises(narrows.NarrowsError, match=r"data was .*v\.npy and is x\.npy"):
        narrows.train(replace(config, data="x.npy"), "run", resume=True)


def test_an_array_that_is_not_the_one_trained_on_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.random((200, 6)).astype(np.float32)
    config = TrainConfig(tau=0.5, steps=30, width=2, n=3, threads=1, device="cpu")
    first = narrows.train(config, tmp_path / "run", x, resume=True)
    assert narrows.train(config, tmp_path / "run", x, resume=True).result == first.result
    with pytest.raises(narrows.NarrowsError, match="was trained on other data than these"):
        narrows.train(config, tmp_path / "run", x[::-1].copy(), resume=True)


def test_as_good_as_and_fronts_too(images, tmp_path):
    for kind, options in (("train", ["--as-good-as=2"]), ("front", ["--taus=150,250"])):
        settings = small(recipe="fast", steps=60)[:]
        command = [
            kind,
            images,
            *options,
            *(word for word in settings if not (kind == "train" and "--n=" in word)),
            "--resume",
        ]
        out = tmp_path / kind
        part = out / "plain" if kind == "train" else out / "tau-150"
        stopped = run_until(15, 20, part, *command, "--out", out)
        assert stopped.returncode == 143, stopped.stdout + stopped.stderr
        ended = run(*command, "--out", out)
        assert ended.returncode == 0, ended.stderr
        assert "continuing after batch 20" in ended.stdout
        other = run(*command, "--out", out, "--seed=5")
        assert other.returncode == 2
        assert "--seed was 0 and is 5" in other.stderr
    other = run("front", images, "--taus=150", *small(recipe="fast", steps=60), "--out", tmp_path / "front", "--resume")
    assert "--taus was 150,250 and is 150" in other.stderr
    wrong = run("train", images, "--tau=9", "--out", tmp_path / "front", "--resume")
    assert "holds a front, not a single run" in wrong.stderr
