"""Sweeps from one end to the other: rows, files, failures, and going on after a stop or a kill, on both engines."""

import contextlib
import csv
import json
import re
import shlex
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

import narrows
from commands import HANGS, command, run
from narrows._util.errors import NarrowsError
from narrows.cli import main

SETTINGS = {
    "values": "any",
    "explained": 0.5,
    "recipe": "paper",
    "n": 4,
    "width": 2,
    "batch": 16,
    "steps": 300,
    "device": "cpu",
    "log_every": 20,
    "eval_every": 20,
    "checkpoint_every": 20,
}
RUNS = {"learning_rate": [0.001, 0.002, 1e30]}
DIVERGES = "learning-rate-1e+30"


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "plane.npy"
    np.save(path, (rng.normal(size=(600, 2)) @ rng.normal(size=(2, 8))).astype(np.float32))
    return str(path)


@pytest.fixture(scope="module")
def table(plane, tmp_path_factory):
    """A sweep of three runs on the local engine, one of which diverges."""
    return narrows.sweep({**SETTINGS, **RUNS, "data": plane}, tmp_path_factory.mktemp("local") / "sweep")


def write_file(path, plane, **settings):
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**SETTINGS, "data": plane, **settings}.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def models(folder):
    return {path.parent.name: path.read_bytes() for path in folder.glob("*/model.safetensors")}


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_runs_that_fail_are_rows_with_their_reason_and_stop_nothing(table):
    assert [row.status for row in table] == ["done", "done", "failed"]
    assert table.failed[0].reason.startswith("training diverged: error, loss or weights are not finite")
    first = table[0]
    result = narrows.RunFolder(table.folder / first.run).read_result()
    assert (first.dims, first.test_error, first.batches) == (result.dims, result.heldout.error, 300)
    assert first.settings == {"learning_rate": 0.001}


def test_the_table_is_the_same_everywhere(table):
    records = table.records()
    assert json.loads((table.folder / "table.json").read_text()) == records
    with (table.folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [record["run"] for record in records]
    assert float(rows[0]["test_error"]) == pytest.approx(records[0]["test_error"], rel=1e-5)
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(table.folder / "table.parquet").to_pylist() == records
    lines = repr(table).splitlines()
    assert [line.split()[0] for line in lines] == ["run", *(record["run"] for record in records)]
    assert "training diverged" in lines[3]


def test_the_page_compares_what_is_done_and_says_why_the_rest_is_not(table):
    page = (table.folder / "compare.html").read_text()
    assert "2 runs compared" in page
    assert re.search(rf"{re.escape(DIVERGES)}<.*?>failed<.*?>training diverged: error, loss or weights", page, re.S)
    assert 'href="learning-rate-0.001/report.html"' in page


def test_a_run_of_a_sweep_is_the_run_of_train(table, plane, tmp_path):
    config = narrows.TrainConfig(**SETTINGS, data=plane, learning_rate=0.001, threads=1)
    alone = narrows.train(config, tmp_path / "alone")
    assert alone.folder.model.read_bytes() == models(table.folder)["learning-rate-0.001"]


def test_resume_trains_only_what_failed(table, plane):
    before = {path: path.stat().st_mtime_ns for path in table.folder.glob("*/result.json")}
    again = narrows.sweep({**SETTINGS, **RUNS, "data": plane}, table.folder, resume=True)
    assert again.rows == table.rows
    assert before == {path: path.stat().st_mtime_ns for path in table.folder.glob("*/result.json")}


def test_a_folder_belongs_to_one_sweep(table, plane, tmp_path):
    settings = {**SETTINGS, **RUNS, "data": plane}
    (tmp_path / "notes.txt").write_text("mine")
    for changed, out, resume, expected in (
        ({}, table.folder, False, "already holds a sweep; add resume, or choose another out"),
        ({"explained": 0.6}, table.folder, True, "was started with explained = 0.5, not 0.6; choose another out"),
        ({"seed": 1}, table.folder, True, "was started with seed = None, not 1"),
        ({}, tmp_path, True, "is not empty and holds no sweep; choose another out"),
        ({}, tmp_path / "notes.txt", True, "cannot create the folder"),
    ):
        with pytest.raises(NarrowsError, match=expected):
            narrows.sweep({**settings, **changed}, out, resume=resume)


def test_a_sweep_that_was_stopped_and_killed_ends_as_if_it_had_not_been(table, plane, tmp_path):
    first, second = (f"learning-rate-{rate}" for rate in RUNS["learning_rate"][:2])
    file = write_file(tmp_path / "s.toml", plane, learning_rate=RUNS["learning_rate"][:2])
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True)
    wait_for(tmp_path / "out" / first / "checkpoints" / "batch-000000040.ckpt", process)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 128 + signal.SIGTERM
    advised = shlex.split(said.splitlines()[-1].partition("continue with: ")[2])
    assert advised == ["narrows", *words, "--resume"]
    assert not (tmp_path / "out" / second).exists()
    killed = subprocess.Popen(command(*advised[1:]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(tmp_path / "out" / second / "checkpoints" / "batch-000000040.ckpt", killed)
    killed.kill()
    killed.wait()
    assert main(advised[1:]) == 0
    assert models(tmp_path / "out") == models(table.folder)


def test_a_sweep_of_fronts_has_one_row_per_tau(plane, tmp_path):
    settings = {**SETTINGS, "data": plane, "seed": [3], "recipe": "fast", "sweep": {"taus": [9, 3]}}
    del settings["explained"]
    table = narrows.sweep(settings, tmp_path / "s")
    assert [(row.run, row.status, row.tau) for row in table] == [
        ("seed-3/tau-3", "done", 3.0),
        ("seed-3/tau-9", "done", 9.0),
    ]
    assert (tmp_path / "s" / "seed-3" / "report.html").exists()


def test_ray_gives_the_same_rows_and_models(table, plane, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    words = ["--out", tmp_path / "ray", "--engine", "ray", "--jobs", "2"]
    done = run("sweep", write_file(tmp_path / "s.toml", plane, **RUNS), *words)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    rows = json.loads((tmp_path / "ray" / "table.json").read_text())
    assert [{**row, "seconds": 0} for row in rows] == [{**row, "seconds": 0} for row in table.records()]
    assert models(tmp_path / "ray") == models(table.folder)


def answering(content):
    """Return the address of a server that says `content` to whoever connects."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = server.accept()
        with server, connection:
            connection.sendall(content)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(100):  # until the client leaves
                    pass

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["nobody", "another", "silent", "nonsense"])
def test_an_address_that_is_no_cluster_is_one_line_before_anything_is_written(
    kind, plane, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr("narrows.sweeps.cluster.PATIENCE", 0.5)
    addresses = {
        "nobody": lambda: "127.0.0.1:1",
        "another": lambda: answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "silent": lambda: answering(b""),
        "nonsense": lambda: "ray://somewhere",
    }
    expected = {
        "nobody": "no Ray cluster answers at --address 127.0.0.1:1 (Connection refused); check it",
        "another": "is not a Ray cluster; check it",
        "silent": "(timed out); check it",
        "nonsense": "--address must be HOST:PORT, as `ray start --head` prints it; it is ray://somewhere",
    }
    file = write_file(tmp_path / "s.toml", plane)
    words = ["--out", str(tmp_path / "s"), "--engine", "ray", "--address", addresses[kind]()]
    assert main(["sweep", str(file), *words]) == 2
    error = capsys.readouterr().err
    assert expected[kind] in error
    assert error.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_without_ray_one_line_names_the_extra(plane, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["sweep", str(write_file(tmp_path / "s.toml", plane)), "--engine", "ray"]) == 2
    assert capsys.readouterr().err == "narrows: error: --engine ray needs Ray: pip install 'narrows[ray]'\n"


def test_a_node_that_does_not_see_the_folder_says_so(table, plane, tmp_path):
    from narrows.sweeps.plan import make_plan
    from narrows.sweeps.run import train_run

    (planned, *_) = make_plan({**SETTINGS, "data": plane}).runs
    for folder in (tmp_path, table.folder):
        with pytest.raises(NarrowsError, match=r"does not see the sweep's folder .*; put it on a file system that all"):
            train_run(planned, [], folder, "another token")
