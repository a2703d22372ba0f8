"""Streaming moments, against numpy on the whole; and the symmetric root of a covariance."""

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data.statistics import Moments, symmetric_root


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def moments(*parts, covariance=False):
    return Moments.of(parts, covariance)


@pytest.mark.parametrize("cuts", [[], [1], [300], [1, 1, 200], [50, 100, 150, 200, 250]])
def test_any_division_into_parts_gives_the_moments_of_the_whole(rng, cuts):
    rows = rng.normal(size=(301, 4)) @ rng.normal(size=(4, 4))
    found = moments(*np.split(rows, cuts), covariance=True)
    assert found.count == 301
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.variance, rows.var(0), rtol=1e-12)
    np.testing.assert_allclose(found.std, rows.std(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T), rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(found.low, rows.min(0))
    np.testing.assert_array_equal(found.high, rows.max(0))


@pytest.mark.parametrize("far", [1e6, -1.7e9])
def test_a_mean_far_from_0_costs_no_digits(rng, far):
    rows = far + rng.normal(size=(301, 4)) @ rng.normal(size=(4, 4))
    found = moments(rows[:1], rows[1:200], rows[200:], covariance=True)
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T), rtol=1e-8)
    np.testing.assert_allclose(found.variance, rows.var(0), rtol=1e-8)


def test_rows_have_any_shape_and_single_precision_is_summed_in_double(rng):
    rows = rng.random((50, 3, 2, 2), np.float32)
    found = moments(torch.from_numpy(rows[:20]), rows[20:])
    assert found.mean.shape == found.variance.shape == found.low.shape == (3, 2, 2)
    np.testing.assert_allclose(found.mean, rows.astype(np.float64).mean(0), rtol=1e-14)
    assert found.mean.dtype == np.float64


def test_a_constant_value_has_variance_0_and_is_never_negative(rng):
    rows = np.stack([np.full(1_000, 0.1), 1e8 + 1e-9 * rng.normal(size=1_000)], axis=1)
    assert moments(rows).variance[0] == 0
    assert (moments(rows).variance >= 0).all()


def test_the_rows_are_left_as_they_are(rng):
    rows = rng.normal(size=(9, 2))
    before = rows.copy()
    moments(rows[:4], rows[4:], covariance=True)
    np.testing.assert_array_equal(rows, before)


def test_a_covariance_needs_two_finite_rows():
    for rows in ([], [np.zeros((0, 3))], [np.zeros((1, 3))]):
        with pytest.raises(NarrowsError, match="a covariance needs two rows or more"):
            _ = moments(*rows, covariance=True).covariance
    with pytest.raises(NarrowsError, match="a covariance needs finite numbers"):
        _ = moments(np.full((3, 2), np.nan), covariance=True).covariance


def test_the_root_is_symmetric_and_squares_to_the_covariance(rng):
    for rank in (14, 2):
        a = rng.normal(size=(7, rank))
        root = symmetric_root(a @ a.T)
        np.testing.assert_allclose(root, root.T, atol=1e-11)
        np.testing.assert_allclose(root @ root, a @ a.T, atol=1e-11)
    assert symmetric_root(np.zeros((0, 0))).shape == (0, 0)
