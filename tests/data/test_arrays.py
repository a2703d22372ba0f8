"""Which arrays are accepted, how their axes are read, and the text of every error."""

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data import arrays, from_array


def refusal(array, values="unit"):
    with pytest.raises(NarrowsError) as caught:
        from_array(array, values, name="mine")
    text = str(caught.value)
    assert text.startswith("mine: ")
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        ((9, 5), (5,)),
        ((9, 6, 7), (1, 6, 7)),
        ((9, 6, 7, 1), (1, 6, 7)),
        ((9, 6, 7, 3), (3, 6, 7)),
        ((9, 6, 7, 4), (4, 6, 7)),
        ((9, 3, 6, 7), (3, 6, 7)),
        ((9, 3, 6, 4), (4, 3, 6)),  # both axes could be channels: the last one is
    ],
)
def test_axes(stored, seen):
    data = from_array(np.zeros(stored, np.float32))
    assert data.examples.shape == seen
    assert data.is_image == (len(seen) == 3)
    assert data.examples.batch(np.array([0, 8])).shape == (2, *seen)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4, 5, 1)])
def test_other_ranks_are_refused(shape):
    text = refusal(np.zeros(shape))
    assert f"shape {shape} has rank {len(shape)}" in text
    assert "reshape it to (N, D)" in text


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (3, 0, 4), (2, 5, 5, 0)])
def test_empty_arrays_are_refused(shape):
    assert f"shape {shape} is empty" in refusal(np.zeros(shape))


def test_rank_four_needs_channels():
    text = refusal(np.zeros((9, 5, 6, 7)))
    assert "(9, 5, 6, 7) has no axis of 1, 3 or 4 channels" in text
    assert "(N, H, W, C) or (N, C, H, W)" in text


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint16", "complex64", "object", "str", "longdouble", "datetime64[s]"]
)
def test_other_dtypes_are_refused(dtype):
    array = np.zeros((3, 2), dtype)
    text = refusal(array)
    assert f"dtype {array.dtype} is not accepted (accepted: uint8, bool, float16, float32, float64)" in text
    assert "array.astype('float32')" in text


def test_masked_values_are_refused():
    array = np.ma.masked_array(np.ones((6, 2)), mask=np.eye(6, 2))
    with pytest.raises(
        NarrowsError, match="mine: some values are masked; missing='mask' trains on the others, or fill them in"
    ):
        from_array(array, name="mine")
    assert len(from_array(np.ma.masked_array(np.ones((6, 2)))).examples) == 6


def test_what_is_not_an_array_is_refused():
    assert "a list is not an array; pass a numpy array, a torch tensor or Dataset" in refusal([[1.0]])


@pytest.mark.parametrize("tensor", [torch.zeros(3, 2, dtype=torch.bfloat16), torch.eye(3).to_sparse()])
def test_tensors_without_a_numpy_form_are_refused(tensor):
    assert f"dtype {tensor.dtype} ({tensor.layout}) is not accepted" in refusal(tensor)


def test_tensors_are_shared_not_copied():
    tensor = torch.rand(4, 3, 8, 8, requires_grad=True)
    data = from_array(tensor)
    assert np.shares_memory(data.examples.array, tensor.detach().numpy())
    assert torch.equal(data.examples.batch(np.arange(4)), tensor)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("values", ["unit", "any"])
def test_nan_and_infinity_are_counted_and_found(bad, values, monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 64)  # so that the scan has several chunks
    array = np.zeros((100, 4), np.float32)
    array[37, 2] = array[37, 3] = array[80, 0] = bad
    assert "3 of 400 values are NaN or infinite, first in example 37" in refusal(array, values)


@pytest.mark.parametrize(("low", "high"), [(-1.5, 0.5), (0, 255), (0.25, 1.0001)])
def test_floats_outside_the_unit_interval(low, high, monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 64)
    array = np.full((50, 4), 0.5)
    array[3, 0], array[44, 1] = low, high
    text = refusal(array)
    assert f"values range from {low:.6g} to {high:.6g}, outside [0, 1]" in text
    assert "rescale them" in text
    assert "values='any'" in text

    data = from_array(array, values="any")
    assert data.values == "any"
    np.testing.assert_array_equal(data.examples.batch(np.array([44])).numpy(), array[[44]].astype(np.float32))


def test_values_too_large_to_square():
    assert "range from 0 to 1e+300, more than single precision can square and sum" in refusal(
        np.array([[0, 1e300]]), "any"
    )


@pytest.mark.parametrize("values", ["unit", "any"])
@pytest.mark.parametrize(
    ("array", "largest"),
    [
        (np.array([[0], [255]], np.uint8), 1),
        (np.array([[0], [51]], np.uint8), 0.2),
        (np.array([[0], [1]], np.uint8), 1),
        (np.array([[False], [True]]), 1),
    ],
)
def test_bytes_and_booleans_are_always_unit(array, largest, values):
    data = from_array(array, values)
    assert data.values == "unit"
    np.testing.assert_allclose(data.examples.batch(np.array([0, 1])).numpy(), [[0], [largest]], rtol=1e-6)


def test_a_late_byte_above_one_decides_the_scale(monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 64)
    array = np.ones((100, 4), np.uint8)
    array[99, 3] = 2
    assert from_array(array).examples.batch(np.array([0])).max() == np.float32(1 / 255)


def test_values_must_be_known():
    assert "values must be unit or any; it is 'units'" in refusal(np.zeros((3, 2)), "units")


def test_fields_become_columns_as_the_error_says():
    recfunctions = pytest.importorskip("numpy.lib.recfunctions")
    fields = np.zeros(9, [("a", "f4"), ("b\x1b", "f4")])
    said = r"array: an array with fields \(a, b\\x1b\) is not accepted; make them columns with .*structured_to_unstr"
    with pytest.raises(NarrowsError, match=said):
        from_array(fields)
    assert from_array(recfunctions.structured_to_unstructured(fields)).examples.shape == (2,)
