"""The paper's experiments at a small budget, end to end: every file, and continuing after a kill."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from narrows.cli import main

SAMPLES = Path(__file__).parents[1] / "data" / "named" / "mnist_samples"
DIGITS = """
import sys
from dataclasses import replace
from narrows.data.named import catalogue, mnist
mnist.TRAIN, mnist.TEST = 100, 20   # the first digits of MNIST are a part of the tests; the whole set is a download
catalogue.SETS["mnist"] = replace(catalogue.SETS["mnist"], is_unpacked=lambda: True)
from narrows.cli import main
sys.exit(main())
"""
SMOKE = ("--budget", "0.001", "--width", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    shutil.copytree(SAMPLES, folder / "mnist")
    return folder


def program(cache, *arguments):
    """Start `narrows reproduce` with MNIST's first 120 digits as the set, on one thread."""
    environment = {**os.environ, "NARROWS_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    smoke = SMOKE[2:] if "--budget" in arguments else SMOKE
    arguments = [sys.executable, "-c", DIGITS, "reproduce", *map(str, arguments), *smoke]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


def kill(process):
    process.kill()
    process.communicate()


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)


def table(out):
    rows = json.loads((out / "table.json").read_text())
    with (out / "table.csv").open() as file:
        assert [row["set"] for row in csv.DictReader(file)] == [row["set"] for row in rows]
    return rows


def assert_page(out, *figures):
    page = (out / "page.html").read_text()
    assert page.count("<img") == len(figures)
    sources = re.findall(r'<img [^>]*src="([^"]{22})', page)
    assert sources == ["data:image/png;base64,"] * len(figures), "the page needs no other file"
    assert "href=" not in page
    for figure in figures:
        assert (out / figure).read_bytes().startswith(b"\x89PNG")
        assert f"({figure})" in (out / "page.md").read_text()


def test_training(tmp_path):
    out = tmp_path / "t"
    assert main(["reproduce", "training", "--recipe", "paper,fast", "--out", str(out), *SMOKE]) == 0
    rows = table(out)
    assert [(row["recipe"], row["steps"], row["status"]) for row in rows] == [
        ("paper", 50, "done"),
        ("fast", 50, "done"),
    ]
    assert_page(out, "training.png")
    assert "| paper | 0 |" in (out / "page.md").read_text()


def test_a_front_that_was_killed_continues_where_it_was(cache, tmp_path):
    out = tmp_path / "f"
    process = program(cache, "front", "--only", "30", "--out", out)
    wait_for(out / "tau-30-paper-0" / "checkpoints" / "batch-000001000.ckpt", process)
    kill(process)
    assert table(out)[0]["status"] == "not yet"
    text, _ = finish(program(cache, "front", "--only", "30", "--out", out, "--resume"))
    assert "continuing after batch 1,000" in text
    (row,) = table(out)
    assert (row["status"], row["tau"], row["steps"]) == ("done", 30, 1_875)
    assert np.load(out / row["run"] / "shown.npy").shape == (2, 1, 28, 28, 1)
    assert_page(out, "front.png")


def test_separate_runs_and_one_run_share_a_folder(cache, tmp_path):
    out, part = tmp_path / "f", ("--budget", "0.0001")
    finish(program(cache, "front", "--only", "30", "--out", out, *part))
    before = (out / "tau-30-paper-0" / "result.json").stat().st_mtime_ns
    finish(program(cache, "front", "--only", "10,30", "--one-run", "--out", out, "--resume", *part))
    assert [(row["tau"], row["one_run"]) for row in table(out)] == [(10, True), (30, False), (30, True)]
    assert (out / "tau-30-paper-0" / "result.json").stat().st_mtime_ns == before, "what is done is not done again"
    assert_page(out, "front.png")


def test_parallel_runs_stop_and_continue(tmp_path):
    out = tmp_path / "r"
    arguments = ["reproduce", "reconstructions", "--jobs", "2", "--out", str(out), "--budget", "0.004", *SMOKE[2:]]
    process = subprocess.Popen([sys.executable, "-m", "narrows", *arguments], stdout=subprocess.PIPE, text=True)
    wait_for(out / "tau-20-paper-0" / "config.json", process)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"--out {out} --jobs 2 --resume" in text
    assert main([*arguments, "--resume"]) == 0
    assert [(row["tau"], row["status"]) for row in table(out)] == [(20, "done"), (35, "done")]
    assert_page(out, "reconstructions-paper.png")


def test_processes_end_with_the_one_that_started_them(tmp_path):
    out = tmp_path / "r"
    arguments = ["reproduce", "reconstructions", "--jobs", "2", "--budget", "1", "--width", "2", "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "narrows", *arguments], stdout=subprocess.DEVNULL)
    wait_for(out / "tau-20-paper-0" / "metrics.csv", process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=300)
    assert not alive, "nobody trains any more"


def test_the_table_with_missing_sets(cache, tmp_path):
    out = tmp_path / "t"
    only = ("--only", "mnist-5,cars3d-5", "--recipe", "paper,fast")
    process = program(cache, "table", *only, "--out", out)
    wait_for(out / "mnist-5-paper-0-plain" / "metrics.csv", process)
    kill(process)
    _, err = finish(program(cache, "table", *only, "--out", out, "--resume"))
    assert "cars3d is not cached and cannot be drawn; fetch it: narrows data get cars3d" in err
    rows = table(out)
    assert [(row["set"], row["recipe"], row["status"]) for row in rows] == [
        ("cars3d", "paper", "missing"),
        ("cars3d", "fast", "missing"),
        ("mnist", "paper", "done"),
        ("mnist", "fast", "done"),
    ]
    paper = rows[2]
    assert (paper["n"], paper["baseline_steps"], paper["steps"], paper["marks"]) == (10, 200, 400, [200, 300, 400])
    with (out / "mnist-5-paper-0-plain" / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert paper["tau"] == float(last["error"])
    assert last["open"] == "5", "under tau = 0 no gate closes"
    assert_page(out, "table.png")
    assert "(17.07)" in (out / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["table", "--budget", "0"], "--budget must be above 0"),
        (["table", "--only", "mnits"], "--only: 'mnits' is not a part of this experiment"),
        (["tables"], "tables"),
        (["table", "--jobs", "0"], "--jobs must be at least 1"),
        (["table", "--seeds", "1.5"], "--seeds must be a whole number; it is 1.5"),
        (["front", "--out", "OTHER"], "OTHER is not empty and holds no experiment"),
    ],
)
def test_bad_input_gets_one_line(arguments, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "OTHER").mkdir()
    (tmp_path / "OTHER" / "notes.txt").write_text("mine")
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("narrows: error: ")
    assert error.count("\n") == 1
    assert expected in error
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["OTHER", "notes.txt"]
