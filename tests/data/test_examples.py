"""Batches have the right values, dtype, shape and memory order, whatever the store."""

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data import ArrayExamples, PackedExamples, from_array

INDEX = np.array([4, 0, 4, 2])


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)


def assert_images(batch, expected):
    """`expected` is float32 (N, H, W, C)."""
    assert batch.dtype == torch.float32
    assert batch.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(batch.numpy(), expected.transpose(0, 3, 1, 2))


def test_bytes_become_unit_floats_channels_last(images):
    examples = ArrayExamples(images, scale=1 / 255)
    assert len(examples) == 6
    assert_images(examples.batch(INDEX), images[INDEX] * np.float32(1 / 255))


def test_all_byte_values_stay_within_zero_and_one():
    every = np.arange(256, dtype=np.uint8)[:, np.newaxis]
    batch = from_array(every).examples.batch(np.arange(256))
    assert batch[0] == 0
    assert batch[255] == 1
    torch.testing.assert_close(batch[:, 0], torch.arange(256) / 255)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "bool"])
def test_other_dtypes_become_float32(images, dtype):
    array = (images > 127).astype(dtype)
    assert_images(ArrayExamples(array, 1.0).batch(INDEX), array[INDEX].astype(np.float32))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_channels_first_is_a_view_of_the_users_array(images, dtype):
    first = np.ascontiguousarray(images.transpose(0, 3, 1, 2) > 99).astype(dtype)
    examples = from_array(first).examples
    assert examples.shape == (3, 5, 7)
    assert np.shares_memory(examples.array, first)
    assert_images(examples.batch(INDEX), first[INDEX].transpose(0, 2, 3, 1).astype(np.float32))


def test_a_batch_is_a_copy_and_never_touches_the_array():
    array = np.ones((4, 2), np.float32)
    ArrayExamples(array, 1.0).batch(np.arange(4)).zero_()
    assert array.all()


def test_vectors():
    array = np.random.default_rng(0).random((6, 9))
    batch = ArrayExamples(array, 1.0).batch(INDEX)
    assert batch.shape == (4, 9)
    np.testing.assert_array_equal(batch.numpy(), array[INDEX].astype(np.float32))


def test_memory_map(tmp_path, images):
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert_images(ArrayExamples(mapped, 1.0).batch(INDEX), images[INDEX].astype(np.float32))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 5, 7)])  # 105 pixels do not fill their last byte
def test_packed_equals_unpacked(shape):
    channels, height, width = shape
    pixels = np.random.default_rng(1).integers(0, 2, (6, height, width, channels), dtype=np.uint8)
    packed = PackedExamples(np.packbits(pixels.reshape(6, -1), axis=1), shape)
    assert len(packed) == 6
    assert_images(packed.batch(INDEX), pixels[INDEX].astype(np.float32))
    assert torch.equal(packed.batch(INDEX), ArrayExamples(pixels, 1.0).batch(INDEX))


def test_empty_batch(images):
    assert ArrayExamples(images, 1.0).batch(np.array([], np.int64)).shape == (0, 3, 5, 7)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(NarrowsError, match=r"shape \(1, 4, 4\) need bits \(N, 2\) of uint8, not \(6, 3\)"):
        PackedExamples(np.zeros((6, 3), np.uint8), (1, 4, 4))
