"""The Fréchet distance has closed forms: shifts, scalings, covariances that commute; and laws."""

import numpy as np
import pytest

from narrows.errors import NarrowsError
from narrows.normals import Normal, fit_normal, frechet_distance, symmetric_root

D = 7


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def covariance(rng, d=D, rank=None):
    a = rng.normal(size=(d, rank or 2 * d))
    return a @ a.T / d


def rotation(rng, d=D):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def normal(mean, cov):
    return Normal(np.asarray(mean, float), np.asarray(cov, float), 100)


def test_equal_moments_are_exactly_0(rng):
    c = covariance(rng)
    assert frechet_distance(normal(np.ones(D), c), normal(np.ones(D), c.copy())) == 0


def test_a_shift_counts_squared(rng):
    c, m, shift = covariance(rng), rng.normal(size=D), rng.normal(size=D)
    assert frechet_distance(normal(m, c), normal(m + shift, c)) == pytest.approx(np.square(shift).sum(), rel=1e-12)


def test_a_scaling_by_s_counts_s_minus_1_squared_times_the_variance(rng):
    c = covariance(rng)
    expected = (1.7 - 1) ** 2 * np.trace(c)
    assert frechet_distance(normal(np.zeros(D), c), normal(np.zeros(D), 1.7**2 * c)) == pytest.approx(expected)


def test_commuting_covariances_compare_their_deviations(rng):
    q, a, b = rotation(rng), rng.uniform(0, 3, D), rng.uniform(0, 3, D)
    found = frechet_distance(normal(np.zeros(D), q * a @ q.T), normal(np.zeros(D), q * b @ q.T))
    assert found == pytest.approx(np.square(np.sqrt(a) - np.sqrt(b)).sum(), rel=1e-10)


def test_covariances_of_two_dimensions_have_the_textbook_root(rng):
    """They do not commute: tr (AB)^(1/2) = sqrt(tr AB + 2 sqrt(det AB)) for 2 x 2."""
    a, b = covariance(rng, 2), covariance(rng, 2)
    root = np.sqrt(np.trace(a @ b) + 2 * np.sqrt(np.linalg.det(a @ b)))
    found = frechet_distance(normal(np.zeros(2), a), normal(np.zeros(2), b))
    assert found == pytest.approx(np.trace(a) + np.trace(b) - 2 * root, rel=1e-10)
    assert np.abs(a @ b - b @ a).max() > 0.01


def test_it_is_symmetric_and_does_not_see_rotations(rng):
    a, b = (normal(rng.normal(size=D), covariance(rng)) for _ in range(2))
    q = rotation(rng)
    turned = [normal(q @ one.mean, q @ one.covariance @ q.T) for one in (a, b)]
    assert frechet_distance(a, b) > 0.1
    assert frechet_distance(b, a) == pytest.approx(frechet_distance(a, b), rel=1e-12)
    assert frechet_distance(*turned) == pytest.approx(frechet_distance(a, b), rel=1e-10)


def test_directions_without_variance_cost_no_digits(rng):
    """From eigenvalues of S C S, whose errors of 1e-16 become 1e-8 under a root, this would be off by 1e-7."""
    c = covariance(rng, 60, rank=5)
    shift = np.full(60, 1e-5)
    found = frechet_distance(normal(np.zeros(60), c), normal(shift, c))
    assert found == pytest.approx(60 * 1e-10, abs=1e-12)


def test_parts_give_the_moments_of_the_whole_far_from_0(rng):
    rows = 1e6 + rng.normal(size=(301, 4)) @ rng.normal(size=(4, 4))
    fitted = fit_normal([rows[:1], rows[1:200], rows[200:]])
    assert fitted.rows == 301
    np.testing.assert_allclose(fitted.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(fitted.covariance, np.cov(rows.T), rtol=1e-8)


def test_the_root_is_symmetric_and_squares_to_the_covariance(rng):
    for c in (covariance(rng), covariance(rng, rank=2), np.zeros((0, 0))):
        root = symmetric_root(c)
        np.testing.assert_allclose(root, root.T, atol=1e-12)
        np.testing.assert_allclose(root @ root, c, atol=1e-12)


def test_bad_rows_are_refused():
    with pytest.raises(NarrowsError, match="2 rows or more; there is 1"):
        fit_normal([np.zeros((1, 3))])
    with pytest.raises(NarrowsError, match="not finite"):
        fit_normal([np.full((3, 2), np.nan)])
    with pytest.raises(NarrowsError, match="these have 2 and 3"):
        frechet_distance(normal(np.zeros(2), np.eye(2)), normal(np.zeros(3), np.eye(3)))
