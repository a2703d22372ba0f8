"""Two processes through the real launcher: the same run as one, spoken of once."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from commands import HANGS, run, small
from narrows.runs.folder import RunFolder


@pytest.mark.parametrize(("recipe", "device"), [("paper", "cpu"), ("fast", "auto")])
def test_two_processes_train_the_same_model_as_one(tmp_path, recipe, device):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", rng.random((500, 3)) @ rng.random((3, 20)) / 3)
    alone = run(
        "train",
        tmp_path / "v.npy",
        "--tau",
        "0.2",
        "--steps",
        "110",  # too soon for the closing to have been confirmed, so that it is undone
        "--out",
        tmp_path / "one",
        *small(recipe=recipe, device=device),
    )
    assert alone.returncode == 0, alone.stderr
    # The settings go by file: the launcher takes short options such as --n for its own.
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "narrows"]
    again = ["train", "--config", str(tmp_path / "one" / "config.json"), "--out", str(tmp_path / "two")]
    both = subprocess.run([*launch, *again], capture_output=True, text=True, timeout=HANGS)
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("promise: error") == 1
    assert both.stdout.count("model:  ") == 1

    one, two = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "two")
    for a, b in zip(one.read_rows(), two.read_rows(), strict=True):
        left, right = dataclasses.asdict(a), dataclasses.asdict(b)
        del left["seconds"], right["seconds"]
        assert left == pytest.approx(right, rel=1e-3, nan_ok=True)
    decided = one.read_decisions()
    assert [d.action for d in decided] == (["close", "restore", "release", "end"] if recipe == "fast" else [])
    assert [(d.step, d.action, d.gates) for d in decided] == [(d.step, d.action, d.gates) for d in two.read_decisions()]
    assert one.read_result().dims == two.read_result().dims
    assert one.read_result().heldout.error == pytest.approx(two.read_result().heldout.error, rel=1e-3)
