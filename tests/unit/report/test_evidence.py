"""What a model does to test inputs, against the same asked of the model directly."""

from pathlib import Path

import numpy as np
import pytest
import torch

from narrows.data import from_array, split
from narrows.model import gated_vae
from narrows.networks import NetworkConfig
from narrows.report import evidence
from narrows.using import Trained


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
    seen = evidence.look_at(trained, data, 0)
    assert seen.count == 40
    assert seen.best.errors.max() <= seen.median.errors.min() <= seen.median.errors.max() <= seen.worst.errors.min()
    for picked in (seen.best, seen.median, seen.worst):
        again = trained.model.reconstruct(torch.from_numpy(picked.inputs)).detach().numpy()
        assert picked.outputs == pytest.approx(again, abs=1e-6)
        assert picked.errors == pytest.approx(((again - picked.inputs) ** 2).sum(1), rel=1e-4)


def test_the_columns_errors_are_the_error(trained, data):
    seen = evidence.look_at(trained, data, 0)
    x = data.examples.batch(split(data, 0).test)
    each = (trained.model.reconstruct(x) - x).detach().square().mean(0)
    assert seen.column_errors == pytest.approx(each.numpy(), rel=1e-4)


def test_errors_count_in_the_columns_units(trained, data):
    unit = [0.5, 1.0, 2.0, 1.0, 1.0, 4.0]
    about = {"error": "squared", "units": {"shift": [0.0] * 6, "unit": unit}}
    scaled = evidence.look_at(Trained(trained.path, trained.model, about, None), data, 0)
    plain = evidence.look_at(trained, data, 0)
    assert scaled.column_errors == pytest.approx(plain.column_errors / np.square(unit), rel=1e-5)


def test_a_traversal_moves_one_dimension_between_its_percentiles(trained, data):
    seen = evidence.look_at(trained, data, 0)
    codes = trained.model.encode(data.examples.batch(split(data, 0).test)).mean.detach().numpy()
    made = evidence.traverse(trained, seen, None)
    assert [one.dimension for one in made] == [0, 1, 2]
    for j, one in enumerate(made):
        assert one.positions[[0, -1]] == pytest.approx(np.percentile(codes[:, j], [1, 99]), abs=1e-5)
        code = seen.start.copy()
        code[j] = one.positions[4]
        decoded = trained.model.decode(torch.from_numpy(code[None])).detach().numpy()
        assert one.decoded[4] == pytest.approx(decoded[0], abs=1e-6)


def test_large_inputs_are_fewer():
    index = np.arange(10_000)
    assert len(evidence.evenly_spaced(index, (1, 64, 64))) == 1_000
    assert len(evidence.evenly_spaced(index, (3, 64, 64))) == 333
    assert len(evidence.evenly_spaced(index, (3, 256, 256))) == 100
    assert evidence.evenly_spaced(np.arange(7), (3, 256, 256)).tolist() == list(range(7))


def test_samples_are_the_same_for_the_same_seed(trained):
    assert (evidence.samples(trained, 1) == evidence.samples(trained, 1)).all()
    assert (evidence.samples(trained, 1) != evidence.samples(trained, 2)).any()
