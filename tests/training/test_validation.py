"""Held-out errors: the mean, its interval, and that looking changes nothing."""

import math

import numpy as np
import pytest
import torch

from narrows.data import from_array
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.objective import squared_error
from narrows.runs.certificate import half_width
from narrows.training.validation import errors_of_first, evaluate


@pytest.fixture
def model_and_data():
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("conv", (1, 28, 28), n=4, width=2))
    rng = np.random.default_rng(0)
    return model, from_array(rng.random((700, 28, 28), dtype=np.float32)).examples


def test_the_error_at_the_mean_and_the_interval_are_those_of_the_definition(model_and_data):
    model, examples = model_and_data
    index = np.arange(600)
    held = evaluate(model, examples, index)
    model.eval()
    with torch.no_grad():
        x = examples.batch(index)
        errors = squared_error(x, model.reconstruct(x)).double()
    assert held.count == 600
    assert held.error_at_mean == pytest.approx(errors.mean().item(), rel=1e-6)
    assert held.low < held.error < held.high
    # Sampling noise is small here, so the interval's width is nearly that of the errors at the mean.
    assert held.high - held.low == pytest.approx(2 * 1.96 * errors.std().item() / math.sqrt(600), rel=0.1)


def test_the_95_percent_interval_covers_the_mean_19_times_of_20(model_and_data):
    """300 splits of 40 of 700 examples: coverage of the whole set's mean between 90% and 99%."""
    model, examples = model_and_data
    truth = evaluate(model, examples, np.arange(700)).error
    rng = np.random.default_rng(1)
    looks = (evaluate(model, examples, rng.choice(700, 40, replace=False), seed=s) for s in range(300))
    covered = sum(held.low <= truth <= held.high for held in looks)
    assert 270 <= covered <= 297


def test_errors_of_the_first_dimensions_are_those_of_decoding_them_alone(model_and_data):
    model, examples = model_and_data
    model.eval()
    index = np.arange(250)
    errors = errors_of_first(model, examples, index, seed=3)
    assert len(errors) == model.n + 1
    assert errors[-1] == pytest.approx(evaluate(model, examples, index, seed=3).error, rel=1e-6)
    x = examples.batch(index)
    with torch.no_grad():
        nothing = squared_error(x, model.decode(torch.zeros(len(x), model.n)))
    assert errors[0] == pytest.approx(nothing.double().mean().item(), rel=1e-6)


def test_looking_twice_sees_the_same_and_changes_nothing(model_and_data):
    model, examples = model_and_data
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train()
    index = np.arange(100)
    assert evaluate(model, examples, index, seed=3) == evaluate(model, examples, index, seed=3)
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_few_examples_have_the_wider_interval_of_student():
    """Of tables: t for 95% is 12.706 with one degree of freedom, 2.776 with four, 1.962 with 1,000."""
    for count, t in ((2, 12.706), (5, 2.776), (1_001, 1.962)):
        assert half_width(3.0, count) == pytest.approx(t * 3.0 / math.sqrt(count), rel=3e-4)


def test_one_example_has_no_interval(model_and_data):
    model, examples = model_and_data
    assert evaluate(model, examples, np.array([3])).high == math.inf
