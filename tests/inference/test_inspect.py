"""Inspections of a model, against the same quantities computed from the model directly."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from narrows.data import ArrayExamples, Data, from_array, split
from narrows.inference import inspect
from narrows.inference.trained import Trained
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig


@pytest.fixture
def data():
    return from_array(np.random.default_rng(0).random((400, 6)).astype(np.float32))


@pytest.fixture
def trained():
    torch.manual_seed(3)
    network = NetworkConfig("mlp", (6,), 3, 2, "linear")
    model = gated_vae(network).narrow(range(3)).eval()
    return Trained(Path("model.safetensors"), model, {"error": "squared"}, None)


def test_best_median_and_worst_are_in_that_order_and_their_errors_are_true(trained, data):
    inspection = inspect.inspect_model(trained, data, 0)
    assert len(inspection.errors) == 40
    best, median, worst = inspection.best, inspection.median, inspection.worst
    assert best.errors.max() <= median.errors.min() <= median.errors.max() <= worst.errors.min()
    for shown in (best, median, worst):
        again = trained.model.reconstruct(torch.from_numpy(shown.inputs)).detach().numpy()
        assert shown.outputs == pytest.approx(again, abs=1e-6)
        assert shown.errors == pytest.approx(((again - shown.inputs) ** 2).sum(1), rel=1e-4)


def test_the_columns_errors_are_the_error(trained, data):
    inspection = inspect.inspect_model(trained, data, 0)
    x = data.examples.batch(split(data, 0).test)
    each = (trained.model.reconstruct(x) - x).detach().square().mean(0)
    assert inspection.column_errors == pytest.approx(each.numpy(), rel=1e-4)


def test_errors_count_in_the_columns_units(trained, data):
    unit = [0.5, 1.0, 2.0, 1.0, 1.0, 4.0]
    about = {"error": "squared", "units": {"shift": [0.0] * 6, "unit": unit}}
    scaled = inspect.inspect_model(Trained(trained.path, trained.model, about, None), data, 0)
    plain = inspect.inspect_model(trained, data, 0)
    assert scaled.column_errors == pytest.approx(plain.column_errors / np.square(unit), rel=1e-5)


@pytest.mark.parametrize("columns", [("a", "b", "c", "d", "e", "born"), ()])
def test_a_column_near_1_7e9_has_the_errors_of_the_same_column_near_0(trained, data, columns):
    """The saved model shifts its inputs by itself; rows in single precision would be off by up to 64 before it does."""
    shift = np.array([0, 0, 0, 0, 0, 1.7e9])
    array = data.examples.array.astype(np.float64) + shift
    born = Data("table", ArrayExamples(array), "any", columns=columns)
    model = copy.deepcopy(trained.model)
    model.scaling = model.scaling.in_units(torch.tensor(shift), torch.ones(6, dtype=torch.float64))
    near_0 = inspect.inspect_model(trained, data, 0)
    there = inspect.inspect_model(Trained(trained.path, model, trained.about, None), born, 0)
    assert there.errors == pytest.approx(near_0.errors, rel=1e-3)
    assert there.column_errors == pytest.approx(near_0.column_errors, rel=1e-3)
    for moved, still in ((there.best, near_0.best), (there.worst, near_0.worst)):
        assert moved.inputs - shift == pytest.approx(still.inputs, abs=1e-5)
        assert moved.outputs - shift == pytest.approx(still.outputs, abs=1e-5)
        assert moved.errors == pytest.approx(still.errors, rel=1e-3)


def test_a_traversal_moves_one_dimension_between_its_percentiles(trained, data):
    inspection = inspect.inspect_model(trained, data, 0)
    codes = trained.model.encode(data.examples.batch(split(data, 0).test)).mean.detach().numpy()
    traversals = inspect.traverse(trained, inspection, None)
    assert [one.dimension for one in traversals] == [0, 1, 2]
    for j, one in enumerate(traversals):
        assert one.positions[[0, -1]] == pytest.approx(np.percentile(codes[:, j], [1, 99]), abs=1e-5)
        code = inspection.start.copy()
        code[j] = one.positions[4]
        decoded = trained.model.decode(torch.from_numpy(code[None])).detach().numpy()
        assert one.decoded[4] == pytest.approx(decoded[0], abs=1e-6)


def test_large_inputs_are_fewer():
    index = np.arange(10_000)
    assert len(inspect.evenly_spaced(index, (1, 64, 64))) == 1_000
    assert len(inspect.evenly_spaced(index, (3, 64, 64))) == 333
    assert len(inspect.evenly_spaced(index, (3, 256, 256))) == 100
    assert inspect.evenly_spaced(np.arange(7), (3, 256, 256)).tolist() == list(range(7))


def test_samples_are_the_same_for_the_same_seed(trained):
    assert (inspect.prior_samples(trained, 1) == inspect.prior_samples(trained, 1)).all()
    assert (inspect.prior_samples(trained, 1) != inspect.prior_samples(trained, 2)).any()
