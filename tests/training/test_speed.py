"""narrows bench: one row for each recipe on each network, from steps that really train."""

import re

from narrows import _version
from narrows.cli import main
from narrows.training import speed


def test_a_row_for_each_recipe(monkeypatch, capsys):
    monkeypatch.setattr(speed, "NETWORKS", {"28x28x1": (28, 28, 1), "table": (6,)})
    assert main(["bench", "--device", "cpu", "--steps", "1"]) == 0
    machine, _, *table = capsys.readouterr().out.splitlines()
    assert machine.startswith(f"narrows {_version.__version__}")
    assert machine.endswith("batch 64, float32; 1 steps")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table[2:]]
    assert [row[:2] for row in rows] == [[name, recipe] for name in speed.NETWORKS for recipe in ("fast", "paper")]
    assert all(re.fullmatch(r"[\d,.]+", cell) for row in rows for cell in row[2:])
    assert {row[1]: row[-1] for row in rows} == {"fast": "0.12", "paper": "1.00"}, "two in 16 steps, and one in each"


def test_a_device_that_is_not_there(capsys):
    assert main(["bench", "--device", "mps"]) == 2
    assert capsys.readouterr().err.startswith("narrows: error: --device mps is not available on this machine")
