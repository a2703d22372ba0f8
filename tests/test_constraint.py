"""GECO against problems whose answers are known, and its multiplier at its bounds."""

import pytest
import torch

from narrows.constraint import Geco, GecoConfig, SteeredBound, inverse_multiplier


def ascend(geco: Geco, learning_rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(geco.parameters(), lr=learning_rate, maximize=True)


def solve(geco: Geco, target: torch.Tensor, errors) -> torch.Tensor:
    """Minimise 1/2 |x - target|^2 under the bounds on errors(x); return x."""
    x = torch.zeros(2, requires_grad=True)
    down, up = torch.optim.Adam([x], lr=1e-2), ascend(geco, 1e-2)
    for step in range(6_000):
        if step == 4_000:  # Adam circles the saddle at its step size; a smaller step lets it settle
            for group in (*down.param_groups, *up.param_groups):
                group["lr"] = 1e-3
        loss = 0.5 * (x - target).square().sum() + geco(errors(x)).loss
        down.zero_grad()
        up.zero_grad()
        loss.backward()
        down.step()
        up.step()
        geco.project()
    return x.detach()


@pytest.mark.parametrize("relative_scale", [None, 4.0], ids=["plain", "relative"])
def test_it_reaches_the_optimum_and_the_true_multiplier(relative_scale):
    """Under |x|^2 <= tau: x = a sqrt(tau) / |a| and lambda' = (|a| / sqrt(tau) - 1) / 2.

    The relative constraint, 4 (E - tau) / tau, is the plain one at tau = 4, so the multiplier is the same.
    """
    a = torch.tensor([3.0, 4.0])
    geco = Geco(4.0, GecoConfig(decay=0.9, relative_scale=relative_scale))
    x = solve(geco, a, lambda x: x.square().sum()[None])
    torch.testing.assert_close(x, a * 0.4, atol=5e-3, rtol=0)
    torch.testing.assert_close(geco.multiplier().detach(), torch.tensor([0.75]), atol=5e-3, rtol=0)


def test_two_bounds_at_once_each_get_their_multiplier():
    """Under x0^2 <= 1 and x1^2 <= 100 only the first binds, with lambda' = 1."""
    geco = Geco([1.0, 100.0], GecoConfig(decay=0.9))
    x = solve(geco, torch.tensor([3.0, 4.0]), lambda x: x.square()[None])
    torch.testing.assert_close(x, torch.tensor([1.0, 4.0]), atol=1e-2, rtol=0)
    binding, idle = geco.multiplier().tolist()
    assert binding == pytest.approx(1.0, abs=1e-2)
    assert idle < 5e-3  # on its way down, ever slower: softplus squared flattens out


@pytest.mark.parametrize(("bound", "error", "rises"), [(5.0, 0.0, False), (1e-5, 100.0, True)])
def test_the_multiplier_leaves_its_bound_when_the_violation_changes_sign(bound, error, rises):
    """With a clipped multiplier (decision D4) the gradient at the bound is zero and it never comes back."""
    geco = Geco(10.0)
    up = ascend(geco, 1e-2)
    with torch.no_grad():
        geco.raw.fill_(-100.0 if rises else 100.0)  # far outside, as a long violation would push it
    geco.project()
    assert geco.multiplier().item() == pytest.approx(bound, rel=1e-4)
    for _ in range(50):
        up.zero_grad()
        geco(torch.full((8,), error)).loss.backward()
        up.step()
        geco.project()
    moved = geco.multiplier().item()
    assert moved > 1.5 * bound if rises else moved < 0.9 * bound


def test_the_average_starts_at_the_first_batch_and_then_moves_slowly():
    geco = Geco(10.0, GecoConfig(decay=0.99))
    geco(torch.tensor([14.0, 16.0]))
    assert geco.average.item() == pytest.approx(5.0)
    geco(torch.tensor([5.0]))
    assert geco.average.item() == pytest.approx(0.99 * 5 + 0.01 * -5)


def test_the_loss_has_the_averages_value_and_the_batchs_gradient():
    geco = Geco(10.0)
    geco(torch.tensor([30.0]))
    error = torch.tensor([12.0, 16.0], requires_grad=True)
    term = geco(error)
    assert term.loss.item() == pytest.approx(geco.multiplier().item() * geco.average.item())
    term.loss.backward()
    torch.testing.assert_close(error.grad, geco.multiplier().detach().expand(2) / 2)
    torch.testing.assert_close(term.violation.detach(), torch.tensor([[2.0], [6.0]]))


def test_looking_without_training_changes_nothing():
    geco = Geco(10.0).eval()
    geco(torch.tensor([30.0]))
    assert not geco.started


def test_its_state_is_in_the_state_dict():
    geco = Geco(10.0)
    geco(torch.tensor([30.0]))
    with torch.no_grad():
        geco.raw.fill_(0.3)
    other = Geco(1.0)
    other.load_state_dict(geco.state_dict())
    error = torch.tensor([17.0])
    assert other(error).loss.item() == geco(error).loss.item()


@pytest.mark.parametrize("value", [1e-5, 0.75, 5.0])
def test_inverse_multiplier_is_the_inverse(value):
    raw = torch.tensor(inverse_multiplier(value), dtype=torch.float64)
    assert torch.nn.functional.softplus(raw).square().item() == pytest.approx(value, rel=1e-9)


def test_a_steered_multiplier_is_placed_where_the_posteriors_noise_makes_that_error():
    """tau / (2 lambda) each, and never above where it started."""
    bound = SteeredBound([10.0, 20.0, 20.0], start=60.0)
    bound.expect(torch.tensor([1.0, 5.0, 0.1]))
    torch.testing.assert_close(bound.multiplier(), torch.tensor([5.0, 2.0, 60.0]))
