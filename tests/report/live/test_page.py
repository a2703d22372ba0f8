"""The page of a run that trains: what it costs, when it reloads itself, and that its failure is only a warning."""

import math
import re

from narrows.report.live import listeners
from narrows.report.live.follow import Follower
from narrows.report.live.listeners import Budget, Following
from narrows.report.live.page import EVERY, LivePage, drop_live, page
from narrows.runs.folder import RunFolder
from narrows.runs.records import MetricRow
from narrows.training.config import TrainConfig
from narrows.training.listeners import RunStart


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
    monkeypatch.setattr(listeners.time, "monotonic", clock)
    budget, spent = Budget(every=5.0, share=0.02), 0.0
    while clock.now < 5_000:
        if budget.is_due():
            cost = 0.01 if clock.now < 1_000 else 3.0
            with budget.spend():
                clock.now += cost
            spent += cost
        clock.now += 0.1
    assert 0.015 * 4_000 < spent < 0.02 * 4_000 + 200 * 0.01 + 3.0
    assert not budget.is_due()


def test_the_page_of_a_training_run_reloads_itself_and_a_stopped_one_does_not(folder):
    listener = Following(LivePage(), Budget(every=0.0, share=math.inf))
    listener.begin(RunStart(TrainConfig(), folder, [], 0))
    first = folder.report.read_text()
    assert 'data-refresh="5.000"' in first
    assert "location.reload" in first
    assert "There are no metrics yet" in first
    listener.row(add(folder, 10))
    page = folder.report.read_text()
    assert "Batch 10: 4 gates open" in page
    assert 'data-refresh="' in page
    assert re.findall(r'<section id="(\w+)">', page) == ["training", "gates", "settings"]
    add(folder, 20)
    listener.end()
    stopped = folder.report.read_text()
    assert "data-refresh" not in stopped
    assert "location.reload" not in stopped
    assert "This run has not ended" in stopped
    assert "batch 20" in stopped


def test_the_path_of_the_page_is_printed_once(folder, capsys):
    listener = Following(LivePage(), Budget(EVERY))
    listener.begin(RunStart(TrainConfig(), folder, [], 0))
    listener.begin(RunStart(TrainConfig(), folder, [], 10))
    assert capsys.readouterr().out == f"live page: {folder.report}\n"


def test_a_failure_is_one_warning(folder, capsys):
    listener = Following(LivePage(), Budget(every=0.0, share=math.inf))
    listener.begin(RunStart(TrainConfig(), folder, [], 0))
    capsys.readouterr()
    folder.report.unlink()
    folder.report.mkdir()  # where no file can be put
    for step in (10, 20):
        listener.row(add(folder, step))
    listener.end()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"narrows: warning: training goes on without the live page \(\w+: [^\n]*\)\n", printed.err)
    assert not list(folder.path.glob(".report*"))


def test_only_a_page_that_reloads_itself_is_dropped(folder):
    snapshot = Follower(folder.path).look()
    folder.report.write_text(page(snapshot, snapshot.run, live=False).html())
    drop_live(folder.report)
    assert folder.report.exists()
    folder.report.write_text(page(snapshot, snapshot.run, live=True).html())
    drop_live(folder.report)
    assert not folder.report.exists()
    drop_live(folder.report)
