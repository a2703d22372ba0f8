"""Runs on shards: from shards on disk as from one file, bit for bit."""

import numpy as np

from commands import SMALL
from narrows.cli import main
from narrows.runs.folder import RunFolder


def test_a_run_from_shards_equals_a_run_from_one_file(images, tmp_path):
    (tmp_path / "squares").mkdir()
    for i, part in enumerate(np.array_split(np.load(images), 12)):
        np.save(tmp_path / "squares" / f"part-{i}.npy", part)
    for data, out in ((images, "one"), (tmp_path / "squares", "many")):
        arguments = ["train", str(data), "--tau", "180", "--steps", "60", "--out", str(tmp_path / out)]
        assert main([*arguments, *SMALL]) == 0
    one, many = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "many")
    assert one.model.read_bytes() == many.model.read_bytes()
    assert one.read_result().heldout == many.read_result().heldout
