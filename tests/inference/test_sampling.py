"""Samplers against known distributions of codes: those of a linear encoder, and two clusters."""

import inspect
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError
from narrows.cli import apply
from narrows.data import from_array
from narrows.inference.sampling import KINDS, MOST_CODES, fit_sampler, posterior_samples, prior
from narrows.model.vae import LOG_STD_BOUND, VAE
from narrows.networks import Encoder, NetworkConfig, Scaling, build


class Linear(Encoder):
    """mu = W x + b, and the same sigma for all x."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        n, d = weight.shape
        raw = LOG_STD_BOUND * np.arctanh(np.log(std) / LOG_STD_BOUND)
        self.head = nn.Linear(d, 2 * n)
        self.head.weight.data = torch.tensor(np.concatenate([weight, np.zeros((n, d))])).float()
        self.head.bias.data = torch.tensor(np.concatenate([bias, raw])).float()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


@pytest.fixture(scope="module")
def linear():
    """A model and data for which q(z) is N(b, W W' + diag(sigma^2))."""
    rng = np.random.default_rng(0)
    weight, bias, std = rng.normal(size=(3, 5)), np.array([2.0, -1.0, 0.0]), np.array([0.1, 1.0, 2.0])
    _, decoder, _ = build(NetworkConfig("mlp", (5,), 3, 2, "linear"))
    model = VAE(Linear(weight, bias, std), decoder, 3, scaling=Scaling("linear", (5,))).eval()
    data = from_array(rng.normal(size=(30_000, 5)).astype(np.float32), "any")
    codes = posterior_samples(model, data.examples, np.arange(30_000))
    return codes, bias, weight @ weight.T + np.diag(std**2)


def close(found, expected, covariance, count):
    """Within five standard errors of a mean and of a covariance of `count` normal rows."""
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(found.mean(0) - expected), 5 * spread / np.sqrt(count))
    error = np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / count)
    np.testing.assert_array_less(np.abs(np.cov(found.T) - covariance), 5 * error)


def test_posterior_samples_are_those_of_q(linear):
    codes, mean, covariance = linear
    assert codes.shape == (MOST_CODES, 3)
    close(codes, mean, covariance, MOST_CODES)


def test_the_gaussian_recovers_a_linear_models_q(linear):
    codes, mean, covariance = linear
    sampler = fit_sampler("gaussian", codes)
    np.testing.assert_allclose(sampler.means[0], codes.mean(0), rtol=1e-12)
    np.testing.assert_allclose(sampler.roots[0] @ sampler.roots[0], np.cov(codes.T), rtol=1e-10)
    drawn = sampler.draw(50_000, torch.Generator().manual_seed(1)).double().numpy()
    close(drawn, mean, covariance, MOST_CODES)  # two errors: of the fit and, smaller, of the draw


def test_the_mixture_finds_two_clusters():
    rng = np.random.default_rng(0)
    near, far = rng.normal((-6, 0), (1, 0.2), (3_000, 2)), rng.normal((6, 3), (0.3, 1), (1_000, 2))
    codes = np.concatenate([near, far])
    sampler = fit_sampler("mixture", codes, components=2, seed=0)
    order = sampler.means[:, 0].argsort()
    np.testing.assert_allclose(sampler.weights[order], (0.75, 0.25), atol=1e-6)
    np.testing.assert_allclose(sampler.means[order], np.stack([near.mean(0), far.mean(0)]), atol=1e-3)
    np.testing.assert_allclose(sampler.roots[order[0]] @ sampler.roots[order[0]], np.cov(near.T), atol=2e-3)
    drawn = sampler.draw(4_000, torch.Generator().manual_seed(0)).numpy()
    share = (drawn[:, 0] > 0).mean()
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4_000)
    assert np.abs(drawn[:, 0]).min() > 1  # none between the clusters; one Gaussian has many
    between = fit_sampler("gaussian", codes).draw(4_000, torch.Generator().manual_seed(0))[:, 0]
    assert (between.abs() < 1).sum() > 100


def test_draws_depend_on_the_seed_alone():
    codes = np.random.default_rng(0).normal(size=(500, 2))
    first, again = (fit_sampler("mixture", codes, components=3, seed=4) for _ in range(2))
    a, b = (s.draw(20, torch.Generator().manual_seed(9)) for s in (first, again))
    torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert (a != first.draw(20, torch.Generator().manual_seed(8))).all()


def test_the_prior_is_the_generators_own_noise():
    drawn = prior(3).draw(10, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn, torch.randn(10, 3, generator=torch.Generator().manual_seed(0)), rtol=0, atol=0)


def test_the_command_line_offers_the_samplers_that_can_be_fitted():
    assert get_args(inspect.signature(apply.sample).parameters["sampler"].annotation) == KINDS
    codes = np.random.default_rng(0).normal((3, -3), 0.1, size=(100, 2))
    fitted = {kind: fit_sampler(kind, codes, components=2) for kind in KINDS}
    assert {kind: sampler.kind for kind, sampler in fitted.items()} == {kind: kind for kind in KINDS}
    assert [len(fitted[kind].weights) for kind in KINDS] == [1, 1, 2]
    means = {kind: sampler.draw(1_000, torch.Generator().manual_seed(0)).mean(0) for kind, sampler in fitted.items()}
    for kind in KINDS:
        np.testing.assert_allclose(means[kind], (0, 0) if kind == "prior" else (3, -3), atol=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_dimensions_has_codes_without_numbers(kind):
    assert fit_sampler(kind, np.zeros((30, 0))).draw(4).shape == (4, 0)


def test_what_cannot_be_fitted_is_refused():
    codes = np.zeros((9, 2))
    for kind, components, expected in (
        ("mixture", 5, "a mixture of 5 needs 10 codes or more; there are 9"),
        ("mixture", 0, "components must be a whole number from 1 on; it is 0"),
        ("kernel", 1, "sampler must be one of prior, gaussian, mixture; it is 'kernel'"),
    ):
        with pytest.raises(NarrowsError, match=expected):
            fit_sampler(kind, codes, components)
