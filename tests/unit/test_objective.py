"""The loss terms against torch.distributions and by hand."""

import torch
from torch.distributions import Normal, kl_divergence

from narrows.objective import gated_kl, kl_elements, squared_error


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
