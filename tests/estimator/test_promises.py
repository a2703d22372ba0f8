"""Every promise from Python: each sets tau as its words say, in the user's unit; and one run for several of them."""

import numpy as np
import pytest

from narrows import NarrowVAE
from narrows.data.synthetic import curved_manifold
from narrows.objective import squared_error

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
SMALL = {"max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}
MEDIUM = {**SMALL, "max_steps": 200, "width": 4}


def curved(count=400):
    return curved_manifold(count, d=2, ambient=10, seed=0).astype(np.float64)


@pytest.fixture(scope="module")
def fitted():
    return NarrowVAE(4, tau_per_value=0.002, **MEDIUM).fit(curved())


@pytest.fixture(scope="module")
def front():
    model = NarrowVAE(4, **MEDIUM)
    return model, model.front(curved(), [0.1, 0.02, 0.05])


def test_tau_per_value_counts_each_value(fitted):
    assert fitted.tau_ == pytest.approx(10 * 0.002)
    assert fitted.met_


def test_as_good_as_takes_the_error_of_a_plain_vae():
    x = curved(200)
    model = NarrowVAE(as_good_as=1, **SMALL).fit(x)
    assert 0 < model.tau_ < 1.5 * np.square(x - x.mean(0)).sum(1).mean()
    assert model.result_.n == 2, "it starts with twice as many dimensions"


@pytest.mark.parametrize(("error", "power"), [("absolute", 1), ("squared", 2)])
def test_a_named_error_is_in_the_unit_of_its_power(error, power):
    """Data in another unit, a power of two, are the same fit, bit for bit; tau is in the new unit."""
    one = NarrowVAE(error=error, tau=1.0, **SMALL).fit(curved())
    other = NarrowVAE(error=error, tau=8.0**power, **SMALL).fit(8 * curved())
    assert other.result_.heldout.error == 8**power * one.result_.heldout.error
    np.testing.assert_array_equal(other.transform(8 * curved()), one.transform(curved()))


def test_cross_entropy_is_for_values_between_0_and_1():
    bits = (curved() > 0.5).astype(np.float64)
    model = NarrowVAE(error="cross-entropy", tau=6.0, **SMALL).fit(bits)
    back = model.inverse_transform(model.transform(bits))
    assert 0 <= back.min() <= back.max() <= 1
    with pytest.raises(ValueError, match=r"error='cross-entropy' is for values in \[0, 1\]; X has values from"):
        NarrowVAE(error="cross-entropy", tau=6.0, **SMALL).fit(curved() * 50 - 7)


def test_a_function_that_is_the_squared_error_is_the_squared_error():
    """It gets examples in the user's unit, so only rounding is different."""
    x = 50 * curved() - 7
    named = NarrowVAE(tau=300.0, **SMALL).fit(x)
    own = NarrowVAE(tau=300.0, error=squared_error, **SMALL).fit(x)
    assert own.tau_ == named.tau_ == 300
    assert own.result_.heldout.error == pytest.approx(named.result_.heldout.error, rel=1e-3)
    np.testing.assert_allclose(own.transform(x), named.transform(x), atol=1e-2)


def test_a_function_counts_what_it_likes():
    """An error of the first column alone needs one dimension, whatever the others do."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    first = NarrowVAE(3, error=lambda x, y: (x[:, 0] - y[:, 0]).square(), tau=0.2, **{**MEDIUM, "max_steps": 400}).fit(
        x
    )
    assert (first.n_components_, first.met_) == (1, True)
    assert abs(np.corrcoef(first.transform(x)[:, 0], x[:, 0])[0, 1]) > 0.9


def test_a_front_has_a_model_for_each_tau(front):
    model, found = front
    assert model.front_ is found
    assert list(found) == [0.02, 0.05, 0.1]
    assert [one.tau_ for one in found.values()] == [0.02, 0.05, 0.1]
    sizes = [one.n_components_ for one in found.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 2, "the manifold's own"
    for tau, one in found.items():
        assert one.get_params()["tau"] == tau
        assert one.met_ == (one.result_.heldout.high <= tau)
    assert not hasattr(model, "model_"), "the estimator itself stays as it was"


def test_the_first_level_of_a_front_is_the_fit_alone(front):
    _, found = front
    alone = NarrowVAE(4, tau=0.02, **MEDIUM).fit(curved())
    np.testing.assert_array_equal(found[0.02].transform(curved()), alone.transform(curved()))


@pytest.mark.parametrize("taus", [[], [0.0], [-1, 2], ["low"], None, [float("nan")]])
def test_taus_that_are_none(taus):
    with pytest.raises(ValueError, match=r"^taus must be one or more numbers above 0; they are"):
        NarrowVAE(**SMALL).front(curved(), taus)


def test_a_front_does_not_begin_warm():
    with pytest.raises(ValueError, match=r"^warm_start is for fit; a front begins with networks of its own"):
        NarrowVAE(warm_start=True, **SMALL).front(curved(), [1.0])


def test_the_first_components_say_most(fitted):
    x, codes = curved(), fitted.transform(curved())
    np.testing.assert_array_equal(fitted.transform(x, n_components=1), codes[:, :1])
    assert fitted.transform(x, n_components=0).shape == (400, 0)
    without = codes.copy()
    without[:, 1:] = 0
    np.testing.assert_array_equal(fitted.inverse_transform(codes[:, :1]), fitted.inverse_transform(without))
    for wrong in (-1, 3, 1.5, "1"):
        with pytest.raises((ValueError, TypeError), match="n_components"):
            fitted.transform(x, n_components=wrong)


def test_shares_of_the_variance_add_up_as_those_of_pca(fitted):
    shares = np.cumsum(fitted.explained_variance_ratio_)
    assert len(shares) == fitted.n_components_
    assert (np.diff(shares) > 0).all()
    measured = 1 - np.array(fitted.result_.errors_of_first[1:]) / fitted.result_.variance
    np.testing.assert_allclose(shares, measured)
    assert 0.8 < shares[-1] < fitted.score(curved()), "the score decodes without the posterior's noise"


def test_what_a_dimension_says_about_each_column_adds_up_to_its_cost(fitted):
    assert fitted.feature_cost_.shape == (10, fitted.n_components_)
    np.testing.assert_allclose(fitted.feature_cost_.sum(0), fitted.dimension_cost_, rtol=1e-5)


def test_images_have_no_columns():
    squares = np.random.default_rng(0).random((40, 16, 16))
    assert not hasattr(NarrowVAE(2, tau=1e3, **SMALL).fit(squares), "feature_cost_")
