"""What `verbose=True` shows: lines where nothing can move, a bar on a terminal."""

import io
import re

import pytest
from rich.console import Console

from estimator.examples import SMALL, curved
from narrows import NarrowVAE
from narrows.estimator import progress
from narrows.estimator.progress import ProgressBar, ProgressLines, make_progress
from narrows.training.listeners import Listener

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")


def test_pipes_get_lines_and_terminals_a_bar(monkeypatch):
    assert type(make_progress(False, 1.0)) is Listener
    assert type(make_progress(True, 1.0)) is ProgressLines, "the tests' output is a file"
    monkeypatch.setattr(progress, "make_console", lambda: Console(force_terminal=True, file=io.StringIO()))
    assert type(make_progress(True, 1.0)) is ProgressBar


@pytest.mark.parametrize(("widgets", "kind"), [(None, ProgressLines), ("there", ProgressBar)])
def test_a_notebook_without_widgets_gets_lines(monkeypatch, widgets, kind):
    monkeypatch.setattr(progress, "make_console", lambda: Console(force_jupyter=True, file=io.StringIO()))
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: widgets)
    assert type(make_progress(True, 1.0)) is kind


def test_a_bar_shows_the_last_row_in_the_users_unit(monkeypatch, capsys):
    screen = io.StringIO()
    console = Console(force_terminal=True, file=screen, width=120, color_system=None, highlight=False)
    monkeypatch.setattr(progress, "make_console", lambda: console)
    model = NarrowVAE(4, **{**SMALL, "max_steps": 100}, verbose=True).fit(curved() * 1e6)
    assert "data: X, 200 examples of 5" in capsys.readouterr().out
    last = re.findall(r"held-out error (\S+) \(tau (\S+)\), (\d) of 4 open", screen.getvalue())[-1]
    assert last == (f"{model.history_['watched'][-1]:.4g}", f"{model.tau_:g}", str(model.history_["open"][-1]))
    assert "batch 100 of 100" in screen.getvalue()
