"""The loss terms against torch.distributions and by hand, and every named error."""

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from scipy.stats import nbinom
from sklearn.metrics import mean_poisson_deviance
from torch.distributions import Normal, Poisson, kl_divergence

from narrows.objective import (
    COUNT_ERRORS,
    ERRORS,
    absolute_error,
    count_values,
    cross_entropy,
    gated_kl,
    kl_elements,
    negative_binomial_deviance,
    poisson_deviance,
    squared_error,
    total,
)
from narrows.training.config import TrainConfig

IMAGES = (2, 3, 4, 5)


def test_the_kl_equals_torch_distributions(generator):
    mean = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    log_std = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    expected = kl_divergence(Normal(mean, log_std.exp()), Normal(torch.zeros_like(mean), torch.ones_like(mean)))
    torch.testing.assert_close(kl_elements(mean, log_std), expected, rtol=1e-12, atol=1e-12)


def test_the_gated_kl_is_the_mean_over_open_gates_and_zero_when_all_are_closed():
    kl = torch.tensor([[1.0, 2.0, 6.0], [1.0, 2.0, 6.0], [1.0, 2.0, 6.0]])
    gates = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(gated_kl(kl, gates), torch.tensor([3.5, 3.0, 0.0]))


def test_the_gated_kl_has_finite_gradients_when_all_gates_are_closed():
    kl = torch.ones(2, 3, requires_grad=True)
    gated_kl(kl, torch.zeros(2, 3)).sum().backward()
    assert torch.equal(kl.grad, torch.zeros(2, 3))


def test_the_error_is_summed_over_values_and_not_over_inputs():
    x = torch.zeros(2, 3, 4, 4)
    assert squared_error(x, x + 0.5).tolist() == [12.0, 12.0]


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("shape", [IMAGES, (2, 7)], ids=["images", "vectors"])
def test_every_error_is_one_number_per_input(error, shape, generator):
    x, y = torch.rand(shape, generator=generator), torch.rand(shape, generator=generator)
    both = error(x, y)
    assert both.shape == (2,)
    torch.testing.assert_close(both[1:], error(x[1:], y[1:]))


def test_error_names_are_those_of_the_settings_and_the_documents():
    assert {"squared": squared_error, "cross-entropy": cross_entropy, "absolute": absolute_error} == ERRORS
    named = (*ERRORS, *COUNT_ERRORS)
    assert get_args(get_type_hints(TrainConfig)["error"]) == named
    recipe = (Path(__file__).parents[1] / "docs" / "recipe.md").read_text()
    (shown,) = re.findall(r"`--error (\S+ \| [\w| -]+)`", recipe)
    assert set(shown.split(" | ")) == set(named)


def test_the_absolute_error_is_summed_over_values_and_not_over_inputs():
    x = torch.zeros(IMAGES)
    assert absolute_error(x, x + 0.5).tolist() == [30.0, 30.0]
    x, y = torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.0, 0.0]]), torch.tensor([[0.0, 2.0, 3.5], [0.0, -0.25, 0.0]])
    assert absolute_error(x, y).tolist() == [5.5, 0.25]
    assert absolute_error(y, x).tolist() == [5.5, 0.25]


def test_the_absolute_error_has_the_unit_of_the_data(generator):
    x, y = torch.randn(4, 6, generator=generator), torch.randn(4, 6, generator=generator)
    torch.testing.assert_close(absolute_error(1_000 * x, 1_000 * y), 1_000 * absolute_error(x, y))


def test_the_cross_entropy_of_black_and_white_is_minus_the_log_of_what_was_given():
    x, y = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.5, 0.75], [0.25, 1.0]])
    expected = [math.log(2) + math.log(4), math.log(4)]
    assert cross_entropy(x, y).tolist() == pytest.approx(expected, rel=1e-6)
    assert cross_entropy(torch.zeros(IMAGES), torch.full(IMAGES, 0.5)).tolist() == pytest.approx([60 * math.log(2)] * 2)


@pytest.mark.parametrize("value", [0.1, 0.5, 0.7])
def test_a_grey_value_costs_its_own_entropy_at_least(value):
    """Least where the reconstruction is the value itself, and there the entropy."""
    y = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)[:, None]
    errors = cross_entropy(torch.full_like(y, value), y)
    best = int(errors.argmin())
    assert y[best].item() == pytest.approx(value)
    entropy = -value * math.log(value) - (1 - value) * math.log(1 - value)
    assert errors[best].item() == pytest.approx(entropy, rel=1e-9)


def test_the_cross_entropy_is_finite_where_the_reconstruction_is_certain_and_has_finite_gradients():
    x = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.5]])
    y = torch.tensor([[0.0, 1.0, 1.0, 0.0, 0.0]], requires_grad=True)
    error = cross_entropy(x, y)
    error.sum().backward()
    assert torch.isfinite(error).all()
    assert error.item() > 50
    assert torch.isfinite(y.grad).all()
    certain = torch.tensor([[0.0, 1.0]])
    assert cross_entropy(certain, certain).item() == 0


def counts(generator, rows=6, columns=9):
    x = torch.poisson(torch.full((rows, columns), 2.0, dtype=torch.float64), generator)
    return x, torch.rand(rows, columns, generator=generator, dtype=torch.float64) + 0.1


def test_the_poisson_deviance_is_scikit_learns_and_twice_the_loss_of_log_likelihood(generator):
    x, mean = counts(generator)
    found = poisson_deviance(x, mean)
    expected = [x.shape[1] * mean_poisson_deviance(*pair) for pair in zip(x.numpy(), mean.numpy(), strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    best = Poisson(x.clamp(min=1e-12)).log_prob(x)  # of a count 0: 0 log 0 = 0
    torch.testing.assert_close(found, 2 * (best - Poisson(mean).log_prob(x)).sum(1), rtol=1e-9, atol=1e-9)


def test_the_negative_binomial_deviance_is_twice_the_loss_of_log_likelihood(generator):
    x, mean = counts(generator)
    a = torch.linspace(0.1, 3, x.shape[1], dtype=torch.float64)
    r = (1 / a).numpy()

    def log_likelihood(m):
        return nbinom.logpmf(x.numpy(), r, r / (r + m.numpy())).sum(1)

    expected = 2 * (log_likelihood(x.clamp(min=1e-12)) - log_likelihood(mean))
    torch.testing.assert_close(negative_binomial_deviance(a)(x, mean), torch.from_numpy(expected), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deviances_are_0_for_the_counts_themselves_and_above_for_others(dtype, generator):
    x, mean = (part.to(dtype) for part in counts(generator))
    a = torch.tensor([0.0, 1e-7, 1e-5, 0.01, 0.1, 0.5, 1.0, 5.0, 100.0], dtype=dtype)
    for error in (poisson_deviance, negative_binomial_deviance(a), total(count_values()), total(count_values(a))):
        assert error(x, x).abs().max() < 1e-6
        assert error(x, mean).min() > 0


def test_a_negative_binomial_without_dispersion_is_poisson(generator):
    x, mean = counts(generator)
    poisson = poisson_deviance(x, mean)
    gaps = [
        (negative_binomial_deviance(torch.full((9,), a, dtype=torch.float64))(x, mean) - poisson).abs().max().item()
        for a in (1e-1, 1e-2, 1e-3, 1e-4, 0.0)
    ]
    assert all(after < before / 5 for before, after in pairwise(gaps))
    assert gaps[-1] < 1e-12


def test_the_error_of_counts_does_not_depend_on_the_library_size_of_the_reconstruction(generator):
    x, mean = counts(generator)
    errors = total(count_values())
    torch.testing.assert_close(errors(x, mean), errors(x, 1000 * mean))
    at_size = mean * (x.sum(1) / mean.sum(1))[:, None]
    torch.testing.assert_close(errors(x, mean), poisson_deviance(x, at_size))
    assert errors(x, 0.01 * x).max() < 1e-6, "proportions that are right are all that is asked for"


def test_counts_have_finite_gradients_wherever_they_are_0(generator):
    x, mean = counts(generator)
    logit = mean.log().requires_grad_()
    a = torch.full((9,), 0.5, dtype=torch.float64)
    for error in (total(count_values()), total(count_values(a))):
        for values in (x, torch.zeros_like(x).index_fill_(1, torch.tensor([0]), 3.0)):
            (slope,) = torch.autograd.grad(error(values, logit.softmax(1)).sum(), logit)
            assert slope.isfinite().all()
    (slope,) = torch.autograd.grad(total(count_values())(x, logit.softmax(1)).sum(), logit)
    expected = 2 * (x.sum(1, keepdim=True) * logit.softmax(1) - x)
    torch.testing.assert_close(slope, expected.detach(), rtol=1e-9, atol=1e-9)
