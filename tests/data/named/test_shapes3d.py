"""The drawn set against true images of the official file, and the laws its factors obey."""

from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from narrows.data.named import shapes3d
from narrows.data.named.shapes3d import FACTORS, LAYERS, SIZES, draw_geometry, drawn

# 50 images of Shapes3D (Apache-2.0) without the official labels: "supplied" are factor indices that somebody inferred
# from the pixels; in "factors" the scale of seven images is one step lower, where the match is 4.5 to 11.5 dB better.
SAMPLES = Path(__file__).with_name("shapes3d_samples.npz")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The whole set, drawn once into a cache of its own, and read back from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARROWS_CACHE", str(tmp_path_factory.mktemp("cache")))
        first = drawn()
        patch.setattr(shapes3d, "draw", None)
        again = drawn()
    np.testing.assert_array_equal(first.examples.maps, again.examples.maps)
    np.testing.assert_array_equal(first.examples.palette, again.examples.palette)
    return again


def samples():
    with np.load(SAMPLES) as file:
        return file["images"], file["factors"].astype(np.int64)


def number(factors):
    return np.ravel_multi_index(tuple(np.asarray(factors).T), SIZES)


def psnr(images, true):
    error = np.mean((images.astype(np.float64) - true) ** 2, axis=(1, 2, 3))
    return 10 * np.log10(255**2 / error)


def test_drawn_images_are_near_the_true_ones(data):
    true, factors = samples()
    assert true.shape == (50, 64, 64, 3)
    decibels = psnr(data.examples.bytes_of(number(factors)), true)
    assert decibels.mean() >= 31.5
    assert decibels.min() >= 28


def test_drawn_images_are_near_the_true_ones_by_the_supplied_factors_too(data):
    with np.load(SAMPLES) as file:
        true, factors = file["images"], file["supplied"].astype(np.int64)
    decibels = psnr(data.examples.bytes_of(number(factors)), true)
    assert decibels.mean() >= 26
    assert decibels.min() >= 20


@pytest.mark.parametrize("factor", [3, 4, 5])
def test_no_neighbouring_geometry_is_nearer_to_a_true_image(data, factor):
    true, factors = samples()
    here = psnr(data.examples.bytes_of(number(factors)), true)
    for step in (-1, 1):
        moved = factors.copy()
        moved[:, factor] += step
        inside = (moved[:, factor] >= 0) & (moved[:, factor] < SIZES[factor])
        there = psnr(data.examples.bytes_of(number(moved[inside])), true[inside])
        assert np.all(there < here[inside])


def test_factors_of_the_official_file():
    assert [(factor.name, factor.size) for factor in FACTORS] == [
        ("floor_hue", 10),
        ("wall_hue", 10),
        ("object_hue", 10),
        ("scale", 8),
        ("shape", 4),
        ("orientation", 15),
    ]
    np.testing.assert_allclose(FACTORS[0].values, np.arange(10) / 10)
    np.testing.assert_allclose(FACTORS[3].values, 0.75 + np.arange(8) / 14)
    np.testing.assert_allclose(FACTORS[5].values, -30 + np.arange(15) * 30 / 7)
    assert FACTORS[4].values == (0, 1, 2, 3)
    assert FACTORS[4].value_names == ("cube", "cylinder", "sphere", "capsule")


def test_data(data):
    assert (data.name, data.values, data.test, data.is_image) == ("shapes3d", "unit", None, True)
    assert data.note.startswith("drawn (no download), near the official set, not identical, cached in ")
    assert len(data.examples) == 480_000
    assert data.factors.sizes == SIZES
    assert data.examples.maps.nbytes + data.examples.palette.nbytes < 20e6


def test_the_number_of_an_image_names_its_geometry_and_its_hues(data):
    for scale, shape, orientation in ((0, 0, 0), (7, 3, 14), (2, 1, 9), (5, 2, 4)):
        mixture = draw_geometry(scale, shape, orientation)
        assert mixture.shape == (64, 64, len(LAYERS))
        floor, wall, thing = np.array([1, 0, 0]), np.array([0, 1, 1]), np.array([1, 0.6, 0])
        sky = np.array([153, 226, 249]) / 255
        white = mixture[..., 3:4] + mixture[..., 4:5] * sky
        colour = white + mixture[..., :1] * floor + mixture[..., 1:2] * wall + mixture[..., 2:3] * thing
        image = data.examples.bytes_of(
            np.array(
                [
                    data.factors.number(
                        floor_hue=0, wall_hue=5, object_hue=1, scale=scale, shape=shape, orientation=orientation
                    )
                ]
            )
        )[0]
        np.testing.assert_allclose(image / 255, np.clip(colour, 0, 1), atol=0.08)
        assert np.abs(image / 255 - np.clip(colour, 0, 1)).mean() < 0.004


def test_a_batch_equals_its_images_one_at_a_time(data):
    index = np.random.default_rng(0).integers(0, 480_000, 40)
    index = np.concatenate([index, index[:5], [0, 479_999]])
    batch = data.examples.batch(index)
    for i, image in zip(index, batch, strict=True):
        assert torch.equal(data.examples.batch(np.array([i]))[0], image)


def test_a_batch_is_float32_in_channels_last_memory_and_holds_whole_bytes(data):
    index = np.random.default_rng(1).integers(0, 480_000, 64)
    batch, pixels = data.examples.batch(index), data.examples.bytes_of(index)
    assert batch.dtype == torch.float32
    assert batch.shape == (64, *data.examples.shape) == (64, 3, 64, 64)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert (pixels.dtype, pixels.shape) == (np.uint8, (64, 64, 64, 3))
    assert batch.min() >= 0
    assert batch.max() == 1
    as_served_from_the_file = torch.from_numpy(pixels * np.float32(1 / 255)).permute(0, 3, 1, 2)
    assert torch.equal(batch, as_served_from_the_file)
    np.testing.assert_array_equal(torch.round(255 * batch).permute(0, 2, 3, 1).numpy(), pixels)


def test_an_empty_batch_and_indices_outside_the_set(data):
    assert data.examples.batch(np.array([], np.int64)).shape == (0, 3, 64, 64)
    assert torch.equal(data.examples.batch(np.array([-1])), data.examples.batch(np.array([479_999])))
    with pytest.raises(IndexError):
        data.examples.batch(np.array([480_000]))


def test_a_batch_starts_no_thread(data):
    before = psutil.Process().num_threads()
    data.examples.batch(np.arange(64))
    assert psutil.Process().num_threads() == before


@pytest.mark.parametrize(("factor", "layer"), [(0, 0), (1, 1), (2, 2)])
def test_a_hue_changes_only_the_pixels_of_its_surface(data, factor, layer):
    shown = np.abs(draw_geometry(3, 1, 2)[..., layer])
    indices = np.tile([4, 7, 2, 3, 1, 2], (10, 1))
    indices[:, factor] = np.arange(10)
    images = data.examples.bytes_of(number(indices)).astype(np.int64)
    changed = np.ptp(images, axis=0).max(axis=-1)
    assert np.all(changed[shown < 0.03] == 0)
    assert np.all(changed[shown > 0.3] > 60)


def test_every_geometry_is_whole(data):
    used = np.unique(data.examples.maps)
    assert data.examples.maps.shape == (480, 4096)
    np.testing.assert_array_equal(used, np.arange(data.examples.palette.shape[1]))
    red_room_green_object = data.examples.bytes_of(np.arange(480) + 480 * 3)
    assert np.all(red_room_green_object[:, 0, 0] == [153, 226, 249])
    green = np.count_nonzero(red_room_green_object[..., 1] > red_room_green_object[..., 0], axis=(1, 2))
    sizes = green.reshape(SIZES[3:])
    assert np.all(np.diff(sizes, axis=0) > 0)
    assert len(np.unique(data.examples.maps, axis=0)) == 480


def test_every_geometry_is_finite():
    for shape in range(4):
        for orientation in range(0, 15, 7):
            mixture = draw_geometry(7, shape, orientation)
            assert mixture.dtype == np.float32
            assert np.isfinite(mixture).all()


def test_the_corner_is_on_the_right_at_minus_thirty_degrees(data):
    indices = np.array([[0, 5, 3, 0, 2, 0], [0, 5, 3, 0, 2, 14]])
    left, right = data.examples.bytes_of(number(indices))[:, 24, :, 2].astype(int)
    assert left[8] > left[56] + 30
    assert right[56] > right[8] + 30
