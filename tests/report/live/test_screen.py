"""A run in a terminal: it fits, it has the numbers, and letters that a terminal cannot show are spelt."""

import io
import time

import pytest
from rich.console import Console

from narrows.report.contents import RunContents
from narrows.report.live.follow import Snapshot
from narrows.report.live.screen import draw
from narrows.runs.folder import RunFolder
from narrows.runs.records import DecisionRow, MetricRow
from narrows.training.config import TrainConfig

CONFIG = TrainConfig(tau=30.0, n=10, data="a.npy")


def snapshot(rows: int = 40, age: float = 3.0, ended: bool = False) -> Snapshot:
    made = [
        MetricRow(50 * i, 900.0 / i, 5.0, 5, 20.0 / i, i / 50, 4.0, 6.5, 10.0 * i, 800.0 / i) for i in range(1, rows)
    ]
    decisions = [DecisionRow(100 * i, "close", 11 - i, 0.9, str(i)) for i in range(1, 6)] if made else []
    folder = RunFolder("runs/my run")
    run = RunContents(folder, CONFIG, made, decisions)
    return Snapshot(folder.path, folder, "", run, ended, time.time() - age)


@pytest.mark.parametrize(("width", "height"), [(200, 50), (100, 30), (80, 24), (60, 24), (56, 24), (55, 24), (30, 24)])
@pytest.mark.parametrize("braille", [True, False])
def test_it_fits(width, height, braille):
    lines = draw(snapshot(), width, height, braille).plain.split("\n")
    assert len(lines) <= height - 1
    assert max(map(len, lines)) <= width
    assert any("Tolerance hits" in line for line in lines)


def test_it_shows_the_latest_numbers_and_decisions():
    text = draw(snapshot(), 100, 40).plain
    assert text.startswith("runs/my run\nbatch 1,950, 5.0 batches/s, updated 3 s ago\n")
    assert "held-out error 20.51 (tau 30), 5 of 10 open, lambda 0.513, hits 78%" in text
    assert text.endswith("batch 500: closed gate 5 (error at 90% of its target)")
    assert text.count("closed gate") == 3
    assert "τ = 30" in text
    assert "λ" in text


def test_without_braille_all_is_ascii():
    text = draw(snapshot(), 100, 40, braille=False).plain
    assert text.isascii()
    assert "tau = 30" in text
    assert "Multiplier lambda'" in text
    assert "'" in text
    assert ":" in text


def test_a_silent_run_is_named_with_the_command_that_continues_it():
    text = " ".join(draw(snapshot(age=400.0), 60, 30).plain.split())
    assert "no news for 7 min; if it was stopped, continue it with `narrows resume 'runs/my run'`" in text
    assert "no news" not in draw(snapshot(age=40.0), 60, 30).plain  # a row takes it 10 s
    assert "no news for 40 s" in draw(snapshot(rows=0, age=40.0), 60, 30).plain
    assert "no news" not in draw(snapshot(age=400.0, ended=True), 60, 30).plain


def test_before_the_first_row_there_are_no_charts():
    assert draw(snapshot(rows=0), 80, 24).plain.split("\n") == ["runs/my run", "no metrics yet, updated 3 s ago"]


def test_names_with_brackets_are_names():
    folder = RunFolder("a[/b][bold]")
    made = Snapshot(folder.path, folder, "", None, False, time.time())
    console = Console(width=80, file=io.StringIO())
    console.print(draw(made, 80, 24))
    assert console.file.getvalue().startswith("a[/b][bold]\n")
