"""ARM and DisARM against the exact gradient: all 2^n gate patterns enumerated, at a fixed seed.

Tolerance: four standard errors of the estimate, each gate on its own. With 6 gates and 2 estimators a fair
estimator breaks that in one seed of about 1,300, and the seed is fixed.
"""

import itertools
from typing import get_args, get_type_hints

import pytest
import torch

from narrows.gates.l0 import ESTIMATORS, Estimator, GatePair, L0Gates, draw_uniform
from narrows.training.config import TrainConfig

DRAWS = 200_000
N = 6
K = 7.0


def loss(gates: torch.Tensor) -> torch.Tensor:
    """A loss with interactions of every pair and a kink: gradients of one gate depend on all others."""
    weight = torch.linspace(-1.5, 2.0, N, dtype=gates.dtype)
    pairs = torch.sin(torch.arange(N * N, dtype=gates.dtype)).view(N, N)
    linear = gates @ weight
    return (linear - 1).square() + ((gates @ pairs) * gates).sum(-1) + linear.abs().sqrt()


def make_gates(logits: list[float]) -> L0Gates:
    gates = L0Gates(len(logits)).double()
    gates.logits.data = torch.tensor(logits, dtype=torch.float64)
    return gates


def exact_gradient(gates: L0Gates) -> torch.Tensor:
    """d/dgamma of the expectation of the loss, by autograd through the probability of each of the 2^n patterns."""
    patterns = torch.tensor(list(itertools.product((0.0, 1.0), repeat=N)), dtype=torch.float64)
    pi = gates.probability()
    probability = torch.where(patterns == 1, pi, 1 - pi).prod(1)
    (gradient,) = torch.autograd.grad((probability * loss(patterns)).sum(), gates.logits)
    return gradient


def estimate_rows(gates: L0Gates, estimator: str, generator: torch.Generator) -> torch.Tensor:
    """DRAWS estimates, (DRAWS, n). `gradient` averages over a batch; with a batch of one it is a single estimate,
    and `vmap` runs it on every draw."""
    pair = gates.pair(draw_uniform(DRAWS, gates.n, generator, torch.float64))
    difference = loss(pair.first) - loss(pair.second)

    def one(difference: torch.Tensor, u: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        row = GatePair(u[None], first[None], second[None])
        return gates.gradient(difference[None], row, estimator)

    return torch.vmap(one)(difference, *pair)


def test_estimator_names_are_those_of_the_settings():
    assert tuple(ESTIMATORS) == get_args(Estimator) == get_args(get_type_hints(TrainConfig)["estimator"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "logits",
    [
        pytest.param([0.42] * N, id="start"),
        pytest.param([-0.3, -0.1, 0.0, 0.1, 0.25, 0.6], id="mixed"),
    ],
)
def test_the_estimate_is_unbiased(estimator, logits, generator):
    gates = make_gates(logits)
    exact = exact_gradient(gates)
    rows = estimate_rows(gates, estimator, generator)
    mean, standard_error = rows.mean(0), rows.std(0) / DRAWS**0.5
    assert (exact.abs() > 10 * standard_error).any(), "the test would pass for a zero gradient"
    assert ((mean - exact).abs() <= 4 * standard_error).all()


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_disarm_has_less_variance_than_arm(p, generator):
    logit = torch.logit(torch.tensor(p)).item() / K
    gates = make_gates([logit] * N)
    arm = estimate_rows(gates, "arm", generator)
    disarm = estimate_rows(gates, "disarm", generator)
    assert (disarm.var(0) < arm.var(0)).all()


def test_the_surrogate_carries_the_estimate_and_no_value(generator):
    gates = make_gates([0.1] * N)
    wanted = torch.randn(N, generator=generator, dtype=torch.float64)
    term = gates.surrogate(wanted)
    assert term.item() == 0
    term.backward()
    torch.testing.assert_close(gates.logits.grad, wanted, rtol=0, atol=0)


def test_each_vector_of_the_pair_opens_with_probability_pi(generator):
    gates = make_gates([-0.4, -0.1, 0.0, 0.1, 0.42, 0.7])
    pi = gates.probability().detach()
    pair = gates.pair(draw_uniform(DRAWS, N, generator, torch.float64))
    standard_error = (pi * (1 - pi) / DRAWS).sqrt()
    for vector in (pair.first, pair.second):
        assert ((vector.mean(0) - pi).abs() <= 4 * standard_error).all()


def test_a_shared_u_gives_the_same_gradient_in_expectation(generator):
    """One u for a batch of identical examples equals one example's estimate."""
    gates = make_gates([0.2] * N)
    pair = gates.pair(draw_uniform(1, N, generator, torch.float64))
    difference = loss(pair.first) - loss(pair.second)
    torch.testing.assert_close(
        gates.gradient(difference.expand(64), pair, "disarm"), gates.gradient(difference, pair, "disarm")
    )
