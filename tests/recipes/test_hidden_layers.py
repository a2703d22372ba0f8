"""Algorithm 1 for gates on hidden layers: its gradient against the exact one, and BatchNorm's running averages."""

import pytest
import torch
from torch import nn

from narrows._util.errors import NarrowsError
from narrows.constraint import Geco
from narrows.gates.l0 import draw_uniform
from narrows.gates.layer import gate, gates_in
from narrows.recipes.hidden_layers import HiddenNarrowing


def squares(network, x):
    return network(x).square().sum(1)


def small(hit=True) -> tuple[HiddenNarrowing, torch.Tensor]:
    torch.manual_seed(5)
    network = nn.Sequential(gate(nn.Linear(4, 3)), nn.ReLU(), gate(nn.Linear(3, 2)), nn.Linear(2, 2)).double()
    for place in gates_in(network):
        with torch.no_grad():
            place.gates.logits.uniform_(-0.3, 0.3)
    objective = HiddenNarrowing(network, Geco(0.3).double(), squares)
    objective.hit.fill_(hit)
    return objective, torch.randn(8, 4, dtype=torch.float64)


def test_the_gradient_is_that_of_the_expected_error():
    """Against the sum over all 32 gate vectors; 20,000 u, 5 standard errors."""
    objective, x = small()
    objective.constraint.eval()
    multiplier = objective.constraint.multiplier().detach()
    logits = [place.gates.logits for place in objective.places]

    expected = torch.zeros((), dtype=torch.float64)
    pi = torch.cat([place.gates.probability() for place in objective.places])
    for number in range(2**5):
        bits = torch.tensor([number >> i & 1 for i in range(5)], dtype=torch.float64)
        error = objective._errors((x,), [bits[None, :3], bits[None, 3:]]).detach().mean()
        expected = expected + (bits * pi + (1 - bits) * (1 - pi)).prod() * error
    exact = torch.cat(torch.autograd.grad(expected * multiplier[0], logits))

    generator = torch.Generator().manual_seed(1)
    estimates = []
    for _ in range(2_500):
        u = draw_uniform(8, 5, generator, torch.float64)
        loss, record = objective((x,), u)
        with_price = torch.cat(torch.autograd.grad(loss, logits))
        steep = torch.cat([place.gates.steepness * place.gates.probability() for place in objective.places])
        price = record.hits * steep * (1 - torch.cat([place.gates.probability() for place in objective.places]))
        estimates.append((with_price - price).detach())
    stacked = torch.stack(estimates)
    standard_error = stacked.std(0) / len(stacked) ** 0.5
    assert ((stacked.mean(0) - exact).abs() < 5 * standard_error).all()
    assert (exact.abs() > 8 * standard_error).sum() >= 2  # the test can tell a gradient from nothing


def test_before_the_first_hit_all_gates_are_open_and_nothing_pulls_at_them():
    objective, x = small(hit=False)
    objective.constraint.tolerance.fill_(1e-6)
    loss, record = objective((x,), draw_uniform(8, 5, torch.Generator().manual_seed(0), torch.float64))
    loss.backward()
    for place in objective.places:
        assert (place.gates.logits.grad == 0).all()
        place.gates.open(range(place.gates.n))
    torch.testing.assert_close(record.error, squares(objective.model, x).mean())


def test_a_second_pass_is_not_a_second_batch_for_running_averages():
    torch.manual_seed(0)
    network = nn.Sequential(gate(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))), nn.Linear(3, 2))
    once = nn.BatchNorm1d(3)
    objective, x = HiddenNarrowing(network, Geco(100.0), squares), torch.randn(8, 4)
    objective.hit.fill_(True)
    once(network[0][0](x))
    loss, _ = objective((x,), objective.draw(8, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(network[0][1].running_mean, once.running_mean)
    assert network[0][1].num_batches_tracked == 1
    loss.backward()
    assert network[0][1].weight.grad.abs().sum() > 0


def test_network_without_gates_is_refused():
    with pytest.raises(NarrowsError, match="has no gates"):
        HiddenNarrowing(nn.Linear(2, 2), Geco(1.0), squares)
