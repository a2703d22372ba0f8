"""Directions by their cost: against the generalised eigenproblem, with linear decoders, where everything is exact."""

import copy
import math

import pytest
import scipy.linalg
import torch
from torch import Tensor, nn

from narrows.model.vae import GatedVAE, Posterior, gated_vae, standard_normal
from narrows.networks import NetworkConfig
from narrows.objective import absolute_error, squared_error
from narrows.recipes.rotation import find_directions, joint_costs, pull_back, settle, with_noise

EXACT = {"rtol": 1e-9, "atol": 1e-9}
N, VALUES, COUNT = 4, 6, 60


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(seed: int = 0) -> GatedVAE:
    """Linear on both sides, with a decoder that reads the dimensions very differently."""
    torch.manual_seed(seed)
    model = GatedVAE(nn.Linear(VALUES, 2 * N), nn.Linear(N, VALUES), N).double().eval()
    with torch.no_grad():
        model.decoder.weight.mul_(torch.tensor([3.0, 0.3, 1.0, 0.1]).double())
    model.encode(random(3, VALUES))
    return model


def posterior_of(count: int = COUNT, seed: int = 5) -> Posterior:
    """Correlated means far from 0, and deviations of many sizes."""
    mean = random(count, N, seed=seed) @ random(N, N, seed=seed + 1) + torch.tensor([3.0, -2.0, 0.5, 0.0]).double()
    return Posterior(mean, 0.4 * random(count, N, seed=seed + 2) - torch.tensor([0.5, 1.0, 2.0, 0.0]).double())


def exact_pull(weight: Tensor, count: int = COUNT) -> Tensor:
    """J'v for v along each output in turn, as often as the others: the mean of (J'v)(J'v)' is J'J exactly."""
    outputs = len(weight)
    assert count % outputs == 0
    return outputs**0.5 * weight[torch.arange(count) % outputs]


def moments_of(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """The mean of z and its covariance, the posterior's variance included."""
    centred = posterior.mean - posterior.mean.mean(0)
    return posterior.mean.mean(0), centred.T @ centred / len(centred) + (2 * posterior.log_std).exp().mean(0).diag()


def sample_of(posterior: Posterior, count: int = 40) -> Tensor:
    """z whose mean and covariance are exactly those of the posterior."""
    mean, covariance = moments_of(posterior)
    noise = random(count, N, seed=8)
    noise -= noise.mean(0)
    white = noise @ torch.linalg.inv(torch.linalg.cholesky(noise.T @ noise / count)).T
    return white @ torch.linalg.cholesky(covariance).T + mean


def eigenvalues_of(weight: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Solve G b = value C^-1 b; largest first."""
    values, vectors = scipy.linalg.eigh((weight.T @ weight).numpy(), covariance.inverse().numpy())
    return torch.tensor(values).flip(0), torch.tensor(vectors).flip(1)


# Directions


def test_directions_are_those_of_the_generalised_eigenproblem():
    model, posterior = linear(), posterior_of()
    weight = model.decoder.weight.detach()
    new = find_directions(model, posterior, exact_pull(weight))
    centre, covariance = moments_of(posterior)
    values, vectors = eigenvalues_of(weight, covariance)
    assert (values.diff() < -1e-3).all()
    signs = (new.backward * vectors).sum(0).sign()
    torch.testing.assert_close(new.backward, vectors * signs, **EXACT)
    torch.testing.assert_close(new.forward, (vectors * signs).inverse(), **EXACT)
    torch.testing.assert_close(new.centre, centre, **EXACT)
    curvature = new.backward.T @ weight.T @ weight @ new.backward
    torch.testing.assert_close(curvature, values.diag(), **EXACT)


def test_new_codes_are_uncorrelated_with_mean_0_and_variance_1():
    model, posterior = linear(), posterior_of()
    new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
    _, covariance = moments_of(posterior)
    torch.testing.assert_close(new.forward @ covariance @ new.forward.T, torch.eye(N).double(), **EXACT)
    y = new.apply(sample_of(posterior))
    torch.testing.assert_close(y.mean(0), torch.zeros(N).double(), **EXACT)
    torch.testing.assert_close(y.T @ y / len(y), torch.eye(N).double(), **EXACT)
    torch.testing.assert_close(new.undo(y), sample_of(posterior), **EXACT)


def test_directions_do_not_depend_on_the_coordinates_they_are_found_in():
    """What is removed is the same: a model in other coordinates gives the same y, up to sign."""
    model, posterior = linear(), posterior_of()
    constant = posterior.log_std.mean(0).expand(COUNT, -1)
    posterior = Posterior(posterior.mean, constant)
    scale = torch.tensor([2.0, 0.1, 30.0, 1.0]).double()
    weight = model.decoder.weight.detach()
    new = find_directions(model, posterior, exact_pull(weight))
    other = Posterior(scale * posterior.mean + 7, posterior.log_std + scale.log())
    again = find_directions(model, other, exact_pull(weight / scale))
    z = sample_of(posterior)
    y, y_again = new.apply(z), again.apply(scale * z + 7)
    torch.testing.assert_close(y_again * (y_again * y).sum(0).sign(), y, rtol=1e-8, atol=1e-8)


def test_closed_gates_stay_untouched():
    model, posterior = linear(), posterior_of()
    model.gates.close([1])
    weight = model.decoder.weight.detach()
    new = find_directions(model, posterior, exact_pull(weight))
    kept = [0, 2, 3]
    values, vectors = eigenvalues_of(weight[:, kept], moments_of(posterior)[1][kept][:, kept])
    inside = new.backward[kept][:, kept]
    torch.testing.assert_close(inside, vectors * (inside * vectors).sum(0).sign(), **EXACT)
    for part in (new.forward, new.backward, new.log_std_mix):
        assert torch.equal(part[1], torch.eye(N).double()[1])
        assert torch.equal(part[:, 1], torch.eye(N).double()[1])
    assert new.centre[1] == new.log_std_shift[1] == 0
    assert (values.diff() < 0).all()


def test_settled_codes_are_uncorrelated_with_mean_0_and_variance_1_and_decode_the_same():
    model, x = linear(), random(COUNT, VALUES, seed=3)
    with torch.no_grad():
        model.encoder.weight[:N] += 0.5 * model.encoder.weight[0]  # correlated codes
    model.gates.close([1])
    before = model.encode(x)
    decoded = model.decode(before.mean)
    many = Posterior(*(part.repeat(20_000, 1) for part in before))  # so many that correlations are taken as they are
    model.latent_layer.change(settle(model, many))
    after = model.encode(x)
    torch.testing.assert_close(model.decode(after.mean), decoded, **EXACT)
    assert torch.equal(after.mean[:, 1], before.mean[:, 1])
    kept = [0, 2, 3]
    codes = after.mean[:, kept]
    torch.testing.assert_close(codes.mean(0), torch.zeros(3).double(), **EXACT)
    correlation = torch.corrcoef(codes.T) - torch.eye(3)
    assert correlation.abs().max() < 1e-4
    assert (torch.corrcoef(before.mean[:, kept].T) - torch.eye(3)).abs().max() > 0.3
    variance = (codes.square().mean(0) + (2 * after.log_std[:, kept]).exp().mean(0)).double()
    torch.testing.assert_close(variance, torch.ones(3).double(), rtol=2e-2, atol=0)  # the bound of log_std bends it


def test_the_most_precise_dimension_keeps_its_direction_when_codes_settle():
    """So no dimension gets the noise of one that is noisier than itself."""
    model, posterior = linear(), posterior_of()
    posterior.mean[:, 3] += posterior.mean[:, 0]
    posterior.log_std[:] = torch.tensor([-1.0, -3.0, -2.0, -5.0]).double()
    new = settle(model, posterior)
    order = [3, 1, 2, 0]
    assert torch.equal(new.backward[order][:, order].triu(1), torch.zeros(N, N).double())
    torch.testing.assert_close(new.forward @ new.backward, torch.eye(N).double(), **EXACT)
    assert torch.equal(new.log_std_mix, torch.eye(N).double())


def test_with_few_examples_correlations_shrink_and_nothing_blows_up():
    model, posterior = linear(), posterior_of()
    few = Posterior(*(part[:3] for part in posterior))  # fewer than dimensions: perfectly correlated by chance
    new = settle(model, few)
    assert new.backward.abs().max() < 5
    assert new.forward.abs().max() < 5


@pytest.mark.parametrize("noise", [0.25, 1.0, 9.0])
def test_the_noise_of_settled_codes_takes_its_factor(noise):
    """As `with_noise` says beforehand; settled codes need no further turn, so nothing else changes."""
    model, x, eps = linear(), random(COUNT, VALUES, seed=3), random(COUNT, N, seed=4)
    for _ in range(2):
        model.latent_layer.change(settle(model, model.encode(x)))
    before, decoded = model.encode(x), model.reconstruct(x)
    change = (with_noise(before, noise).log_std - before.log_std).mean(0)
    torch.testing.assert_close(change, torch.full((N,), 0.5 * math.log(noise)).double(), rtol=0, atol=2e-2)
    expected = model.decode(with_noise(before, noise).draw(eps)) - decoded
    model.latent_layer.change(settle(model, before, noise))
    noisy = model.decode(model.encode(x).draw(eps)) - decoded
    assert noisy.square().mean().item() == pytest.approx(expected.square().mean().item(), rel=0.03)


def test_no_noise_at_all_is_the_mean():
    posterior = posterior_of()
    assert torch.equal(with_noise(posterior, 0.0).draw(random(COUNT, N, seed=4)), posterior.mean)


def test_a_dimension_that_never_moves_is_settled_to_something_finite():
    model, posterior = linear(), posterior_of()
    posterior.mean[:, 2], posterior.log_std[:, 2] = 1.0, -7.9
    new = settle(model, posterior)
    assert all(torch.isfinite(part).all() for part in vars(new).values())


def test_with_all_gates_closed_nothing_changes():
    model, posterior = linear(), posterior_of()
    model.gates.close(range(N))
    assert torch.equal(settle(model, posterior, 2.0).forward, torch.eye(N).double())
    new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
    z = random(5, N)
    assert torch.equal(new.apply(z), z)
    assert list(joint_costs(model, new, z, model.decode(z), squared_error)) == []


def test_a_dimension_that_says_nothing_gives_finite_directions():
    """It never moves and has hardly any deviation: rounding must not become a direction of its own."""
    model, posterior = linear(), posterior_of()
    posterior.mean[:, 2] = 1.0
    posterior.log_std[:, 2] = -7.9
    pulled = exact_pull(model.decoder.weight.detach())
    new = find_directions(model, posterior, pulled)
    assert all(torch.isfinite(part).all() for part in vars(new).values())
    z = posterior.mean
    torch.testing.assert_close(new.undo(new.apply(z)), z, rtol=1e-6, atol=1e-6)
    pulled[:] = 0  # nothing is read at all
    assert all(torch.isfinite(part).all() for part in vars(find_directions(model, posterior, pulled)).values())


def test_without_a_bias_that_takes_the_centre_back_it_stays():
    torch.manual_seed(0)
    model = GatedVAE(nn.Linear(VALUES, 2 * N), nn.Linear(N, VALUES, bias=False), N).double().eval()
    model.encode(random(3, VALUES))
    posterior = posterior_of()
    new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
    assert torch.equal(new.centre, torch.zeros(N).double())
    torch.testing.assert_close(new.forward @ moments_of(posterior)[1] @ new.forward.T, torch.eye(N).double(), **EXACT)


# Deviations


def test_deviations_that_do_not_depend_on_x_become_those_of_the_turned_posterior():
    """Var(A eps)_k = sum over j of A_kj^2 sigma_j^2; only their correlations are dropped."""
    model = linear()
    with torch.no_grad():
        model.encoder.weight[N:].zero_()
        model.encoder.bias[N:].copy_(torch.tensor([-1.0, 0.5, -2.0, 0.0]))
    x = 2 + 3 * random(COUNT, VALUES, seed=3)
    with torch.no_grad():
        posterior = model.encode(x)
        new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
        model.latent_layer.change(new)
        after = model.encode(x)
    expected = (new.forward.square() @ (2 * posterior.log_std).exp().T).T
    torch.testing.assert_close((2 * after.log_std).exp(), expected, **EXACT)


def test_deviations_keep_their_mean_log():
    """... of the turned posterior, before the bound on log sigma bends it; each row of the mix is a mean."""
    model = linear()
    x = 0.5 * random(COUNT, VALUES, seed=3)
    with torch.no_grad():
        posterior = model.encode(x)
        new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
        model.latent_layer.change(new)
        after = model.encode(x)
    torch.testing.assert_close(new.log_std_mix.sum(1), torch.ones(N).double(), **EXACT)
    assert (new.log_std_mix >= 0).all()
    wanted = 0.5 * (new.forward.square() @ (2 * posterior.log_std).exp().T).log().mean(1)
    unbounded = (8 * torch.atanh(after.log_std / 8)).mean(0)
    torch.testing.assert_close(unbounded, 8 * torch.atanh(wanted / 8), **EXACT)
    torch.testing.assert_close(after.log_std.mean(0), wanted, rtol=0, atol=0.01)


# The vectors J'v


def bent(seed: int = 0) -> GatedVAE:
    torch.manual_seed(seed)
    return gated_vae(NetworkConfig("mlp", (VALUES,), n=N, width=1, output="linear")).double().eval()


def test_pulled_vectors_are_the_transposed_jacobian_times_v():
    model, z, v = bent(), random(5, N), random(5, VALUES, seed=1)
    pulled = pull_back(model, z, torch.zeros(5, VALUES), squared_error, lambda like: v.to(like))
    for row in range(5):
        jacobian = torch.autograd.functional.jacobian(lambda one: model.decode(one[None])[0], z[row])
        torch.testing.assert_close(pulled[row], jacobian.T @ v[row], **EXACT)
    assert not z.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_pulled_vectors_give_the_mean_of_the_squared_jacobian():
    """20,000 of them, within 5 standard errors."""
    model = linear()
    generator = torch.Generator().manual_seed(4)
    z = random(20_000, N)
    pulled = pull_back(
        model, z, torch.zeros(len(z), VALUES), squared_error, lambda like: standard_normal(like, generator)
    )
    products = pulled[:, :, None] * pulled[:, None]
    weight = model.decoder.weight.detach()
    deviation = (products.mean(0) - weight.T @ weight) / (products.std(0) / len(z) ** 0.5)
    assert deviation.abs().max() < 5


def test_a_decoder_that_returns_no_tensor_still_gives_directions():
    """The gradient of the error takes the place of J'v."""

    class Uncertain(nn.Linear):
        def forward(self, z):
            mean, log_std = super().forward(z).chunk(2, dim=1)
            return torch.distributions.Normal(mean, log_std.exp())

    def unlikely(x, y):
        return -y.log_prob(x).sum(1)

    torch.manual_seed(0)
    model = GatedVAE(nn.Linear(VALUES, 2 * N), Uncertain(N, 2 * VALUES), N).double().eval()
    x = random(COUNT, VALUES)
    with torch.no_grad():
        posterior = model.encode(x)
    z = posterior.draw(random(COUNT, N, seed=2))
    pulled = pull_back(model, z, x, unlikely, lambda like: pytest.fail("no v is needed"))
    leaf = z.clone().requires_grad_()
    unlikely(x, model.decode(leaf)).sum().backward()
    torch.testing.assert_close(pulled, leaf.grad, **EXACT)
    with torch.no_grad():
        new = find_directions(model, posterior, pulled)
        before = model.decode(posterior.mean).mean
        costs = [cost.item() for _, cost in joint_costs(model, new, z, x, unlikely)]
        model.latent_layer.change(new)
        torch.testing.assert_close(model.decode(model.encode(x).mean).mean, before, **EXACT)
    _, covariance = moments_of(posterior)
    torch.testing.assert_close(new.forward @ covariance @ new.forward.T, torch.eye(N).double(), **EXACT)
    assert len(costs) == N


# Joint costs


def test_the_joint_cost_of_directions_of_a_linear_decoder_is_the_sum_of_their_eigenvalues():
    """On z with exactly these moments, and reconstructions as data: so the cheapest is removed first."""
    model, posterior = linear(), posterior_of()
    weight = model.decoder.weight.detach()
    new = find_directions(model, posterior, exact_pull(weight))
    z = sample_of(posterior)
    x = model.decode(z).detach()
    costs = list(joint_costs(model, new, z, x, squared_error))
    values, _ = eigenvalues_of(weight, moments_of(posterior)[1])
    assert [gate for gate, _ in costs] == [3, 2, 1, 0]
    torch.testing.assert_close(torch.cat([cost for _, cost in costs]), values.flip(0).cumsum(0), **EXACT)


def test_no_other_coordinates_make_any_number_of_removals_cheaper():
    """Of 200 random rotations of the codes; the last removal, of everything, costs the same in all."""
    model, posterior = linear(), posterior_of()
    new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
    z = sample_of(posterior)
    x = model.decode(z).detach()
    best = torch.cat([cost for _, cost in joint_costs(model, new, z, x, squared_error)])
    for seed in range(200):
        turn = torch.linalg.qr(random(N, N, seed=seed)).Q
        other = copy.copy(new)
        object.__setattr__(other, "forward", turn.T @ new.forward)
        object.__setattr__(other, "backward", new.backward @ turn)
        costs = torch.cat([cost for _, cost in joint_costs(model, other, z, x, squared_error)])
        assert (costs >= best - 1e-9).all()
        torch.testing.assert_close(costs[-1], best[-1], **EXACT)


def test_a_joint_cost_is_what_closing_the_gates_after_the_change_costs():
    """For any decoder, data and errors: the model that is changed and gated is the one that was measured."""

    def both(x, y):
        return torch.stack([squared_error(x, y), absolute_error(x, y)], 1)

    model = bent()
    model.gates.close([1])
    x = random(COUNT, VALUES)
    with torch.no_grad():
        posterior = model.encode(x)
        z = posterior.draw(random(COUNT, N, seed=2))
        pulled = pull_back(model, z, x, both, lambda like: standard_normal(like, torch.Generator().manual_seed(0)))
        new = find_directions(model, posterior, pulled)
        before = both(x, model.decode(z)).mean(0)
        costs = list(joint_costs(model, new, z, x, both))
        assert [gate for gate, _ in costs] == [3, 2, 0]
        assert model.gates.kept() == [0, 2, 3]
        model.latent_layer.change(new)
        y = new.apply(z)
        torch.testing.assert_close(both(x, model.decode(y)).mean(0), before, **EXACT)
        for gate, cost in costs:
            model.gates.close([gate])
            torch.testing.assert_close(both(x, model.decode(y)).mean(0) - before, cost, **EXACT)


def test_joint_costs_are_measured_one_by_one():
    model, posterior = linear(), posterior_of()
    new = find_directions(model, posterior, exact_pull(model.decoder.weight.detach()))
    calls = []

    def counted(x, y):
        calls.append(1)
        return squared_error(x, y)

    costs = joint_costs(model, new, posterior.mean, model.decode(posterior.mean).detach(), counted)
    next(costs)
    assert len(calls) == 2, "before and after the first"
    next(costs)
    assert len(calls) == 3


# Latent maps


@pytest.mark.parametrize("padding", [0, 1])
def test_directions_of_a_latent_map_are_those_of_its_positions(padding):
    """1x1 convolutions see every position alone: the channels are turned as a vector's dimensions would be."""
    model = linear()
    flat = model.decoder
    maps = GatedVAE(nn.Conv2d(VALUES, 2 * N, 1), nn.Conv2d(N, VALUES, 1 + 2 * padding, padding=padding), (N, 2, 3))
    maps = maps.double().eval()
    with torch.no_grad():
        maps.decoder.weight.zero_()
        maps.decoder.weight[:, :, padding, padding] = flat.weight
    maps.encode(random(2, VALUES, 2, 3))
    posterior, pulled = posterior_of(), exact_pull(flat.weight.detach())
    expected = find_directions(model, posterior, pulled)

    def as_maps(part: Tensor) -> Tensor:
        return part.view(COUNT // 6, 2, 3, N).permute(0, 3, 1, 2)

    new = find_directions(maps, Posterior(*map(as_maps, posterior)), as_maps(pulled))
    for name, part in vars(expected).items():
        ours = getattr(new, name)
        if name in ("forward", "backward"):
            ours = ours * (ours * part).sum(1 if name == "forward" else 0, keepdim=True).sign()
        if name == "centre" and padding:
            part = torch.zeros_like(part)
        torch.testing.assert_close(ours, part, **EXACT)
    z = as_maps(sample_of(posterior, COUNT))
    x = maps.decode(z).detach()
    costs = torch.cat([cost for _, cost in joint_costs(maps, new, z, x, squared_error)])
    vectors = sample_of(posterior, COUNT)
    plain = joint_costs(model, expected, vectors, model.decode(vectors).detach(), squared_error)
    if not padding:
        torch.testing.assert_close(costs, 6 * torch.cat([cost for _, cost in plain]), **EXACT)
