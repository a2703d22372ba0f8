"""A front's display has its taus, its dimensions, and which promises hold."""

import copy
import dataclasses
import warnings

import matplotlib.pyplot as plt
import pytest
from sklearn.exceptions import NotFittedError

import narrows
from narrows import FrontDisplay, NarrowsError, NarrowVAE, TrainConfig
from report.displays.conftest import SMALL


@pytest.fixture(scope="module")
def estimator(pictures):
    made = NarrowVAE(3, **SMALL)
    with warnings.catch_warnings(action="ignore"):
        made.front(pictures, [900.0, 300.0])
    return made


def test_an_estimator(estimator):
    display = FrontDisplay.from_estimator(estimator)
    fitted = [estimator.front_[tau] for tau in (300.0, 900.0)]
    assert list(display.line_.get_xdata()) == list(display.taus) == [300.0, 900.0]
    assert list(display.line_.get_ydata()) == list(display.dims) == [one.n_components_ for one in fitted]
    assert list(display.errors) == [one.result_.heldout.error for one in fitted]
    assert list(display.met) == [one.met_ for one in fitted]
    assert display.ax_.get_ylabel() == "latent dimensions"


def test_points_are_hollow_where_the_promise_is_not_met(estimator):
    mixed = copy.copy(estimator)
    mixed.front_ = {tau: copy.copy(one) for tau, one in estimator.front_.items()}
    for one, met in zip(mixed.front_.values(), (False, True), strict=True):
        one.result_ = dataclasses.replace(one.result_, met=met)
    display = FrontDisplay.from_estimator(mixed)
    fills = [line.get_markerfacecolor() for line in display.ax_.lines if line.get_marker() == "o"]
    assert [fill == "white" for fill in fills] == [True, False]
    assert "hollow" in display.ax_.get_title()
    assert FrontDisplay(taus=[1.0], dims=[3], errors=[0.5], met=[True]).plot().ax_.get_title() == ""


def test_a_front_in_a_folder_as_far_as_it_has_come(pictures, tmp_path):
    config = TrainConfig(steps=10, n=3, width=2, batch=16, device="cpu", values="any", log_every=5)
    outcome = narrows.train_front(config, [20, 8], tmp_path / "front", pictures)
    for source in (tmp_path / "front", outcome.folder):
        display = FrontDisplay.from_front(source)
        assert list(display.taus) == [8, 20]
        assert list(display.line_.get_ydata()) == [result.dims for result in outcome.results]
    outcome.folder.level(20).result.unlink()
    axes = plt.figure().subplots()
    assert list(FrontDisplay.from_front(tmp_path / "front", ax=axes).taus) == [8]
    outcome.folder.level(8).result.unlink()
    with pytest.raises(NarrowsError, match=r"has no answer yet; continue it with `narrows\.resume_front"):
        FrontDisplay.from_front(tmp_path / "front")


def test_a_front_that_was_not_computed(of_pictures):
    with pytest.raises(NotFittedError, match=r"has no front_ yet; call its front\(X, taus\) first"):
        FrontDisplay.from_estimator(of_pictures)
