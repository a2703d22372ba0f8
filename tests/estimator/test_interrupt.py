"""Ctrl-C during `fit`: the model of that moment, tested like every other one, and marked as stopped."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from torch import nn

from commands import HANGS
from estimator.examples import SMALL, curved
from narrows import NarrowVAE

FITS = """
import signal, warnings
import torch
from estimator.examples import curved
from narrows import NarrowVAE

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("always")
model = NarrowVAE(4, explained=0.5, width=2, device="cpu", random_state=0, max_steps=1_000_000, verbose=True)
model.fit(curved(600))
result = model.result_
print("fitted", result.stopped, model.met_ == (result.heldout.high <= model.tau_), result.heldout.count)
print(model.transform(curved(600)).shape[1] == model.n_components_, model.history_["step"][-1] == result.steps)
print("handler", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_a_real_signal_leaves_a_fitted_model_and_a_warning():
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", FITS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        lines = iter(process.stdout.readline, "")
        assert any("batch 500" in line for line in lines)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    assert "fitted True True 60\nTrue True\nhandler True\n" in out
    assert "ConvergenceWarning: training was stopped after" in err
    assert "Traceback" not in err


def interrupting(at: int, again: bool = False):
    """Return an error that sends this process SIGINT when it has been measured so many times, once or twice."""
    seen = []

    def error(x, y):
        seen.append(len(x))
        if len(seen) == at or (again and len(seen) == at + 1):
            os.kill(os.getpid(), signal.SIGINT)
        return (x - y).square().sum(1)

    return error


@pytest.fixture
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_handler")
def test_a_stopped_model_is_the_model_of_that_many_batches():
    settings = {**SMALL, "max_steps": None, "tau": 1e3}
    with pytest.warns(UserWarning, match="training was stopped after"):
        model = NarrowVAE(4, **settings, error=interrupting(40)).fit(curved(600))
    assert model.result_.stopped
    assert model.met_
    assert model.result_.steps == model.history_["step"][-1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def impatient(shape, n):
    os.kill(os.getpid(), signal.SIGINT)
    return nn.Linear(shape[0], 2 * n), nn.Linear(n, shape[0])


@pytest.mark.usefixtures("usual_handler")
@pytest.mark.parametrize(
    "parameters",
    [{"network": impatient}, {"error": interrupting(40, again=True), "max_steps": 1000}],
    ids=["before the first batch", "twice"],
)
def test_nothing_trained_or_a_second_signal_is_an_interrupt(parameters):
    model = NarrowVAE(4, **{**SMALL, "tau": 1e3, **parameters})
    with pytest.raises(KeyboardInterrupt):
        model.fit(curved(600))
    assert not hasattr(model, "model_")


@pytest.mark.usefixtures("usual_handler")
def test_a_front_is_not_cut_short():
    with pytest.raises(KeyboardInterrupt):
        NarrowVAE(4, **SMALL, network=impatient).front(curved(600), [1.0, 2.0])


@pytest.mark.usefixtures("usual_handler")
@pytest.mark.filterwarnings("ignore:.*dimensions are enough", "ignore:the promise is not")
def test_in_another_thread_signals_are_left_alone(usual_handler):
    handlers = set()

    def error(x, y):
        handlers.add(signal.getsignal(signal.SIGINT))
        return (x - y).square().sum(1)

    def fit():
        NarrowVAE(4, **SMALL, tau=1e3, error=error).fit(curved())

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert handlers == {usual_handler}
    fit()
    assert len(handlers) == 2, "in the main thread fit handles the signal"


@pytest.mark.filterwarnings("ignore:.*dimensions are enough", "ignore:the promise is not")
def test_a_whole_fit_is_not_marked():
    model = NarrowVAE(4, **SMALL).fit(curved())
    assert not model.result_.stopped
    assert "stopped" not in model._repr_html_()
    assert np.isfinite(model.transform(curved())).all()
