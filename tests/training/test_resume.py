"""Training through a checkpoint equals training in one go, bit for bit, however the run was stopped."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import narrows
from commands import HANGS, SMALL, command, run, run_until, small
from narrows.cli import main
from narrows.runs.folder import RunFolder
from narrows.training.checkpoint import MAGIC, list_checkpoints
from narrows.training.trainer import Trainer
from refusals import refused
from same_run import TAU, assert_same_run, final_state, whole_run

LONG = 400


@pytest.fixture(scope="module")
def long_run(images, tmp_path_factory) -> RunFolder:
    """An uninterrupted run, long enough for another process to be stopped in the middle of its like."""
    return whole_run(images, tmp_path_factory.mktemp("whole") / "run", LONG)


@pytest.mark.parametrize(("estimator", "noise"), [("arm", "example"), ("disarm", "batch")])
def test_40_and_40_batches_equal_80(images, tmp_path, estimator, noise):
    extra = ["--estimator", estimator, "--gate-noise", noise, *SMALL]
    start = ["train", str(images), "--tau", str(TAU)]
    assert main([*start, "--steps", "80", "--out", str(tmp_path / "whole"), *extra]) == 0
    assert main([*start, "--steps", "40", "--out", str(tmp_path / "parts"), *extra]) == 0
    assert main(["resume", str(tmp_path / "parts"), "--steps", "80"]) == 0
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    assert_same_run(whole, parts)
    state = final_state(whole)
    assert state["objective"]["hit"], "the gates never started to be sampled: the comparison would be too easy"
    assert state["selection"] is not None


def test_each_look_at_the_test_split_is_counted_and_costs_confidence(images, tmp_path):
    folder = whole_run(images, tmp_path / "run", 40)
    first = folder.read_result()
    assert main(["resume", str(folder.path)]) == 0  # nothing to do, so no look
    assert folder.read_result() == first
    assert main(["resume", str(folder.path), "--steps", "80"]) == 0
    second, once = folder.read_result(), whole_run(images, tmp_path / "once", 80).read_result()
    assert [one.certificate.look for one in (first, second, once)] == [1, 2, 1]
    assert [one.certificate.confidence for one in (first, second)] == [0.95, 0.95]
    assert second.heldout.error == once.heldout.error
    assert second.heldout.high > once.heldout.high


def test_going_on_from_any_batch_is_exact(images, tmp_path):
    """45 batches are no multiple of eval_every: the look at the first part's end leaves the training as it was."""
    whole = whole_run(images, tmp_path / "whole", 100)
    parts = whole_run(images, tmp_path / "parts", 45)
    assert main(["resume", str(parts.path), "--steps", "100"]) == 0
    assert_same_run(whole, parts)


def stop_after(step: int, number: int, images, out) -> subprocess.CompletedProcess:
    """Let a run have a signal after a certain batch: a moment that does not depend on the machine."""
    return run_until(number, step, out, "train", images, "--tau", TAU, "--steps", LONG, "--out", out, *SMALL)


@pytest.mark.parametrize("step", [3, 53], ids=["before its first checkpoint", "between checkpoints"])
def test_a_killed_run_continues_bit_for_bit(images, tmp_path, long_run, step):
    killed = RunFolder(tmp_path / "killed")
    assert stop_after(step, signal.SIGKILL, images, killed.path).returncode == -signal.SIGKILL
    assert killed.read_result() is None
    shown = run("show", killed.path)
    assert shown.returncode == 0
    assert "has not ended" in shown.stdout
    resumed = run("resume", killed.path)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_run(long_run, killed)


@pytest.mark.parametrize("content", [None, "", "step,er", "all gone\n1\n"])
def test_damaged_rows_are_written_anew_from_the_checkpoint(images, tmp_path, long_run, content):
    stopped = RunFolder(tmp_path / "stopped")
    stop_after(53, signal.SIGTERM, images, stopped.path)
    stopped.metrics.unlink()
    if content is not None:
        stopped.metrics.write_text(content)
    assert main(["resume", str(stopped.path)]) == 0
    assert_same_run(long_run, stopped)


def test_a_run_that_was_killed_before_its_first_checkpoint_can_be_resumed(images, tmp_path, long_run):
    """Its settings are there, and nothing else."""
    out = tmp_path / "run"
    stop_after(1, signal.SIGKILL, images, out)
    shutil.rmtree(out / "checkpoints")
    assert main(["resume", str(out)]) == 0
    assert_same_run(long_run, RunFolder(out))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_batch_writes_a_checkpoint_and_says_how_to_continue(images, tmp_path, long_run, number):
    out = tmp_path / "stopped"
    stopped = stop_after(53, number, images, out)
    assert stopped.returncode == 128 + number
    assert f"stopped by {number.name} after batch 53; continue with: narrows resume {out}" in stopped.stdout
    assert "Traceback" not in stopped.stderr
    assert list_checkpoints(RunFolder(out).checkpoints)[-1].name == "batch-000000053.ckpt"
    assert run("resume", out).returncode == 0
    assert_same_run(long_run, RunFolder(out))


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(images, tmp_path, capsys):
    whole = whole_run(images, tmp_path / "whole", 120)
    parts = whole_run(images, tmp_path / "parts", 80)
    newest = list_checkpoints(parts.checkpoints)[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    assert main(["resume", str(parts.path), "--steps", "120"]) == 0
    assert f"the checkpoint {newest} is damaged; the one before it was used" in capsys.readouterr().err
    assert_same_run(whole, parts)


def test_a_checkpoint_of_another_version_is_not_called_damaged(images, tmp_path, capsys):
    folder = whole_run(images, tmp_path / "run", 80)
    newest = list_checkpoints(folder.checkpoints)[-1]
    newest.write_bytes(newest.read_bytes().replace(MAGIC, b"narrows checkpoint 4\n", 1))
    assert main(["resume", str(folder.path), "--steps", "120"]) == 2
    assert f"the checkpoint {newest} was written by another version of narrows; resume" in capsys.readouterr().err


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(images, tmp_path, capsys):
    folder = whole_run(images, tmp_path / "run", 80)
    for path in list_checkpoints(folder.checkpoints):
        path.write_bytes(path.read_bytes()[:100])
    assert main(["resume", str(folder.path), "--steps", "120"]) == 2
    error = capsys.readouterr().err
    assert all(str(path) in error for path in list_checkpoints(folder.checkpoints))
    assert error.count("\n") == 1


def test_only_the_last_two_checkpoints_are_kept_and_nothing_half_written(images, tmp_path):
    folder = whole_run(images, tmp_path / "run", 200)
    assert [p.name for p in sorted(folder.checkpoints.iterdir())] == ["batch-000000160.ckpt", "batch-000000200.ckpt"]
    assert not [name for _, _, names in os.walk(folder.path) for name in names if name.endswith(".part")]


def test_resume_refuses_other_data(images, tmp_path, capsys):
    import numpy as np

    copy = tmp_path / "mine.npy"
    np.save(copy, np.load(images))
    folder = whole_run(copy, tmp_path / "run", 40)
    np.save(copy, np.load(images)[::-1])
    assert main(["resume", str(folder.path), "--steps", "80"]) == 2
    assert "are not those this run was started with" in capsys.readouterr().err


def test_a_finished_run_is_shown_again_not_trained(images, tmp_path, capsys):
    folder = whole_run(images, tmp_path / "run", 40)
    before = folder.result.read_bytes()
    assert main(["resume", str(folder.path)]) == 0
    assert folder.result.read_bytes() == before


def test_going_on_never_loses_an_answer(images, tmp_path):
    """The look at a run's end counts for the runs that go on from it, although no regular look came to it."""
    arguments = ["--tau", str(TAU), "--steps", "45", "--out", str(tmp_path / "run")]
    assert main(["train", str(images), *arguments, *small(eval_every=1000)]) == 0
    folder = RunFolder(tmp_path / "run")
    first = folder.read_result()
    assert first.met
    assert main(["resume", str(folder.path), "--steps", "50"]) == 0
    second = folder.read_result()
    assert second.met
    assert second.validation.error <= first.validation.error
    assert second.best_error <= first.best_error


def test_an_extended_run_that_is_stopped_has_no_answer_until_it_ends(images, tmp_path):
    folder = whole_run(images, tmp_path / "run", 40)
    process = subprocess.Popen(command("resume", folder.path, "--steps", 100_000), stdout=subprocess.PIPE, text=True)
    while not any(path.name >= "batch-000000080.ckpt" for path in list_checkpoints(folder.checkpoints)):
        assert process.poll() is None
        time.sleep(0.01)
    # A second process is refused while the first trains.
    second = run("resume", folder.path)
    assert second.returncode == 2
    assert "is being trained by another process" in second.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANGS)
    assert folder.read_result() is None
    assert "has not ended" in run("show", folder.path).stdout


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tau", 500.0, "say tau = 500.0, but it was trained with 180.0"),
        ("split_seed", 9, "say split_seed = 9"),
        ("n", 5, "say n = 5"),
        ("learning_rate", 0.1, "say learning_rate = 0.1"),
        ("estimator", "foo", "--estimator must be one of arm, disarm"),
        ("width", "2", "--width must be a whole number; it is '2'"),
        ("n", None, "--n must be a whole number"),
        ("n", 6.5, "--n must be a whole number"),
        ("tau", "x", "--tau must be a number"),
        ("steps", 3, "--steps 3 is less than the 40 batches"),
    ],
)
def test_an_edited_config_is_refused(images, tmp_path, capsys, name, value, message):
    folder = whole_run(images, tmp_path / "run", 40)
    folder.write_config({**folder.read_config(), "steps": 60, name: value})
    before = folder.result.read_bytes()
    assert main(["resume", str(folder.path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert folder.result.read_bytes() == before


@pytest.mark.parametrize("damage", ["deleted", "truncated", "overwritten"])
def test_a_damaged_model_is_written_again(images, tmp_path, damage):
    folder = whole_run(images, tmp_path / "run", 40)
    before = folder.model.read_bytes()
    folder.model.unlink()
    if damage != "deleted":
        folder.model.write_bytes(before[:-9] if damage == "truncated" else b"these are no weights")
    assert main(["resume", str(folder.path)]) == 0
    assert folder.model.read_bytes() == before


@pytest.mark.parametrize("damage", ["{", '{"n": 10}', '{"heldout": {"error": "abc"}}'])
def test_a_damaged_result_is_named_and_can_be_made_again(images, tmp_path, capsys, damage):
    folder = whole_run(images, tmp_path / "run", 40)
    before = folder.read_result()
    folder.result.write_text(damage)
    assert main(["show", str(folder.path)]) == 2
    assert "delete it, and `narrows resume" in capsys.readouterr().err
    folder.result.unlink()
    assert main(["resume", str(folder.path)]) == 0
    assert folder.read_result().heldout == before.heldout


def test_a_full_disk_is_said_plainly_and_nothing_is_lost(images, tmp_path, capsys, monkeypatch):
    """A folder that takes no more bytes from a certain moment on: what was saved stays, and the run can go on."""

    import narrows._util.files

    folder = whole_run(images, tmp_path / "run", 40)
    whole = whole_run(images, tmp_path / "whole", 120)
    real = os.fsync
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(narrows._util.files.os, "fsync", full)
        assert main(["resume", str(folder.path), "--steps", "120"]) == 2
    error = capsys.readouterr().err
    assert f"cannot write into {folder.path}: No space left on device" in error
    assert f"narrows resume {folder.path}" in error
    assert not list(folder.path.rglob("*.part"))
    assert main(["resume", str(folder.path)]) == 0
    assert_same_run(whole, folder)


def test_a_run_on_an_array_is_continued_as_its_error_says(tmp_path, monkeypatch):
    x = np.random.default_rng(0).random((200, 6), dtype=np.float32)
    config = narrows.TrainConfig(recipe="paper", tau=0.4, n=4, width=2, batch=16, steps=30, checkpoint_every=10)
    with monkeypatch.context() as patch:
        fail = OSError(errno.ENOSPC, "No space left on device")
        patch.setattr(Trainer, "train_batch", lambda trainer: (_ for _ in ()).throw(fail))
        text = refused(narrows.train, config, tmp_path / "run", x)
    call = re.search(r"continue with: (narrows\.resume\(.*\))$", text)[1]
    outcome = eval(call.replace("...", "x"))
    assert outcome.result.steps == 30


def test_a_loop_over_runs_can_be_stopped_from_python(images, tmp_path):
    """Ctrl-C is a KeyboardInterrupt, also where a run has turned it into a checkpoint."""
    code = f"""
import os, signal, narrows
from narrows.training.trainer import Trainer

train_batch = Trainer.train_batch
def train_and_stop(trainer):
    train_batch(trainer)
    if trainer.step == 5:
        os.kill(os.getpid(), signal.SIGINT)
Trainer.train_batch = train_and_stop
for number in range(3):
    try:
        narrows.train(narrows.TrainConfig(data={str(images)!r}, tau=180, width=2, n=4, batch=16), f"run-{{number}}")
    except Exception as error:
        print("a failed run:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert "Interrupted: stopped by SIGINT after batch 5" in done.stderr
    assert done.stdout == ""
    assert os.listdir(tmp_path) == ["run-0"]


def test_a_folder_that_was_moved_while_its_run_was_training_is_said_so(images, tmp_path, capsys, monkeypatch):
    train_batch = Trainer.train_batch

    def train_and_move(trainer):
        train_batch(trainer)
        if trainer.step == 5:
            (tmp_path / "run").rename(tmp_path / "moved")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_batch", train_and_move)
        assert (
            main(["train", str(images), "--tau", str(TAU), "--steps", "60", "--out", str(tmp_path / "run"), *SMALL])
            == 2
        )
    assert (
        "was moved or deleted while its run was training; if it was moved, resume it at its new place"
        in capsys.readouterr().err
    )
    assert main(["resume", str(tmp_path / "moved")]) == 0
