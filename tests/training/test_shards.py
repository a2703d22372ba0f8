"""Runs on shards: from shards on disk as from one file, bit for bit."""

import gc
import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import narrows
from commands import HANGS, SMALL, run, run_until
from http_server import LocalServer
from narrows.cli import main
from narrows.runs.folder import RunFolder
from refusals import refused


def test_a_run_from_shards_equals_a_run_from_one_file(images, tmp_path):
    (tmp_path / "squares").mkdir()
    for i, part in enumerate(np.array_split(np.load(images), 12)):
        np.save(tmp_path / "squares" / f"part-{i}.npy", part)
    for data, out in ((images, "one"), (tmp_path / "squares", "many")):
        arguments = ["train", str(data), "--tau", "180", "--steps", "60", "--out", str(tmp_path / out)]
        assert main([*arguments, *SMALL]) == 0
    one, many = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "many")
    assert one.model.read_bytes() == many.model.read_bytes()
    assert one.read_result().heldout == many.read_result().heldout


def test_a_shard_that_changed_is_named(images, tmp_path):
    parts, out = tmp_path / "parts", tmp_path / "run"
    parts.mkdir()
    for i, part in enumerate(np.array_split(np.load(images), 4)):
        np.save(parts / f"part-{i}.npy", part)
    settings = {"recipe": "paper", "tau": 180, "width": 2, "n": 3, "threads": 1, "device": "cpu"}
    narrows.train(narrows.TrainConfig(str(parts), steps=10, **settings), out)
    np.save(parts / "part-2.npy", np.load(parts / "part-2.npy")[::-1])
    assert f"was started with ({parts}/part-2.npy changed after it began); " in refused(narrows.resume, out, steps=20)
    for i in range(4):  # a copy of the whole set is younger than the run, and nothing is known of its files
        np.save(parts / f"part-{i}.npy", np.load(parts / f"part-{i}.npy"))
    assert "was started with; nothing was changed" in refused(narrows.resume, out, steps=20)


def streamed(folder, out, *more, steps=60):
    sizes = ["--stream", "--cache-size", "60kB", "--tau", "180", "--steps", str(steps), "--out", str(out)]
    return ["train", str(folder), *sizes, *more, *SMALL]


@pytest.fixture
def squares(images, tmp_path, monkeypatch):
    """The squares in 20 shards of about 12 kB, and a cache folder of their own."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "squares").mkdir()
    for i, part in enumerate(np.array_split(np.load(images), 20)):
        np.save(tmp_path / "squares" / f"part-{i}.npy", part)
    return tmp_path / "squares"


def test_a_streamed_run_is_another_run_and_says_so(squares, tmp_path, capsys):
    """Split and order are others, so the model is another one; the certificate is measured on what was held out."""
    assert main(streamed(squares, tmp_path / "run")) == 0
    said = capsys.readouterr().out
    assert "20 shards" in said
    result = RunFolder(tmp_path / "run").read_result()
    assert result.heldout.count == int(re.search(r"(\d+) test, by", said)[1])
    assert main(["encode", str(tmp_path / "run"), "--out", str(tmp_path / "codes.npy")]) == 0
    assert len(np.load(tmp_path / "codes.npy")) == 300


def test_a_killed_streamed_run_goes_on_bit_for_bit_once_its_shards_are_back(squares, tmp_path):
    assert main(streamed(squares, tmp_path / "whole", steps=100)) == 0
    killed = tmp_path / "killed"
    done = run_until(signal.SIGKILL, 53, killed, *streamed(squares, killed, steps=100))
    assert done.returncode == -signal.SIGKILL
    (squares / "part-7.npy").rename(tmp_path / "away")
    failed = run("resume", killed)
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    assert "are not those this run was started with; nothing was changed: restore the data" in failed.stderr
    (tmp_path / "away").rename(squares / "part-7.npy")
    resumed = run("resume", killed)
    assert resumed.returncode == 0, resumed.stderr
    assert RunFolder(killed).model.read_bytes() == RunFolder(tmp_path / "whole").model.read_bytes()
    gc.collect()  # the first run was one of this process
    assert not [path for path in (tmp_path / "cache" / "streams").rglob("*") if path.is_file()]


def test_a_server_is_asked_again_only_for_who_names_it(squares, tmp_path, capsys):
    """The same command, sent again after the end, keeps the pictures of test inputs; `report` needs to be told."""
    run_folder = tmp_path / "run"
    with LocalServer({path.name: path.read_bytes() for path in squares.iterdir()}) as server:
        address = f"{server.url}/part-{{0..19}}.npy"
        words = ["--cache-size", "60kB", "--tau", "180", "--steps", "20", "--out", str(run_folder), "--resume", *SMALL]
        for command, pictures, asks in (
            (["train", address, *words], True, True),
            (["train", address, *words], True, True),
            (["report", str(run_folder)], False, False),
            (["report", str(run_folder), "--trust-data"], True, True),
            (["resume", str(run_folder)], False, False),
        ):
            before = len(server.requests)
            assert main(command) == 0
            said = capsys.readouterr()
            assert ("another machine" in said.err) != pictures
            assert ("their reconstructions" in (run_folder / "report.html").read_text()) == pictures
            assert (len(server.requests) > before) == asks


def test_the_size_of_the_cache_may_not_change(squares, tmp_path, capsys):
    run_folder = tmp_path / "run"
    assert main(streamed(squares, run_folder)) == 0
    settings = json.loads((run_folder / "config.json").read_text())
    (run_folder / "config.json").write_text(json.dumps({**settings, "cache_size": "70kB"}))
    capsys.readouterr()
    assert main(["resume", str(run_folder), "--steps", "80"]) == 2
    assert "cache_size = '70kB', but it was trained with '60kB'" in capsys.readouterr().err


def test_two_processes_of_one_run_share_the_cache(tmp_path, monkeypatch):
    """Vectors: the statistics of BatchNorm would be those of each process."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    (tmp_path / "vectors").mkdir()
    for i, part in enumerate(np.array_split(rng.random((500, 3)) @ rng.random((3, 20)) / 3, 20)):
        np.save(tmp_path / "vectors" / f"part-{i}.npy", part)
    sizes = ["--stream", "--cache-size", "20kB", "--tau", "0.2", "--steps", "60", "--out", str(tmp_path / "one")]
    assert main(["train", str(tmp_path / "vectors"), *sizes, *SMALL]) == 0
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "narrows"]
    again = ["train", "--config", str(tmp_path / "one" / "config.json"), "--out", str(tmp_path / "two")]
    both = subprocess.run([*launch, *again], capture_output=True, text=True, timeout=HANGS)
    assert both.returncode == 0, both.stderr
    one, two = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "two")
    for a, b in zip(one.read_rows(), two.read_rows(), strict=True):
        assert a.error == pytest.approx(b.error, rel=1e-3)
    gc.collect()
    assert not [path for path in (tmp_path / "cache" / "streams").rglob("*") if path.is_file()]
