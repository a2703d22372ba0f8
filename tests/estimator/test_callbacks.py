"""scikit-learn's callbacks: told of every row of history, given the model of the moment, and able to stop."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimator.examples import SMALL, curved
from narrows import NarrowVAE

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
SETTINGS = {**SMALL, "max_steps": 120}
"""Three rows of history, of which the last has 20 batches."""


class Recorder:
    """Writes down what it is told, and stops at a row."""

    def __init__(self, stops_at: float = math.inf) -> None:
        self.stops_at, self.told, self.models, self.given = stops_at, [], [], []

    def setup(self, estimator, context):
        self.told.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X=None, metadata=None):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.told.append(f"end {context.task_name}")
        self.models.append(fitted_estimator)
        self.given.append((X, y, metadata))
        return len(self.models) >= self.stops_at

    def teardown(self, estimator, context):
        self.told.append("teardown")


ROW = ["begin 50 batches", "end 50 batches"]


def test_a_callback_is_told_of_every_row_and_changes_nothing():
    x, weights = curved(), np.linspace(1, 2, 200)
    recorder = Recorder()
    model = NarrowVAE(4, **SETTINGS).set_callbacks(recorder)
    assert model.fit(x, sample_weight=weights).history_["step"] == [50, 100, 120]
    assert recorder.told == ["setup", "begin fit", *ROW, *ROW, *ROW, "end fit", "teardown"]
    assert all(given[0] is x and given[2] == {"sample_weight": weights} for given in recorder.given)
    alone = NarrowVAE(4, **SETTINGS).fit(x, sample_weight=weights)
    np.testing.assert_array_equal(model.transform(x), alone.transform(x))
    assert not [name for name in vars(model) if name.startswith("_callback")]


def test_a_callback_sees_the_model_of_the_moment():
    x = curved() * 50 - 7
    recorder = Recorder()
    model = NarrowVAE(4, **SETTINGS).set_callbacks(recorder).fit(x)
    for seen in recorder.models:
        assert seen.transform(x).shape == (200, seen.n_components_)
        assert seen.inverse_transform(seen.transform(x)).shape == x.shape
    scores = [seen.score(x) for seen in recorder.models]
    assert scores[0] != scores[1]
    assert scores[-1] == model.score(x), "at the end, it is the model"


def test_a_scoring_monitor_has_a_score_for_every_row_and_the_whole():
    x = curved()
    monitor = callback.ScoringMonitor(scoring={"explained": lambda model, x, y: model.score(x)})
    model = NarrowVAE(4, **SETTINGS).set_callbacks(monitor).fit(x, x)
    rows = monitor.get_logs().data
    assert [row["task_name"] for row in rows] == ["fit", *["50 batches"] * 3]
    assert rows[0]["explained"] == model.score(x)


def test_a_callback_can_stop_training():
    recorder = Recorder(stops_at=1)
    model = NarrowVAE(4, **SETTINGS).set_callbacks(recorder).fit(curved())
    assert model.history_["step"] == [50]
    assert model.result_.stopped
    assert recorder.told == ["setup", "begin fit", *ROW, "end fit", "teardown"]
    assert "stopped by hand" in model._repr_html_()
    whole = NarrowVAE(4, **SETTINGS).set_callbacks(Recorder(stops_at=3)).fit(curved())
    assert not whole.result_.stopped, "after the last batch there is nothing to stop"


def test_without_an_end_in_sight_the_last_subtask_may_be_empty():
    recorder = Recorder(stops_at=2)
    model = NarrowVAE(4, **{**SETTINGS, "max_steps": None}).set_callbacks(recorder).fit(curved())
    assert model.history_["step"] == [50, 100]
    assert recorder.told.count("begin 50 batches") == recorder.told.count("end 50 batches")


def test_a_callback_that_fails_leaves_the_estimator_as_it_was():
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise OSError("the disk of the callback is full")

    failing = Failing()
    model = NarrowVAE(4, **SETTINGS).set_callbacks(failing)
    with pytest.raises(OSError, match="the disk of the callback"):
        model.fit(curved())
    assert failing.told[-1] == "teardown"
    assert not hasattr(model, "model_")


def test_progress_bars_of_pipelines_and_searches(capsys):
    bar = callback.ProgressBar(max_propagation_depth=None)
    make_pipeline(StandardScaler(), NarrowVAE(4, **SMALL)).set_callbacks(bar).fit(curved())
    assert "NarrowVAE - fit" in capsys.readouterr().out
    GridSearchCV(NarrowVAE(**SMALL), {"n_components": [1, 2]}, cv=2).set_callbacks(bar).fit(curved())
    assert capsys.readouterr().out.count("NarrowVAE - fit") >= 4


def test_callbacks_stay_with_copies():
    recorder = Recorder()
    clone(NarrowVAE(4, **SMALL).set_callbacks(recorder)).fit(curved())
    assert recorder.told[0] == "setup"
