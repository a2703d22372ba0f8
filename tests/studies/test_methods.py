"""The rivals of studies/comparison.py on small problems whose answers are known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from methods import METHODS, ard, bisection, fit, fondue, irmae, nested, pca
from methods.latent import folded, principal
from methods.problem import Problem, codes_of, make_problem, smallest

from narrows.data import from_array
from narrows.data.synthetic import curved_manifold
from narrows.model.vae import VAE
from narrows.training.validation import per_input

D, VALUES = 3, 12


def low_rank(rows: int = 6_000, noise: float = 0.05) -> np.ndarray:
    """Points on a D-dimensional linear subspace of R^12, its directions with the same variance, and a little noise."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(VALUES, D)))[0]
    return (rng.normal(size=(rows, D)) @ basis.T + noise * rng.normal(size=(rows, VALUES))).astype(np.float32)


def problem_of(x: np.ndarray, tau: float, n: int = 8, width: int = 4, limit: int = 3_000) -> Problem:
    return make_problem(from_array(x, "any"), n, 0, tau, limit=limit, width=width)


@pytest.fixture(scope="module")
def linear() -> Problem:
    return problem_of(low_rank(), tau=0.2)


def mean_error(problem: Problem, model: VAE, part: str = "validation") -> float:
    return float(per_input(model, problem.examples, getattr(problem.plan.splits, part))[0].mean())


def test_bisection_over_sizes_finds_the_smallest_and_does_not_try_the_widest() -> None:
    for right in range(1, 33):
        tried: list[int] = []
        assert smallest(32, lambda k: tried.append(k) or k >= right) == right  # noqa: B023
        assert len(tried) <= 5
        assert 32 not in tried


@pytest.mark.parametrize("tau", [0.15, 1.2, 2.5])
def test_pca_is_as_small_as_its_bound_allows(linear: Problem, tau: float) -> None:
    problem = problem_of(low_rank(), tau)
    answer = pca.run(problem, "")
    mean, directions = pca.components(problem.examples, problem.plan.splits.train)
    x = problem.examples.batch(problem.plan.splits.validation).double().numpy()
    errors = pca.errors_of_first(x, mean, directions)
    k = answer.model.n
    assert errors[:, k].mean() <= problem.target(errors[:, k])
    assert all(errors[:, j].mean() > problem.target(errors[:, j]) for j in range(1, k))
    assert answer.batches == 0
    # The model decodes what the formula says, and a size is what it should be: D with a tau above the noise.
    np.testing.assert_allclose(mean_error(problem, answer.model), errors[:, k].mean(), rtol=1e-3)
    assert k == {0.15: D, 1.2: 2, 2.5: 1}[tau]


def test_pca_of_few_rows_is_that_of_the_covariance() -> None:
    x = np.random.default_rng(1).normal(size=(40, 60)) * np.linspace(3, 0.1, 60)
    _, directions = pca.components(from_array(x.astype(np.float32), "any").examples, np.arange(40))
    vectors = np.linalg.eigh(np.cov(x.astype(np.float32).astype(float).T))[1]
    for j in range(5):
        assert abs(directions[:, j] @ vectors[:, -1 - j]) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(directions.T @ directions, np.eye(directions.shape[1]), atol=1e-8)


def test_folding_a_linear_map_into_a_model_changes_nothing_but_the_codes(linear: Problem) -> None:
    model = linear.model(8)
    model.gates.open(list(range(8)))
    model.eval()
    rng = torch.Generator().manual_seed(0)
    mix = torch.randn(8, 8, generator=rng)
    shift, x = torch.randn(8, generator=rng), linear.examples.batch(np.arange(20))
    new = folded(model, mix, shift, mix.inverse(), -mix.inverse() @ shift)
    with torch.no_grad():
        old_mean, new_mean = model.encode(x).mean, new.encode(x).mean
        torch.testing.assert_close(new_mean, old_mean @ mix.T + shift, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(new.decode(new_mean), model.decode(old_mean), rtol=1e-3, atol=1e-3)
        assert new.encode(x).log_std.max() < -7.99


def test_principal_codes_are_uncorrelated_and_sorted(linear: Problem) -> None:
    model = linear.model(8).eval()
    mix = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    index = linear.plan.splits.train
    codes = codes_of(model, linear, index) @ mix.T.double()
    covariance = np.cov(codes_of(principal(model, codes, mix, 4), linear, index).numpy().T)
    variances = np.diag(covariance)
    assert (np.diff(variances) < 0).all()
    np.testing.assert_allclose(covariance, np.diag(variances), atol=1e-3 * variances.max())


def test_the_relevant_dimensions_are_the_fewest_with_the_share() -> None:
    relevance = torch.tensor([0.2, 50.0, 0.1, 49.7])
    assert ard.relevant(relevance, 0.99) == [1, 3]
    assert ard.relevant(relevance, 0.5) == [1]
    assert sorted(ard.relevant(relevance, 1.0)) == [0, 1, 2, 3]


def test_relevance_is_the_variance_times_the_squared_derivative(linear: Problem) -> None:
    """A linear decoder has the same derivative everywhere, so the score is known exactly."""
    rival = ard.ARD(linear.model(8), linear, 1.0)
    weight = torch.randn(VALUES, 8, generator=torch.Generator().manual_seed(2))
    rival.model.decode = lambda z, *_: z @ weight.T  # type: ignore[method-assign]
    rival.variance.copy_(torch.linspace(0.1, 2, 8))
    found = rival.relevance(linear.examples.batch(np.arange(50)))
    torch.testing.assert_close(found, rival.variance * weight.square().sum(0), rtol=1e-3, atol=1e-4)


def test_ard_makes_noise_irrelevant(linear: Problem) -> None:
    """Of 8 dimensions, those that the subspace does not need decode to nothing."""
    rival = ard.ARD(linear.model(8), linear, 2 * 0.05**2)
    fit.fit(rival, linear, 1_500)
    relevance = rival.relevance(linear.examples.batch(linear.plan.splits.train[:256]))
    share = relevance.sort(descending=True).values / relevance.sum()
    assert share[D:].sum() < 0.01
    assert share[D - 1] > 0.1
    assert len(ard.relevant(relevance)) == D


def test_ards_prior_has_the_variance_of_the_codes(linear: Problem) -> None:
    rival = ard.ARD(linear.model(8), linear, 1.0)
    rival.update()
    with torch.no_grad():
        posterior = rival.model.encode(linear.examples.batch(linear.plan.splits.train))
    expected = (posterior.mean.square() + (2 * posterior.log_std).exp()).mean(0)
    torch.testing.assert_close(rival.variance, expected, rtol=0.1, atol=1e-3)


def test_irmae_finds_the_rank_of_low_rank_data(linear: Problem) -> None:
    answer = irmae.run(replace(linear, limit=1_200), "4")
    assert answer.model.n == D
    assert mean_error(linear, answer.model, "test") < linear.tau


def test_the_more_linear_layers_the_lower_the_rank_of_the_codes() -> None:
    """Of the variance of the codes, less is outside of the D directions that the data need."""
    problem = problem_of(low_rank(noise=0.3), tau=1.0)
    outside = []
    for count in (0, 4):
        rival = irmae.IRMAE(problem.model(8), problem, count)
        fit.fit(rival, problem, 600)
        with torch.no_grad():
            codes = rival.layers(codes_of(rival.model, problem, problem.plan.splits.train).float())
        values = torch.linalg.eigvalsh(torch.cov(codes.T)).flip(0)
        outside.append(float(values[D:].sum() / values.sum()))
    assert outside[1] < 0.5 * outside[0]


def test_nested_dropout_orders_codes_by_worth(linear: Problem) -> None:
    rival = nested.Nested(linear.model(8), linear, None)
    fit.fit(rival, linear, 1_000)
    codes = codes_of(rival.model, linear, linear.plan.splits.train)
    errors = [mean_error(linear, nested.first(rival.model, codes, k)) for k in range(1, 9)]
    assert all(after < before for before, after in pairwise(errors[:D]))
    assert max(errors[D - 1 :]) < 1.2 * min(errors[D - 1 :])
    assert errors[D - 1] < linear.tau < errors[D - 2]


def test_truncations_have_the_distribution_they_say(linear: Problem) -> None:
    generator = torch.Generator().manual_seed(0)
    uniform = nested.Nested(linear.model(8), linear, None).sizes(80_000, generator)
    assert torch.bincount(uniform.long(), minlength=9)[1:].div(80_000).sub(1 / 8).abs().max() < 0.005
    geometric = nested.Nested(linear.model(8), linear, 0.3).sizes(80_000, generator)
    shares = torch.bincount(geometric.long(), minlength=9)[1:] / 80_000
    expected = torch.tensor([0.3 * 0.7**j for j in range(7)] + [0.7**7])
    torch.testing.assert_close(shares, expected, rtol=0, atol=0.006)


def test_bisection_finds_the_dimension_of_a_manifold() -> None:
    x = curved_manifold(3_000, d=2, ambient=10, seed=0)
    problem = problem_of(x, tau=float(0.06 * x.var(0).sum()), n=4, limit=2_500)
    answer = bisection.run(problem, "500")
    assert answer.model.n == 2
    assert problem.expected(answer.model) <= problem.tau
    assert answer.batches > 2_500  # one dimension failed within the limit, and two had a last phase


def test_a_size_without_a_chance_is_given_up_by_forecast(linear: Problem) -> None:
    attempt = bisection.Attempt(linear, D - 1, 500)
    assert not attempt.search(10_000)
    assert 2_000 <= attempt.spent < 3_000


def test_a_search_ends_at_its_limit(linear: Problem) -> None:
    problem = problem_of(low_rank(), tau=1e-6, limit=120)
    for name in ("bisection", "fondue", "ard", "irmae", "nested"):
        method = METHODS[name]
        answer = method.run(problem, method.setting(""))
        assert 1 <= answer.model.n <= 8
        assert answer.batches <= 121, name


def test_fondues_estimator_knows_the_dimension_of_a_subspace() -> None:
    points = np.random.default_rng(0).uniform(size=(3_000, 3)) @ np.random.default_rng(1).normal(size=(3, 10))
    assert fondue.intrinsic(points) == pytest.approx(3, abs=0.4)
    assert fondue.intrinsic(np.repeat(points, 2, axis=0)) == fondue.intrinsic(points)  # copies say nothing


def test_fondue_takes_the_largest_size_without_an_excess(linear: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    for right in range(1, 9):
        monkeypatch.setattr(fondue, "excess", lambda p, n, limit, right=right: (100.0 * (n > right), 1))
        assert fondue.search(linear, 0.2)[0] == right


def test_every_method_aims_below_tau_by_what_the_certificate_needs(linear: Problem) -> None:
    errors = np.random.default_rng(0).exponential(0.1, len(linear.plan.splits.validation))
    margin = linear.plan.terms.margin(errors.std(), *linear.plan.split_sizes, 1.0, 0.0)
    assert linear.tau * 0.79 < linear.target(errors) < linear.tau - 0.9 * margin
    assert linear.target(np.full(100, 0.1)) == pytest.approx(linear.tau)
