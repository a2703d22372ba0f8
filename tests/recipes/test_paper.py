"""One step of Algorithm 1 against a literal transcription, in float64, with the same noise."""

import pytest
import torch

from narrows.constraint import Geco, GecoConfig
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.base import Noise
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise

CONV = NetworkConfig("conv", (1, 28, 28), n=5, width=4)
MLP = NetworkConfig("mlp", (12,), n=5, width=2, output="linear")
BATCH = 16


def make(network=CONV, tau=100.0, estimator="arm", relative_scale=None, hit=True) -> Narrowing:
    torch.manual_seed(2)
    model = gated_vae(network)
    with torch.no_grad():
        model.gates.logits.copy_(torch.tensor([0.42, 0.1, 0.0, -0.1, 0.3]))
    narrowing = Narrowing(model, Geco(tau, GecoConfig(relative_scale=relative_scale)), estimator).double()
    narrowing.hit.fill_(hit)
    return narrowing


def make_batch(network=CONV, seed=0, batch=BATCH) -> tuple[torch.Tensor, Noise]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, *network.shape, generator=generator, dtype=torch.float64)
    return x, Noise(*(t.double() for t in draw_noise(batch, network.n, generator)))


def literal_step(narrowing: Narrowing, x: torch.Tensor, noise: Noise) -> torch.Tensor:
    """Algorithm 1 read from the page, one example at a time where the paper has one example (hit, ARM, plain C).

    Only decision D10 needs our decoder: both passes use the first pass's statistics. Returns the loss; the ARM term
    is added to gamma's gradient by hand, as line 26 says.
    """
    model, constraint = narrowing.model, narrowing.constraint
    gates = model.gates
    k, gamma = gates.steepness, gates.logits
    nu1 = (noise.u > torch.sigmoid(-k * gamma)).double()
    nu2 = (noise.u < torch.sigmoid(k * gamma)).double()
    mu, log_sigma = model.encode(x)
    z = mu + torch.exp(log_sigma) * noise.eps
    statistics = []
    x2 = model.decode(z, nu2, record=statistics)
    with torch.no_grad():
        x1 = model.decode(z, nu1, reuse=statistics)
    tau = constraint.tolerance.item()
    multiplier = torch.nn.functional.softplus(constraint.raw) ** 2
    losses, arm = [], torch.zeros_like(gamma)
    e2 = torch.stack([((x2[i] - x[i]) ** 2).sum() for i in range(len(x))])
    average = (e2 - tau).mean().detach()  # the first batch sets the moving average
    for i in range(len(x)):
        e1 = ((x1[i] - x[i]) ** 2).sum()
        c = e2[i] - tau
        kl = -0.5 * (1 + 2 * log_sigma[i] - torch.exp(2 * log_sigma[i]) - mu[i] ** 2)
        loss = multiplier * (c + (average - c).detach()) + (kl * nu2[i]).sum() / max(nu2[i].sum().item(), 1.0)
        if c <= 0:
            loss = loss + torch.sigmoid(k * gamma).sum()
        losses.append(loss)
        arm += multiplier.detach() * k * (e1 - e2[i].detach()) * (noise.u[i] - 0.5) / len(x)
    total = torch.stack(losses).mean()
    total.backward()
    gamma.grad += arm
    return total


def test_the_step_is_algorithm_1():
    """Same loss and same gradients of every parameter, although ours decodes again only where the gates differ."""
    ours, theirs = make(tau=81.0), make(tau=81.0)
    x, noise = make_batch()
    loss, record = ours(x, noise)
    loss.backward()
    expected = literal_step(theirs, x, noise)
    assert 0 < record.hits < 1, "the batch should have examples on both sides of tau"
    assert record.loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}")


def test_before_the_first_hit_all_gates_are_open_and_get_no_gradient():
    narrowing = make(tau=1e-3, hit=False)
    x, noise = make_batch()
    loss, _ = narrowing(x, noise)
    loss.backward()
    assert not narrowing.hit
    assert torch.equal(narrowing.model.gates.logits.grad, torch.zeros(5).double())
    again, _ = make(tau=1e-3, hit=False)(x, Noise(noise.eps, 1 - noise.u))
    assert again.item() == loss.item()


def test_the_first_hit_is_remembered():
    narrowing = make(tau=1e6, hit=False)
    x, noise = make_batch()
    loss, record = narrowing(x, noise)
    loss.backward()
    assert narrowing.hit
    assert record.hits == 1
    assert (narrowing.model.gates.logits.grad > 0).all(), "the L0 term closes gates from the first hit on"
    narrowing.constraint.tolerance.fill_(1e-3)
    narrowing(x, noise)
    assert narrowing.hit


def test_the_gradient_of_the_gates_does_not_depend_on_the_unit_when_relative():
    """Errors and tau in a unit a thousand times smaller: the same gradients (decision D12)."""
    gradients = []
    for unit in (1.0, 1000.0):
        narrowing = make(MLP, tau=4.0 * unit**2, relative_scale=20.0)
        narrowing.model.scaling.fit(torch.zeros(12).double(), torch.tensor(unit).double())
        x, noise = make_batch(MLP)
        loss, _ = narrowing(x * unit, noise)
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in narrowing.parameters()]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)


def test_all_gates_closed_is_finite():
    narrowing = make()
    with torch.no_grad():
        narrowing.model.gates.logits.fill_(-9.0)
    x, noise = make_batch()
    loss, record = narrowing(x, noise)
    loss.backward()
    assert record.kl == 0
    assert all(torch.isfinite(p.grad).all() for p in narrowing.parameters())


def test_one_u_shared_by_the_batch():
    narrowing = make(estimator="disarm")
    x, noise = make_batch()
    shared = Noise(noise.eps, noise.u[:1])
    loss, _ = narrowing(x, shared)
    loss.backward()
    expected = make(estimator="disarm")
    other, _ = expected(x, Noise(noise.eps, noise.u[:1].expand(BATCH, -1)))
    other.backward()
    assert loss.item() == pytest.approx(other.item(), rel=1e-12)
    torch.testing.assert_close(narrowing.model.gates.logits.grad, expected.model.gates.logits.grad)


def test_more_than_one_bound():
    """A second bound, on the absolute error, with its own multiplier: both push."""

    def errors(x, y):
        return torch.stack([(x - y).square().flatten(1).sum(1), (x - y).abs().flatten(1).sum(1)], dim=1)

    one = make(MLP, tau=4.0)
    narrowing = Narrowing(one.model, Geco([4.0, 3.0]).double(), error=errors)
    narrowing.hit.fill_(True)
    x, noise = make_batch(MLP)
    loss, _ = narrowing(x, noise)
    loss.backward()
    assert narrowing.constraint.raw.grad.shape == (2,)
    assert (narrowing.constraint.raw.grad != 0).all()


def test_the_multiplier_ascends_and_everything_else_descends():
    narrowing = make(tau=1e-3).float()
    optimiser = make_optimiser(narrowing)
    x, noise = make_batch()
    before = narrowing.constraint.multiplier().item()
    loss, _ = narrowing(x.float(), Noise(*(t.float() for t in noise)))
    loss.backward()
    optimiser.step()
    assert narrowing.constraint.multiplier().item() > before
