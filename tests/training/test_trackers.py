"""--track: the columns of metrics.csv, read back from the tracker's own files."""

import csv

import pytest
from accelerate.utils import LoggerType
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from commands import option_help, small
from narrows.cli import main
from narrows.training import trackers as tracking
from narrows.training.trackers import TRACKERS, Trackers


def events(out):
    (folder,) = (out / "tensorboard").iterdir()
    read = EventAccumulator(str(folder))
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_tensorboard_has_the_columns_of_metrics(images, tmp_path):
    out = tmp_path / "run"
    words = ["--tau", "40", "--steps", "30", "--track", "tensorboard", "--out", str(out), *small()]
    assert main(["train", str(images), *words]) == 0
    assert main(["resume", str(out), "--steps", "60"]) == 0
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    seen = events(out)
    assert set(seen) == set(rows[0]) - {"step", "watched"}, "watched is nan with the paper's recipe"
    for tag in ("error", "lambda", "open", "hits", "kl"):
        expected = [(int(row["step"]), pytest.approx(float(row[tag]), rel=1e-5)) for row in rows]
        assert seen[tag] == expected


def test_every_tracker_is_offered_and_has_its_class():
    for name in TRACKERS:
        assert name in option_help("track"), "`narrows train --help` must list it"
        assert any(known.value == name for known in LoggerType), "accelerate must know it"


def test_a_tracker_that_fails_is_dropped(monkeypatch, tmp_path, capsys):
    class Broken:
        def start(self):
            raise RuntimeError("no disk,\nno network")

    monkeypatch.setattr("accelerate.tracking.TensorBoardTracker", lambda *a, **k: Broken())
    trackers = Trackers()
    trackers.start(["tensorboard"], tmp_path, {}, 0)
    assert trackers.running == {}
    warning = "narrows: warning: the tracker tensorboard failed and is dropped: no disk, no network\n"
    assert capsys.readouterr().err == warning


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("tensorbord", "--track must be one or more of tensorboard, wandb, mlflow; it has 'tensorbord'"),
        ("tensorboard,", "--track must be one or more of tensorboard, wandb, mlflow; it has ''"),
        ("wandb", "--track wandb needs its package: pip install wandb"),
    ],
)
def test_unknown_and_missing_trackers(images, tmp_path, monkeypatch, capsys, names, expected):
    real = tracking.importlib.util.find_spec
    monkeypatch.setattr(tracking.importlib.util, "find_spec", lambda n, *a: None if n == "wandb" else real(n, *a))
    assert main(["train", str(images), "--tau", "40", "--track", names, "--out", str(tmp_path / "r")]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
