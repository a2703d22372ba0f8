"""The Fréchet distance against its closed forms (shifts, scalings, covariances that commute) and its laws."""

from typing import NamedTuple

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.evaluation.frechet import frechet_distance

D = 7


class Normal(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def covariance(rng, d=D, rank=None):
    a = rng.normal(size=(d, rank or 2 * d))
    return a @ a.T / d


def centred(covariance):
    return Normal(np.zeros(len(covariance)), covariance)


def rotation(rng, d=D):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def test_equal_moments_are_exactly_0(rng):
    c = covariance(rng)
    assert frechet_distance(Normal(np.ones(D), c), Normal(np.ones(D), c.copy())) == 0


def test_a_shift_counts_squared(rng):
    c, m, shift = covariance(rng), rng.normal(size=D), rng.normal(size=D)
    assert frechet_distance(Normal(m, c), Normal(m + shift, c)) == pytest.approx(np.square(shift).sum(), rel=1e-12)


def test_a_scaling_by_s_counts_s_minus_1_squared_times_the_variance(rng):
    c = covariance(rng)
    expected = (1.7 - 1) ** 2 * np.trace(c)
    assert frechet_distance(centred(c), centred(1.7**2 * c)) == pytest.approx(expected)


def test_commuting_covariances_compare_their_deviations(rng):
    q, a, b = rotation(rng), rng.uniform(0, 3, D), rng.uniform(0, 3, D)
    found = frechet_distance(centred(q * a @ q.T), centred(q * b @ q.T))
    assert found == pytest.approx(np.square(np.sqrt(a) - np.sqrt(b)).sum(), rel=1e-10)


def test_covariances_of_two_dimensions_have_the_textbook_root(rng):
    """They do not commute: tr (AB)^(1/2) = sqrt(tr AB + 2 sqrt(det AB)) for 2 x 2."""
    a, b = covariance(rng, 2), covariance(rng, 2)
    root = np.sqrt(np.trace(a @ b) + 2 * np.sqrt(np.linalg.det(a @ b)))
    assert frechet_distance(centred(a), centred(b)) == pytest.approx(np.trace(a) + np.trace(b) - 2 * root, rel=1e-10)
    assert np.abs(a @ b - b @ a).max() > 0.01


def test_it_is_symmetric_and_does_not_depend_on_rotations(rng):
    a, b = (Normal(rng.normal(size=D), covariance(rng)) for _ in range(2))
    q = rotation(rng)
    rotated = [Normal(q @ one.mean, q @ one.covariance @ q.T) for one in (a, b)]
    assert frechet_distance(a, b) > 0.1
    assert frechet_distance(b, a) == pytest.approx(frechet_distance(a, b), rel=1e-12)
    assert frechet_distance(*rotated) == pytest.approx(frechet_distance(a, b), rel=1e-10)


def test_directions_without_variance_cost_no_digits(rng):
    """From eigenvalues of S C S, whose errors of 1e-16 become 1e-8 under a root, this would be off by 1e-7."""
    c = covariance(rng, 60, rank=5)
    found = frechet_distance(centred(c), Normal(np.full(60, 1e-5), c))
    assert found == pytest.approx(60 * 1e-10, abs=1e-12)


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(NarrowsError, match="these have 2 and 3"):
        frechet_distance(centred(np.eye(2)), centred(np.eye(3)))
