"""Columns in their own units: measured on the training rows alone, undone by the model that is saved."""

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data import Data, from_array
from narrows.data.units import column_units, scale_columns
from narrows.model.storage import load_model, save_model
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(1000, 4)) * [1, 1000, 1e-3, 0] + [0, -5, 1.7e9, 7]
TRAIN = np.arange(0, 1000, 2)


def test_standard_units_are_mean_and_deviation_of_the_training_rows():
    units = column_units(TABLE, TRAIN, "standard")
    np.testing.assert_allclose(units.shift, TABLE[TRAIN].mean(0), rtol=1e-12)
    np.testing.assert_allclose(units.unit[:2], TABLE[TRAIN].std(0)[:2], rtol=1e-9)
    np.testing.assert_allclose(units.unit[2], TABLE[TRAIN, 2].std(), rtol=1e-5)  # 1.7e9 in steps of 2e-7
    assert units.unit[3] == 1  # constant


def test_ranges():
    units = column_units(TABLE.astype(np.float32), TRAIN, "minmax")
    table = TABLE.astype(np.float32)[TRAIN].astype(np.float64)
    np.testing.assert_array_equal(units.shift, table.min(0))
    np.testing.assert_array_equal(units.unit[:2], np.ptp(table, axis=0)[:2])
    assert units.unit[3] == 1


def test_measured_in_parts_is_measured_in_one(monkeypatch):
    whole = column_units(TABLE, TRAIN, "standard")
    monkeypatch.setattr("narrows.data.units._ROWS", 7)
    parts = column_units(TABLE, TRAIN, "standard")
    np.testing.assert_allclose(parts.shift, whole.shift, rtol=1e-14)
    np.testing.assert_allclose(parts.unit, whole.unit, rtol=1e-9)


def test_served_columns_are_standardised():
    data, units = scale_columns(from_array(TABLE, "any"), TRAIN, "standard")
    served = data.examples.batch(TRAIN).double().numpy()
    np.testing.assert_allclose(served.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(served.std(0)[:3], 1, rtol=1e-3)
    np.testing.assert_array_equal(served[:, 3], 0)
    assert units is not None


def test_no_scaling_changes_nothing():
    data = from_array(TABLE, "any")
    assert scale_columns(data, TRAIN, "none") == (data, None)


def test_images_are_refused():
    images = from_array(np.zeros((9, 16, 16), np.uint8), name="pictures")
    with pytest.raises(
        NarrowsError, match="scaling='standard' is for vectors, and pictures holds images; leave it out"
    ):
        scale_columns(images, np.arange(9), "standard")


def test_bytes_keep_counting_as_zero_to_one():
    raw = RANDOM.integers(0, 256, (50, 3), dtype=np.uint8)
    data, units = scale_columns(from_array(raw), np.arange(50), "standard")
    np.testing.assert_allclose(data.examples.batch(np.arange(50)).std(0, correction=0), 1, rtol=1e-5)
    np.testing.assert_allclose(units.shift, raw.mean(0) / 255)
    np.testing.assert_allclose(units.unit, raw.std(0) / 255)


def test_the_saved_model_takes_and_gives_the_tables_units(tmp_path):
    """What the inner model does to scaled rows, the saved one does to the rows themselves."""
    torch.manual_seed(0)
    data, units = scale_columns(Data("t", from_array(TABLE, "any").examples, "any"), TRAIN, "standard")
    network = NetworkConfig("mlp", (4,), n=3, width=2, output="linear")
    inner = gated_vae(network).narrow(range(3)).eval()
    inner.scaling.fit(torch.randn(4), torch.tensor(1.3))
    shift, unit = torch.from_numpy(units.shift), torch.from_numpy(units.unit)
    outer = gated_vae(network).narrow(range(3)).eval()
    outer.load_state_dict(inner.state_dict())
    outer.scaling = inner.scaling.in_units(shift, unit)
    save_model(outer, tmp_path / "m.safetensors")
    outer = load_model(tmp_path / "m.safetensors")

    index = np.arange(20)
    rows = torch.from_numpy(TABLE[index])
    scaled = data.examples.batch(index)
    torch.testing.assert_close(outer.encode(rows).mean, inner.encode(scaled).mean, rtol=1e-4, atol=1e-5)
    back = (outer.reconstruct(rows) - shift) / unit
    torch.testing.assert_close(back.float(), inner.reconstruct(scaled), rtol=1e-4, atol=1e-4)
