"""Following a folder that another process writes into: whole lines, nothing lost, nothing touched."""

import dataclasses
import os
import re

import pytest

from narrows._util.errors import NarrowsError
from narrows.report.live.follow import Follower, Growing, pace
from narrows.runs.folder import RunFolder
from narrows.runs.records import DecisionRow, MetricRow
from narrows.training.config import TrainConfig, to_dict


def row(step: int, seconds: float = 0.0) -> MetricRow:
    return MetricRow(step, 2.5, 3.0, 3, 1.5, 0.25, 4.0, 6.5, seconds, 2.25)


def test_every_way_to_cut_a_file_into_pieces_gives_the_same_rows(folder):
    for step in (10, 20, 30):
        folder.append_row(row(step))
    content = folder.metrics.read_bytes()
    folder.metrics.write_bytes(b"")
    growing = Growing(folder.metrics, MetricRow.parse)
    for end in range(len(content) + 1):
        with folder.metrics.open("ab") as file:
            file.write(content[max(0, end - 1) : end])
        assert len(growing.read()) == max(0, content[:end].count(b"\n") - 1)
    assert growing.read() == [row(10), row(20), row(30)] == folder.read_rows()


def test_before_the_first_row_there_are_none(folder):
    snapshot = Follower(folder.path).look()
    assert (snapshot.rows, snapshot.run.decisions, snapshot.ended, pace(snapshot.rows)) == ([], [], False, "")
    assert (snapshot.run.n, snapshot.run.tau) == (4, 3.0)


def test_a_resumed_run_is_read_from_the_start(folder):
    follower = Follower(folder.path)
    lines = [folder.append_row(row(step)) for step in (10, 20, 30)]
    assert [r.step for r in follower.look().rows] == [10, 20, 30]
    folder.write_records({"metrics.csv": lines[:1]})
    for step in (20, 30, 40, 50):
        folder.append_row(row(step, seconds=9.0))
    rows = follower.look().rows
    assert [r.step for r in rows] == [10, 20, 30, 40, 50]
    assert rows[1].seconds == 9.0


def test_a_damaged_line_is_named(folder):
    folder.append_row(row(10))
    with folder.metrics.open("a") as file:
        file.write("20,what\n")
    with pytest.raises(NarrowsError, match=re.escape(f"{folder.metrics} is damaged after line 1")):
        Follower(folder.path).look()


def test_a_folder_without_a_run_cannot_be_followed(tmp_path):
    with pytest.raises(NarrowsError, match="is not a run folder"):
        Follower(tmp_path)


def test_pace_and_patience_come_from_the_rows(folder):
    for step in range(10, 400, 10):
        folder.append_row(row(step, seconds=2.0 * step))
    snapshot = Follower(folder.path).look()
    assert pace(snapshot.rows) == ", 0.5 batches/s"
    assert snapshot.patience(30.0) == 100.0  # a row every 20 s
    assert snapshot.patience(300.0) == 300.0


def test_news_is_the_time_of_the_last_write(folder):
    folder.append_row(row(10))
    for path in (folder.config, folder.metrics, folder.checkpoints):
        os.utime(path, (1_000, 1_000))
    follower = Follower(folder.path)
    assert follower.look().news == 1_000
    folder.append_decision(DecisionRow(10, "close", 4, 0.9, "2"))
    os.utime(folder.decisions, (2_000, 2_000))
    snapshot = follower.look()
    assert snapshot.news == 2_000
    assert snapshot.age() > 1e9
    assert dataclasses.replace(snapshot, news=1e12).age() == 0.0  # a clock that is ahead


def test_looking_changes_nothing(folder):
    folder.append_row(row(10))
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    with folder.lock():
        Follower(folder.path).look()
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


def test_of_a_front_the_run_that_trains_is_followed(tmp_path):
    from narrows.runs.front import FrontFolder, outermost

    front = FrontFolder(tmp_path / "f")
    front.path.mkdir()
    front.about.write_text('{"taus": [3, 4], "config": {}}')
    follower = Follower(front.path)
    snapshot = follower.look()
    assert (snapshot.part, snapshot.run, snapshot.rows) == ("tau 3, 1 of 2", None, [])
    for tau in (3, 4):
        level = front.level(tau)
        level.checkpoints.mkdir(parents=True)
        level.write_config(to_dict(TrainConfig(tau=float(tau), n=4)))
        level.append_row(row(10 * tau))
        assert outermost(level) == front.path
        snapshot = follower.look()
        assert (snapshot.part, snapshot.run.tau, [r.step for r in snapshot.rows]) == (
            f"tau {tau}, {tau - 2} of 2",
            tau,
            [10 * tau],
        )
        assert not snapshot.ended
        level.result.write_text("{}")
    assert follower.look().ended


def test_with_as_good_as_the_plain_run_comes_first(folder):
    from narrows.runs.front import outermost

    plain = RunFolder(folder.plain)
    plain.checkpoints.mkdir(parents=True)
    plain.write_config(to_dict(TrainConfig(recipe="plain", n=7)))
    plain.append_row(row(10))
    assert outermost(plain) == outermost(folder) == folder.path
    follower = Follower(folder.path)
    snapshot = follower.look()
    assert (snapshot.part, snapshot.run.n, len(snapshot.rows)) == ("the plain VAE first", 7, 1)
    plain.result.write_text("{}")
    snapshot = follower.look()
    assert (snapshot.part, snapshot.run.n, snapshot.rows, snapshot.ended) == ("", 4, [], False)
