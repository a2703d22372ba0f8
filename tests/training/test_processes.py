"""Two processes through the real launcher: the same run as one, spoken of once."""

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest

from commands import HANGS, run, small
from narrows.runs.folder import RunFolder

SAYS_ITS_MODEL = """
import hashlib, sys
from narrows.cli import main
from narrows.training.trainer import Trainer

finish = Trainer._finish

def say_and_finish(trainer):
    states = [trainer.model.state_dict(), trainer.recipe.candidate.state_dict()]
    parts = [tensor.numpy().tobytes() for state in states for tensor in state.values()]
    print("digest", hashlib.sha256(b"".join(parts)).hexdigest(), flush=True)
    return finish(trainer)

Trainer._finish = say_and_finish
sys.exit(main())
"""


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", rng.random((500, 3)) @ rng.random((3, 20)) / 3)
    return tmp_path / "v.npy"


@pytest.mark.parametrize(
    ("recipe", "device", "data", "tau"), [("paper", "cpu", "images", 80), ("fast", "auto", "vectors", 0.2)]
)
def test_two_processes_train_the_same_model_as_one(tmp_path, request, recipe, device, data, tau):
    """The trained and the averaged model are the same bytes in both; one process's differs by what rounding adds up to.

    tests/recipes/test_processes.py compares without rounding.
    """
    alone = run(
        "train",
        request.getfixturevalue(data),
        "--tau",
        tau,
        "--steps",
        "110",  # too soon for the closing to have been confirmed, so that it is undone
        "--out",
        tmp_path / "one",
        *small(recipe=recipe, device=device),
    )
    assert alone.returncode == 0, alone.stderr
    # The settings go by file: the launcher takes short options such as --n for its own.
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "--no-python"]
    again = ["train", "--config", str(tmp_path / "one" / "config.json"), "--out", str(tmp_path / "two")]
    command = [*launch, sys.executable, "-c", SAYS_ITS_MODEL, *again]
    both = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("promise: error") == 1
    assert both.stdout.count("model:  ") == 1
    one_digest, other_digest = re.findall(r"digest (\w{64})", both.stdout)
    assert one_digest == other_digest

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
