"""NarrowVAE among scikit-learn's own: pipelines, searches, copies; and an answer that is known."""

import copy
import dataclasses
import io
import pickle
import re

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from narrows import NarrowVAE
from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.inference.sampling import prior
from narrows.networks import Decoder, Encoder
from narrows.training.build import make_model
from narrows.training.config import TrainConfig
from narrows.training.moments import moments

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
SMALL = {"max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}


def curved(count=600, d=2, ambient=12):
    return curved_manifold(count, d=d, ambient=ambient, seed=0).astype(np.float64)


@pytest.fixture(scope="module")
def fitted():
    return NarrowVAE(8, explained=0.9, width=8, device="cpu", random_state=0).fit(curved() * 50 - 7)


def test_it_finds_the_plane_in_any_unit(fitted):
    x = curved() * 50 - 7
    assert (fitted.n_components_, fitted.met_) == (2, True)
    assert fitted.score(x) > 0.9
    codes = fitted.transform(x)
    assert codes.shape == (600, 2)
    back = fitted.inverse_transform(codes)
    lost = ((x - back) ** 2).sum() / ((x - x.mean(0)) ** 2).sum()
    assert fitted.score(x) == pytest.approx(1 - lost, rel=1e-9)
    assert fitted.tau_ == pytest.approx(0.1 * x.var(0).sum(), rel=0.1), "of the rows that train"


def test_codes_are_ordered_by_cost_of_removal(fitted):
    assert list(fitted.dimension_cost_) == sorted(fitted.dimension_cost_, reverse=True)
    x = curved() * 50 - 7
    codes = fitted.transform(x)
    costs = []
    for j in range(fitted.n_components_):
        without = codes.copy()
        without[:, j] = 0
        costs.append(((x - fitted.inverse_transform(without)) ** 2).sum())
    assert costs == sorted(costs, reverse=True)


def test_history_has_the_curves(fitted):
    assert fitted.history_["step"][0] == 50
    assert fitted.history_["open"][-1] == 2
    assert {"error", "lambda", "hits", "kl", "watched"} <= set(fitted.history_)


def test_samples_are_examples(fitted):
    samples = fitted.sample(5, random_state=0)
    assert samples.shape == (5, 12)
    np.testing.assert_array_equal(samples, fitted.sample(5, random_state=0))


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_samples_from_what_the_codes_are_like(fitted, kind):
    """Codes of far data have far codes, and so do the samples of a sampler that is fitted to them."""
    x = curved() * 50 - 7
    some = x[fitted.transform(x)[:, 0] > 0.5]
    sampler = fitted.fit_sampler(some, kind, components=3, random_state=0)
    samples = fitted.sample(400, random_state=1, sampler=sampler)
    assert samples.shape == (400, 12)
    assert fitted.transform(samples)[:, 0].mean() > 0.5 > fitted.transform(fitted.sample(400, 1))[:, 0].mean()
    again = fitted.fit_sampler(some, kind, components=3, random_state=0)
    np.testing.assert_array_equal(samples, fitted.sample(400, random_state=1, sampler=again))


def test_samplers_that_do_not_fit_are_refused(fitted):
    with pytest.raises(ValueError, match="a mixture of 10 needs 20 codes or more; there are 5"):
        fitted.fit_sampler(curved(5))
    with pytest.raises(ValueError, match=r"^kind must be one of prior, gaussian, mixture; it is 'kernel'"):
        fitted.fit_sampler(curved(5), "kernel")
    for sampler in (prior(fitted.n_components_ + 1), "gaussian"):
        with pytest.raises(ValueError, match="sampler must come from fit_sampler of this model"):
            fitted.sample(3, sampler=sampler)


@pytest.mark.parametrize("copy", [lambda e: pickle.loads(pickle.dumps(e)), "joblib"])
def test_copies_are_equal(fitted, copy):
    if copy == "joblib":
        file = io.BytesIO()
        joblib.dump(fitted, file)
        file.seek(0)
        other = joblib.load(file)
    else:
        other = copy(fitted)
    np.testing.assert_array_equal(other.transform(curved()), fitted.transform(curved()))
    assert clone(fitted).get_params() == fitted.get_params()


def test_precision_follows_the_input(fitted):
    x = curved()
    assert fitted.transform(x).dtype == np.float64
    single = fitted.transform(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fitted.transform(x), rtol=1e-3, atol=1e-4)
    assert fitted.inverse_transform(single).dtype == np.float32


def test_pipelines_searches_and_frames():
    pipeline = make_pipeline(StandardScaler(), NarrowVAE(4, **SMALL)).set_output(transform="pandas")
    frame = pipeline.fit_transform(curved(100))
    assert list(frame.columns) == [f"narrowvae{i}" for i in range(frame.shape[1])]
    search = GridSearchCV(NarrowVAE(**SMALL), {"n_components": [1, 4]}, cv=2).fit(curved(100))
    assert search.best_params_["n_components"] in (1, 4)


def test_constant_columns_and_few_rows():
    x = np.hstack([curved(100), np.full((100, 2), 3.0)])
    model = NarrowVAE(**{**SMALL, "max_steps": 300}).fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x))[:, -2:], 3.0, atol=0.2)


def test_examples_of_another_shape_are_told_by_their_shapes(fitted):
    x = np.random.default_rng(0).random((20, 16, 16))
    model = NarrowVAE(4, **SMALL).fit(x)
    for other in (x[:, :8], x.reshape(20, -1), x[..., None]):
        with pytest.raises(
            ValueError, match=rf"shape \(16, 16\), as in fit; these have {re.escape(str(other.shape[1:]))}$"
        ):
            model.transform(other)
    with pytest.raises(ValueError, match="X has 5 features, but NarrowVAE is expecting 12 features"):
        fitted.transform(np.zeros((3, 5)))
    with pytest.raises(ValueError, match=r"shape \(12,\), as in fit; these have \(12, 2\)$"):
        fitted.transform(np.zeros((3, 12, 2)))


@pytest.mark.parametrize("shape", [(20, 20), (20, 20, 3), (3, 20, 20)])
def test_images_keep_their_layout(shape):
    x = np.random.default_rng(0).random((40, *shape)) * 255
    model = NarrowVAE(4, **SMALL).fit(x)
    codes = model.transform(x)
    assert codes.shape == (40, model.n_components_)
    assert model.inverse_transform(codes).shape == x.shape
    assert model.model_.network.kind == "conv"


def test_an_image_comes_back_the_way_it_went_in():
    """Bright on the left stays on the left, in the first and the last channel's own way."""
    x = np.zeros((60, 16, 16, 3))
    for image, bright in zip(x, np.random.default_rng(0).uniform(0.5, 1, 60), strict=True):
        image[:, :8, 0] = bright
    for images, left in ((x, np.s_[:, :, :8, 0]), (np.moveaxis(x, -1, 1), np.s_[:, 0, :, :8])):
        model = NarrowVAE(2, **{**SMALL, "max_steps": 400, "width": 4}).fit(images)
        back = model.inverse_transform(model.transform(images))
        assert back[left].mean() > 0.5
        assert back.sum() < 1.5 * back[left].sum()


def test_rows_in_any_memory_layout(fitted):
    x = curved() * 50 - 7
    np.testing.assert_allclose(fitted.transform(x[::-1])[::-1], fitted.transform(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(np.asfortranarray(x)), fitted.transform(x), rtol=1e-9, atol=1e-12)


def test_columns_far_from_zero_keep_their_digits(fitted):
    x = np.hstack([curved() * 50 - 7 + 1e9, np.full((600, 1), 5e6)])
    model = NarrowVAE(8, explained=0.9, width=8, device="cpu", random_state=0).fit(x)
    assert (model.n_components_, model.met_) == (2, True)
    assert model.score(x) > 0.9
    np.testing.assert_allclose(model.inverse_transform(model.transform(x))[:, -1], 5e6, rtol=1e-6)


@pytest.mark.parametrize("shape", [(12,), (4, 3), (2, 2, 3)])
@pytest.mark.parametrize("power", [-250, -66, 50, 250])
def test_another_unit_is_the_same_fit_bit_for_bit(shape, power):
    """Powers of two change no digit, so neither may the answer; 2 ** -66 is about 1e-20."""
    x = curved(60).reshape(60, *shape)
    here, there = NarrowVAE(4, **SMALL).fit(x), NarrowVAE(4, **SMALL).fit(x * 2.0**power)
    square = 4.0**power
    np.testing.assert_array_equal(there.transform(x * 2.0**power), here.transform(x))
    np.testing.assert_array_equal(
        there.inverse_transform(here.transform(x)), here.inverse_transform(here.transform(x)) * 2.0**power
    )
    assert there.tau_ == here.tau_ * square
    assert there.score(x * 2.0**power) == here.score(x)
    np.testing.assert_array_equal(there.dimension_cost_, here.dimension_cost_ * square)
    np.testing.assert_array_equal(there.history_["error"], np.array(here.history_["error"]) * square)
    for part in ("heldout", "validation"):
        assert getattr(there.result_, part).high == getattr(here.result_, part).high * square
    assert there.result_.variance == here.result_.variance * square
    assert there.mean_.shape == shape


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_images_far_from_zero_keep_their_digits(dtype):
    x = (np.random.default_rng(0).integers(0, 64, (60, 1, 1)) * np.ones((60, 16, 16))).astype(dtype)
    here, there = NarrowVAE(4, **SMALL).fit(x), NarrowVAE(4, **SMALL).fit(x + dtype(2**17))
    assert there.tau_ == pytest.approx(here.tau_, rel=1e-6)
    assert there.score(x + dtype(2**17)) == pytest.approx(here.score(x), abs=1e-3)
    np.testing.assert_allclose(there.transform(x + dtype(2**17)), here.transform(x), atol=1e-3)
    far = NarrowVAE(4, **SMALL).fit(x.astype(np.float64) + 1e8)
    assert far.score(x.astype(np.float64) + 1e8) == pytest.approx(here.score(x), abs=1e-3)


def test_a_promise_in_numbers_counts_in_the_users_unit():
    x = curved(60) * 1e20
    model = NarrowVAE(4, tau=1e40, **SMALL).fit(x)
    assert model.tau_ == model.result_.tau == 1e40
    with pytest.raises(
        ValueError, match=r"tau must be between .*e\+08 and .*e\+68 for an X that varies by .*; it is 1$"
    ):
        NarrowVAE(4, tau=1.0, **SMALL).fit(x)
    with pytest.raises(ValueError, match=r"tau must be between .*; it is 1e-300$"):
        NarrowVAE(4, tau=1e-300, **SMALL).fit(np.ones((50, 4)))


@pytest.mark.parametrize("value", [0.1, 0.0, 1e30, 1e-30])
def test_equal_rows_take_a_number_for_a_promise(value):
    with pytest.raises(ValueError, match=r"X: all examples are \(nearly\) the same, .* give tau$"):
        NarrowVAE(**SMALL).fit(np.full((50, 4), value))
    assert NarrowVAE(tau=1.0, **SMALL).fit(np.full((50, 4), value)).tau_ == 1.0


def test_how_training_goes_is_told_in_the_users_unit(capsys):
    model = NarrowVAE(4, **{**SMALL, "max_steps": 500}, verbose=True).fit(curved(100) * 1e20)
    out = capsys.readouterr().out
    assert f"error at most {model.tau_:g} per input" in out
    assert f"batch 500: error {model.history_['error'][-1]:.4g}, " in out


def test_values_beyond_double_precision():
    x = curved(50)
    with pytest.raises(ValueError, match=r"X has values up to .*e\+200, .* above 1e\+100; divide X by a large number"):
        NarrowVAE(**SMALL).fit(x * 1e200)
    with pytest.raises(ValueError, match=r"X varies by .*e-151, .* below 1e-100; multiply X by a large number"):
        NarrowVAE(**SMALL).fit(x * 1e-150)
    rough = np.random.default_rng(0).random((16, 16)) * 1e6
    with pytest.raises(ValueError, match=r"X: pixels that vary by .* subtract each pixel's mean first"):
        NarrowVAE(**SMALL).fit(np.random.default_rng(1).random((20, 16, 16)) + rough)


def test_a_promise_that_is_not_kept_is_told():
    with pytest.warns(ConvergenceWarning, match="the promise is not certified on held-out rows: error .* tau"):
        NarrowVAE(**SMALL).fit(curved(100))


def test_a_fit_that_fails_leaves_the_model_as_it_was(fitted):
    other = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="nearly"):
        other.fit(np.ones((50, 5)))
    np.testing.assert_array_equal(other.transform(curved()), fitted.transform(curved()))


def test_a_warm_start_in_another_unit_and_with_other_networks(fitted):
    x = curved() * 50 - 7
    warm = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True, max_steps=20, explained=0.5)
    assert warm.fit(1000 * x + 50).score(1000 * x + 50) > 0.5
    with pytest.raises(ValueError, match="present networks: width was 8 and is now 4; restore it"):
        warm.set_params(width=4).fit(x)
    with pytest.raises(ValueError, match="present networks: network was 'mlp' and is now 'conv'; restore it"):
        warm.set_params(width=8, network="conv").fit(x)
    with pytest.raises(ValueError, match="network was 'mlp' and is now <function networks"):
        warm.set_params(network=networks).fit(x)


def test_a_warm_start_goes_on_with_the_model_there_is(fitted):
    x = curved() * 50 - 7
    warm = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True, max_steps=20, explained=0.5)
    before = warm.score(x)
    warm.fit(x)
    assert warm.result_.n == 2, "it begins with the dimensions that were left"
    assert warm.score(x) > 0.5 * before
    cold = NarrowVAE(2, explained=0.5, width=8, device="cpu", random_state=0, max_steps=20).fit(x)
    assert cold.score(x) < warm.score(x)
    with pytest.raises(ValueError, match="warm_start: the model is for examples of shape"):
        warm.fit(x[:, :5])


def networks(shape, n):
    """Any two modules: no base class, no names."""
    return nn.Linear(shape[0], 2 * n), nn.Sequential(nn.Linear(n, 8), nn.ReLU(), nn.Linear(8, shape[0]))


class NamedEncoder(Encoder):
    """Says by its class that `head` makes the latent dimensions, although a larger layer comes after it."""

    def __init__(self, shape, n):
        super().__init__()
        self.head, self.unused = nn.Linear(shape[0], 2 * n), nn.Linear(3, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class NamedDecoder(Decoder):
    def __init__(self, shape, n):
        super().__init__()
        self.unused, self.stem = nn.Linear(3, 7), nn.Linear(n, shape[0])

    def forward(self, z, record=None, reuse=None) -> Tensor:
        return self.stem(z)

    def start_at(self, mean: Tensor) -> None:
        raise AssertionError("only for outputs in [0, 1]")


class OnlyZ(NamedDecoder):
    def forward(self, z) -> Tensor:
        return self.stem(z)


class Headless(Encoder):
    def forward(self, x: Tensor) -> Tensor:
        return x


class WithNone(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x), None


class Frozen(NamedEncoder):
    """Frozen BatchNorm, as users have it: a trial of the network must not thaw it."""

    def __init__(self, shape, n):
        super().__init__(shape, n)
        self.norm = nn.BatchNorm1d(shape[0]).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


@pytest.mark.parametrize("factory", [networks, lambda shape, n: (NamedEncoder(shape, n), NamedDecoder(shape, n))])
def test_networks_of_the_user(factory):
    model = NarrowVAE(4, network=factory, **SMALL).fit(curved(200))
    assert isinstance(model.model_.encoder, nn.Linear | NamedEncoder)
    assert model.transform(curved(10)).shape == (10, model.n_components_)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (lambda shape, n: None, "network must be a function that returns an encoder and a decoder; it returned None"),
        (lambda shape, n: (nn.Identity(), nn.Identity()), "the encoder must end with one layer of 8 .* it has none"),
        (
            lambda shape, n: (networks(shape, n)[0], torch.relu),
            "the decoder must be a torch.nn.Module; it is <",
        ),
        (
            lambda shape, n: (Headless(), networks(shape, n)[1]),
            "the encoder has no layer 'head'; it can be one",
        ),
        (lambda shape, n: networks(shape, n + 1), "one layer of 8 outputs .* or two of 4 each; encoder has 10; name"),
        (
            lambda shape, n: (networks(shape, n)[0], OnlyZ(shape, n)),
            r"the decoder fails on a batch of shape \(2, 4\): TypeError: .*forward",
        ),
        (
            lambda shape, n: (nn.Linear(5, 2 * n), networks(shape, n)[1]),
            r"the encoder fails on a batch of shape \(2, 12\): RuntimeError: ",
        ),
        (
            lambda shape, n: (networks(shape, n)[0], nn.Linear(n, 5)),
            r"the decoder must return examples, \(2, 12\) for two of them; it returns \(2, 5\)",
        ),
        (
            lambda shape, n: (WithNone(12, 2 * n), networks(shape, n)[1]),
            "as two tensors or as one .* a tuple of 2",
        ),
    ],
)
def test_networks_that_cannot_be_gated(factory, expected):
    with pytest.raises(ValueError, match=expected):
        NarrowVAE(4, network=factory, **SMALL).fit(curved(100))


def test_a_look_at_a_network_leaves_it_as_it_was():
    encoder, decoder = Frozen((12,), 4), NamedDecoder((12,), 4)
    before = copy.deepcopy(encoder.state_dict())
    config = TrainConfig(data="X", tau=1.0, n=4, network="mlp")
    data = from_array(curved(20).astype(np.float32), "any")
    measured = moments(data.examples, np.arange(20))
    model = make_model(config, data, measured, lambda shape, n: (encoder, decoder))
    assert model.encoder is encoder
    assert (encoder.training, encoder.norm.training) == (True, False)
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"n_components": 0}, "n_components must be at least 1; it is 0"),
        ({"n_components": 2.5}, "n_components must be a whole number; it is 2.5"),
        ({"n_components": True}, "n_components must be a whole number"),
        ({"max_steps": -1}, "max_steps must be at least 1; it is -1"),
        ({"batch_size": None}, "batch_size must be a whole number; it is None"),
        ({"explained": 1.0}, r"explained must be between 0 and 1 \(0.95 for 95%\); it is 1"),
        ({"explained": "most"}, "explained must be a number; it is 'most'"),
        ({"explained": float("nan")}, "explained must be between 0 and 1"),
        ({"tau": 0}, "tau must be a number above 0; it is 0"),
        ({"recipe": "slow"}, "recipe must be one of fast, paper; it is 'slow'"),
        ({"network": "cnn"}, "network must be one of auto, conv, mlp; it is 'cnn'"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, mps; it is 'tpu'"),
        ({"network": "conv"}, "^network='conv' is for images"),
    ],
)
def test_bad_parameters_name_the_parameter_the_rule_and_the_value(parameters, expected):
    with pytest.raises(ValueError, match=expected):
        NarrowVAE(**{**SMALL, **parameters}).fit(curved(50))


def test_bad_data(fitted):
    x = curved(50)
    with pytest.raises(ValueError, match="NaN"):
        NarrowVAE(**SMALL).fit(np.where(x > 0.9, np.nan, x))
    for count in (0, 1, 9):
        with pytest.raises(ValueError, match=rf"^fitting needs at least 10 samples, .* n_samples={count}$"):
            NarrowVAE(**SMALL).fit(x[:count])
    with pytest.raises(ValueError, match=r"X must hold rows .* its shape is \(50, 0, 4\)"):
        NarrowVAE(**SMALL).fit(np.empty((50, 0, 4)))
    with pytest.raises(ValueError, match="nearly"):
        NarrowVAE(**SMALL).fit(np.ones((50, 4)))
    with pytest.raises(ValueError, match=r"X must hold rows .* its shape is \(50, 2, 2, 2, 2\)"):
        NarrowVAE(**SMALL).fit(np.random.default_rng(0).random((50, 2, 2, 2, 2)))
    with pytest.raises(NotFittedError):
        NarrowVAE().transform(x)
    with pytest.raises(ValueError, match="codes have 2 columns, one per dimension; X has 3"):
        fitted.inverse_transform(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="n_samples == 0, must be >= 1"):
        fitted.sample(0)


def test_a_warm_start_with_many_more_rows_keeps_its_networks():
    """Few rows get a direct path and many do not, but a model that goes on keeps what it has."""
    rng = np.random.default_rng(0)
    x = rng.random((5_200, 3)) @ rng.random((3, 8))
    model = NarrowVAE(max_steps=30, width=2, random_state=0, warm_start=True, device="cpu")
    few = model.fit(x[:400]).model_.network
    many = model.fit(x).model_.network
    assert model.fit(x).model_.network == many
    assert few.direct
    assert many == dataclasses.replace(few, n=model.n_components_)
