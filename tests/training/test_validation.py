"""Held-out errors: those of the definition, and that looking changes nothing."""

import numpy as np
import pytest
import torch

from narrows.data import from_array
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.objective import squared_error
from narrows.training.validation import errors_of_first, per_input


@pytest.fixture
def model_and_data():
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("conv", (1, 28, 28), n=4, width=2))
    rng = np.random.default_rng(0)
    return model, from_array(rng.random((700, 28, 28), dtype=np.float32)).examples


def test_errors_are_those_of_the_definition(model_and_data):
    model, examples = model_and_data
    index = np.arange(600)
    sampled, at_mean = per_input(model, examples, index)
    model.eval()
    with torch.no_grad():
        x = examples.batch(index)
        errors = squared_error(x, model.reconstruct(x)).double()
    np.testing.assert_allclose(at_mean, errors.numpy(), rtol=1e-5)
    np.testing.assert_allclose(sampled, errors.numpy(), rtol=0.1)  # the noise is small here
    assert (sampled != at_mean).all()


def test_a_dimension_has_the_same_noise_wherever_it_stands(model_and_data):
    model, examples = model_and_data
    index = np.arange(300)
    turned = model.narrow([2, 0, 3, 1])
    for one, other in zip(per_input(model, examples, index, 3), per_input(turned, examples, index, 3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_errors_of_the_first_dimensions_are_those_of_decoding_them_alone(model_and_data):
    model, examples = model_and_data
    model.eval()
    index = np.arange(250)
    errors = errors_of_first(model, examples, index, seed=3)
    assert len(errors) == model.n + 1
    assert errors[-1] == pytest.approx(per_input(model, examples, index, seed=3)[0].mean(), rel=1e-6)
    x = examples.batch(index)
    with torch.no_grad():
        nothing = squared_error(x, model.decode(torch.zeros(len(x), model.n)))
    assert errors[0] == pytest.approx(nothing.double().mean().item(), rel=1e-6)


def test_looking_leaves_frozen_modules_frozen(model_and_data):
    model, examples = model_and_data
    frozen = model.train().encoder.norms[0].eval()
    per_input(model, examples, np.arange(100))
    assert [module for module in model.modules() if not module.training] == [frozen]


def test_looking_twice_sees_the_same_and_changes_nothing(model_and_data):
    model, examples = model_and_data
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train()
    index = np.arange(100)
    first, again = (per_input(model, examples, index, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
