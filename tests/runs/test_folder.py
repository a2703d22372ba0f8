"""The run folder's contract: rows and results survive the trip through their files."""

import json
import os
from pathlib import Path

import pytest

from narrows._util.errors import NarrowsError
from narrows.runs.folder import IN_MEMORY, RunFolder, claim_folder, read_settings, resuming, way_on
from narrows.runs.front import FrontFolder
from narrows.runs.records import Certificate, DecisionRow, Dimension, HeldOut, MetricRow, Refused, Result
from refusals import refused


def row(step: int) -> MetricRow:
    return MetricRow(step, 20.5, 9.25, 9, 0.125, 0.5, 1.5, -3.0, 12.0, 20.0)


def test_rows_round_trip_and_can_be_written_anew(tmp_path):
    folder = RunFolder(tmp_path)
    lines = [folder.append_row(row(step)) for step in (50, 100, 150)]
    assert folder.read_rows() == [row(50), row(100), row(150)]
    folder.metrics.write_text("damaged")
    folder.append_decision(DecisionRow(60, "close", 2, 0.9, "2"))
    costs = [folder.append_costs(step, [0.5, float("nan"), 0.25]) for step in (50, 100)]
    folder.write_records({"metrics.csv": lines[:2], "decisions.csv": [], "costs.csv": costs[:1]})
    assert folder.read_rows() == [row(50), row(100)]
    assert folder.read_decisions() == []
    assert folder.costs.read_text() == "step,0,1,2\n50,0.5,,0.25\n"
    folder.append_row(row(150))
    assert folder.read_rows() == [row(50), row(100), row(150)]


def test_a_row_cut_off_by_a_crash_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_row(row(50))
    with folder.metrics.open("a") as file:
        file.write("100,20.5,9.25,9,0.125,0.5,1.5,-3,1")
    assert folder.read_rows() == [row(50)]


def test_a_result_round_trips(tmp_path):
    held = HeldOut(19.5, 19.75, 15.0, 1000, 4.5)
    result = Result(
        n=10, dims=2, kept=[1, 7], tau=20.0, values=4096, variance=100.0, heldout=held, validation=held,
        best_error=19.0, best_dims=3, met=True, model="smallest that met tau", model_step=500, steps=1000,
        seconds=1.5, seed=0, versions={"a": "1"},
        dimensions=[Dimension(1, 5.0, 2.0, 0.0, 1.0), Dimension(7, 4.5, 1.5, 0.25, 0.5)],
        certificate=Certificate("exact", 0.95, 4096.0, 1, 0.9, 30.0, [Refused(1, 19.9, 20.2)]),
    )  # fmt: skip
    assert Result.from_json(result.to_json()) == result


def test_a_result_of_version_0_1_can_be_read():
    held = {"error": 19.5, "low": 19.25, "high": 19.75, "error_at_mean": 15.0, "count": 1000}
    content = {
        "n": 10, "dims": 1, "kept": [1], "tau": 20.0, "values": 4096, "variance": 100.0, "heldout": held,
        "validation": held, "best_error": 19.0, "best_dims": 3, "met": True, "model": "smallest that met tau",
        "model_step": 500, "steps": 1000, "seconds": 1.5, "seed": 0, "versions": {},
        "dimensions": [{"kept": 1, "cost": 5.0, "kl": 2.0, "mean": 0.0, "std": 1.0}],
    }  # fmt: skip
    result = Result.from_json(json.dumps(content))
    assert (result.heldout, result.certificate) == (HeldOut(19.5, 19.75, 15.0, 1000), None)


@pytest.mark.parametrize("text", ['{"n": 10}', '{"tau": NaN}', "", "[]"])
def test_a_damaged_result_is_named(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(NarrowsError, match=r"result\.json is damaged"):
        RunFolder(tmp_path).read_result()


def test_the_next_free_folder_is_claimed(tmp_path, monkeypatch):
    """Names with wildcard characters and odd digits included: a name is only ever compared by making it."""
    monkeypatch.chdir(tmp_path)
    for stem in ("a", "b[1]", "c²"):
        paths = [claim_folder(None, stem) for _ in range(3)]
        assert paths == [Path("runs") / f"{stem}-{number}" for number in (1, 2, 3)]
        assert all(path.is_dir() for path in paths)


def test_a_folder_with_anything_in_it_is_refused(tmp_path):
    assert claim_folder(tmp_path / "new" / "run", "x").is_dir()
    (tmp_path / "new" / "run" / "notes.txt").write_text("mine")
    with pytest.raises(NarrowsError, match=r"exists and is not empty.*choose another out$"):
        claim_folder(tmp_path / "new" / "run", "x")
    RunFolder(tmp_path / "new" / "run").write_config({})
    with pytest.raises(NarrowsError, match=r"or continue that run with `narrows resume"):
        claim_folder(tmp_path / "new" / "run", "x")


@pytest.mark.parametrize("line", ["", "garbage", "1,2,3", "x,20.5,9.25,9,0.125,0.5,1.5,-3,12"])
def test_damaged_metrics_are_named_with_their_line(tmp_path, line):
    folder = RunFolder(tmp_path)
    folder.append_row(row(50))
    with folder.metrics.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(NarrowsError, match=r"metrics\.csv is damaged near line 3"):
        folder.read_rows()


def test_a_folder_can_be_held_by_one_process_only(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.checkpoints.mkdir(parents=True)
    with folder.lock(), pytest.raises(NarrowsError, match="is being trained by another process"), folder.lock():
        pass
    with folder.lock():
        pass


RESULT = {
    "n": 10, "dims": 1, "kept": [1], "tau": 20.0, "values": 4096, "variance": 100.0,
    "heldout": {"error": 19.5, "high": 19.75, "error_at_mean": 15.0, "count": 1000},
    "validation": {"error": 19.5, "high": 19.75, "error_at_mean": 15.0, "count": 1000},
    "best_error": 19.0, "best_dims": 3, "met": True, "model": "smallest that met tau",
    "model_step": 500, "steps": 1000, "seconds": 1.5, "seed": 0, "versions": {},
    "dimensions": [{"kept": 1, "cost": 5.0, "kl": 2.0, "mean": 0.0, "std": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": 0}, "values must be at least 1; it is 0"),
        ({"n": "four"}, "n must be a whole number from 0 on; it is 'four'"),
        ({"tau": -1}, "tau must be above 0"),
        ({"tau": 10**400}, "tau must be a number"),
        ({"kept": [10]}, "kept must be 1 different numbers below 10"),
        ({"dims": 2}, "kept must be 2 different numbers below 10; it is [1]"),
        ({"dimensions": []}, "dimensions must be a list of 1; it has 0"),
        ({"heldout": None}, "heldout must be an object"),
        ({"certificate": {"kind": "exact"}}, "certificate.confidence is missing"),
    ],
)
def test_a_result_that_cannot_be_is_named_with_its_entry(tmp_path, change, message):
    (tmp_path / "result.json").write_text(json.dumps({**RESULT, **change}))
    text = refused(RunFolder(tmp_path).read_result)
    assert text.startswith(f"{tmp_path / 'result.json'} is damaged ({message}")


def test_a_result_that_cannot_be_read_is_not_to_be_deleted(tmp_path):
    (tmp_path / "result.json").mkdir()
    assert refused(RunFolder(tmp_path).read_result).startswith(
        f"cannot read {tmp_path / 'result.json'}: Is a directory;"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("60,close,2,0.9,99", "there is no gate 99 among 4"),
        ("60,close,2,0.9,-1", "'-1' is not a whole number"),
        ("60,fly,2,0.9,1", "'fly' is none of close, restore, release, end"),
        (f"{'9' * 400},close,2,0.9,1", "is not a whole number"),
        ("60,close,2,1e400,1", "'1e400' is not a finite number"),
        ("60,close", "2 cells instead of 5"),
    ],
)
def test_a_decision_that_cannot_be_is_named_with_its_line(tmp_path, line, message):
    folder = RunFolder(tmp_path)
    folder.append_decision(DecisionRow(50, "close", 3, float("inf"), "3"))
    with folder.decisions.open("a") as file:
        file.write(f"{line}\n")
    text = refused(folder.read_decisions, 4)
    assert "decisions.csv is damaged near line 3" in text
    assert message in text


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"taus": [], "config": {}}', '{"taus": [-1], "config": {}}', "{", "[" * 9999]
)
def test_a_damaged_front_is_named(tmp_path, text):
    (tmp_path / "front.json").write_text(text)
    assert refused(FrontFolder(tmp_path).read_about).startswith(f"{tmp_path / 'front.json'} is damaged")


@pytest.mark.parametrize("name", ["config.toml", "config.json"])
@pytest.mark.parametrize("nested", ["a = " + "[" * 50_000, '{"a":' * 50_000])
def test_deeply_nested_settings_are_refused(tmp_path, name, nested):
    (tmp_path / name).write_text(nested)
    assert "is damaged: it is not valid" in refused(read_settings, tmp_path / name)


def test_what_a_run_leaves_that_was_killed_before_it_began_is_no_run(tmp_path):
    """The folder can be claimed again, and whoever resumes it is told to start again."""
    folder = RunFolder(claim_folder(tmp_path / "run", "x"))
    folder.checkpoints.mkdir()
    (folder.checkpoints / ".batch-000000000.ckpt.abc.part").touch()
    (folder.path / ".config.json.abc.part").touch()
    advice = "check the path, or, if its run was stopped before it began, start it again with the same command"
    assert refused(folder.read_config).endswith(f"it is empty; {advice}")
    assert refused(RunFolder(tmp_path / "none").read_config).endswith(f"it does not exist; {advice}")
    assert claim_folder(folder.path, "x") == folder.path
    with folder.lock():
        assert list(folder.path.rglob("*.part")) == []
    folder.write_config({}, new=True)
    assert folder.is_untouched()
    assert way_on(folder.path) == f"continue with: narrows resume {folder.path}"
    assert "another process has just begun" in refused(folder.write_config, {}, new=True)
    folder.append_row(row(50))
    assert not folder.is_untouched()


@pytest.mark.parametrize("name", ["checkpoints", "plain", "metrics.csv", "tensorboard"])
def test_a_run_is_not_trained_through_a_symlink(tmp_path, name):
    """A stranger's folder could so have files of yours written, replaced or removed."""
    yours, leftover = tmp_path / "yours", tmp_path / "yours" / ".a.part"
    yours.mkdir()
    leftover.touch()
    folder = RunFolder(claim_folder(tmp_path / "run", "x"))
    folder.write_config({})
    (folder.path / name).symlink_to(tmp_path / "nowhere" if name == "metrics.csv" else yours)

    def train():
        with folder.lock():
            pytest.fail("the folder was taken")

    assert refused(train).startswith(f"{folder.path / name} is a symlink to {tmp_path}/")
    assert list(yours.iterdir()) == [leftover]
    for part in RunFolder(folder.path / name), FrontFolder(folder.path).level(3):
        if not part.path.is_symlink():
            part.path.symlink_to(yours)
        with pytest.raises(NarrowsError, match=" is a symlink to "), part.lock():
            pytest.fail("the folder was taken")
    (folder.path / "tau-3").unlink()
    assert list(yours.iterdir()) == [leftover]
    (tmp_path / "link").symlink_to(folder.path)  # the user's own way to the folder
    (folder.path / name).unlink()
    with RunFolder(tmp_path / "link").lock():
        pass


def test_a_run_on_an_array_in_memory_goes_on_in_python(tmp_path):
    folder, front = RunFolder(tmp_path / "it's a run"), FrontFolder(tmp_path / "front")
    folder.path.mkdir()
    front.path.mkdir()
    folder.write_config({"data": IN_MEMORY})
    front.write_about([1.0], {"data": IN_MEMORY})
    assert way_on(folder.path) == f"continue with: narrows.resume({str(folder.path)!r}, data=...)"
    assert resuming(folder.path, 50) == f"narrows.resume({str(folder.path)!r}, steps=50, data=...)"
    assert resuming(front.path) == f"narrows.resume_front({str(front.path)!r}, data=...)"
    folder.config.write_text("[")
    assert resuming(folder.path, 50) == f"narrows resume '{str(folder.path)[:-8]}'\"'\"'s a run' --steps 50"


@pytest.mark.parametrize(
    "name", ["result.json", "metrics.csv", "decisions.csv", "costs.csv", "config.json", "front.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "huge"])
def test_what_cannot_be_a_file_of_a_run_is_refused_at_once(tmp_path, name, kind):
    """A named pipe would wait for ever, and a file of 20 GB, most of it a hole, would fill the memory."""
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        with (tmp_path / name).open("wb") as file:
            file.truncate(20 * 10**9)
    folder, front = RunFolder(tmp_path), FrontFolder(tmp_path)
    readers = {
        "result.json": folder.read_result,
        "metrics.csv": folder.read_rows,
        "decisions.csv": folder.read_decisions,
        "costs.csv": folder.read_first_costs,
        "config.json": folder.read_config,
        "front.json": front.read_about,
    }
    text = refused(readers[name])
    assert str(tmp_path / name) in text
    assert ("is a named pipe" if kind == "pipe" else "20,000,000,000 bytes") in text
