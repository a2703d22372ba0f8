"""Whether two runs are the same to the last bit, and a short run to compare with."""

from dataclasses import asdict

import torch

from commands import SMALL
from narrows.cli import main
from narrows.runs.folder import RunFolder
from narrows.runs.records import MetricRow
from narrows.training.checkpoint import list_checkpoints, read_checkpoint

TAU = 180


def final_state(folder: RunFolder) -> dict:
    state = read_checkpoint(list_checkpoints(folder.checkpoints)[-1])
    del state["seconds"], state["looks"]  # a run that ended before had one look more
    seconds = MetricRow.columns().index("seconds")
    rows = [line.split(",") for line in state["records"]["metrics.csv"]]
    state["records"]["metrics.csv"] = [row[:seconds] + row[seconds + 1 :] for row in rows]
    state["selection"] = state["selection"]["regular"]  # the candidate of an earlier end is kept apart
    return state


def assert_same(a: object, b: object, where: str = "state") -> None:
    """Equal to the last bit, through dicts, lists and tensors."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            assert_same(left, right, f"{where}[{i}]")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    else:
        assert a == b, where


def assert_same_run(a: RunFolder, b: RunFolder) -> None:
    assert_same(final_state(a), final_state(b))
    assert a.model.read_bytes() == b.model.read_bytes()
    for left, right in zip(a.read_rows(), b.read_rows(), strict=True):
        assert str({**asdict(left), "seconds": 0}) == str({**asdict(right), "seconds": 0})  # as text: nan is nan
    first, second = a.read_result(), b.read_result()
    assert first.heldout.error == second.heldout.error
    assert (first.dims, first.kept, first.model_step) == (second.dims, second.kept, second.model_step)


def whole_run(images, out, steps) -> RunFolder:
    assert main(["train", str(images), "--tau", str(TAU), "--steps", str(steps), "--out", str(out), *SMALL]) == 0
    return RunFolder(out)
