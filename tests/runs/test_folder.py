"""The run folder's contract: rows and results survive the trip through their files."""

import json
from pathlib import Path

import pytest

from narrows._util.errors import NarrowsError
from narrows.runs.folder import RunFolder, claim_folder
from narrows.runs.records import Certificate, Dimension, HeldOut, MetricRow, Refused, Result


def row(step: int) -> MetricRow:
    return MetricRow(step, 20.5, 9.25, 9, 0.125, 0.5, 1.5, -3.0, 12.0, 20.0)


def test_rows_round_trip_and_are_truncated_to_a_batch(tmp_path):
    folder = RunFolder(tmp_path)
    for step in (50, 100, 150):
        folder.append_row(row(step))
    assert folder.read_rows() == [row(50), row(100), row(150)]
    folder.append_row(row(170))
    folder.truncate_rows(180, every=50)
    assert folder.read_rows() == [row(50), row(100), row(150)], "a row that only a run's end made is dropped"
    folder.truncate_rows(120, every=50)
    assert folder.read_rows() == [row(50), row(100)]
    folder.append_row(row(150))
    assert folder.read_rows() == [row(50), row(100), row(150)]


def test_a_row_cut_off_by_a_crash_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_row(row(50))
    with folder.metrics.open("a") as file:
        file.write("100,20.5,9.25,9,0.125,0.5,1.5,-3,1")
    assert folder.read_rows() == [row(50)]


def test_truncating_before_any_row_leaves_a_file_that_can_be_appended_to(tmp_path):
    folder = RunFolder(tmp_path)
    folder.truncate_rows(0, every=50)
    folder.append_row(row(50))
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
