"""The page of a run at work: what it costs, when it loads itself again, and that its faults are only a warning."""

import math
import re

from narrows.report import live_page
from narrows.report.following import Follower
from narrows.report.live_page import Budget, PageDisplay, drop_live, page
from narrows.runs import MetricRow, RunFolder
from narrows.training.config import TrainConfig


def add(folder: RunFolder, step: int) -> MetricRow:
    row = MetricRow(step, 2.5, 4.0, 4, 1.5, 0.25, 4.0, 6.5, step / 10, 2.25)
    folder.append_row(row)
    return row


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_at_most_its_share_of_the_time_is_spent(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(live_page.time, "monotonic", clock)
    budget, spent = Budget(every=5.0, share=0.02), 0.0
    while clock.now < 5_000:
        if budget.due():
            cost = 0.01 if clock.now < 1_000 else 3.0
            with budget.spend():
                clock.now += cost
            spent += cost
        clock.now += 0.1
    assert 0.015 * 4_000 < spent < 0.02 * 4_000 + 200 * 0.01 + 3.0
    assert not budget.due()


def test_a_page_at_work_loads_itself_again_and_a_stopped_one_does_not(folder):
    display = PageDisplay(Budget(every=0.0, share=math.inf))
    display.folder = folder
    display.begin(TrainConfig(), [], 0)
    first = folder.report.read_text()
    assert 'data-refresh="5.000"' in first
    assert "location.reload" in first
    assert "There are no metrics yet" in first
    display.row(add(folder, 10))
    page = folder.report.read_text()
    assert "Batch 10: 4 gates open" in page
    assert 'data-refresh="' in page
    assert re.findall(r'<section id="(\w+)">', page) == ["training", "gates", "settings"]
    add(folder, 20)
    display.end()
    stopped = folder.report.read_text()
    assert "data-refresh" not in stopped
    assert "location.reload" not in stopped
    assert "This run has not ended" in stopped
    assert "batch 20" in stopped


def test_it_is_told_once_where_the_page_is(folder, capsys):
    display = PageDisplay()
    display.folder = folder
    display.begin(TrainConfig(), [], 0)
    display.begin(TrainConfig(), [], 10)
    assert capsys.readouterr().out == f"live page: {folder.report}\n"


def test_a_fault_is_one_warning(folder, capsys):
    display = PageDisplay(Budget(every=0.0, share=math.inf))
    display.folder = folder
    display.begin(TrainConfig(), [], 0)
    capsys.readouterr()
    folder.report.unlink()
    folder.report.mkdir()  # where no file can be put
    for step in (10, 20):
        display.row(add(folder, step))
    display.end()
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"narrows: warning: the live page is left out from now on \(\w+: [^\n]*\)\n", told.err)
    assert not list(folder.path.glob(".report*"))


def test_only_a_page_that_loads_itself_is_dropped(folder):
    folder.report.write_text(page(Follower(folder.path).look(), live=False))
    drop_live(folder.report)
    assert folder.report.exists()
    folder.report.write_text(page(Follower(folder.path).look(), live=True))
    drop_live(folder.report)
    assert not folder.report.exists()
    drop_live(folder.report)
