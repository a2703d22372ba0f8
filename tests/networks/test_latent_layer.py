"""New coordinates of z: the output stays, gradients change by the inverse transpose, closed dimensions by nothing."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.networks.latent_layer import Coordinates
from networks_of_users import TwoHeads

EXACT = {"rtol": 1e-10, "atol": 1e-10}
N = 4


def conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


def mlp() -> GatedVAE:
    return gated_vae(NetworkConfig("mlp", (3,), n=N, width=1, output="linear"))


def direct() -> GatedVAE:
    return gated_vae(NetworkConfig("mlp", (3,), n=N, width=1, output="linear", direct=True))


def images() -> GatedVAE:
    return gated_vae(NetworkConfig("conv", (1, 28, 28), n=N, width=2))


def direct_images() -> GatedVAE:
    return gated_vae(NetworkConfig("conv", (1, 28, 28), n=N, width=2, direct=True))


def one_head() -> GatedVAE:
    decoder = nn.Sequential(nn.Linear(N, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return GatedVAE(nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2 * N)), decoder, N)


def two_heads() -> GatedVAE:
    return GatedVAE(TwoHeads(nn.Linear, N), nn.Sequential(nn.Linear(N, 8), nn.SiLU(), nn.Linear(8, 3)), N)


def no_biases() -> GatedVAE:
    encoder = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2 * N, bias=False))
    return GatedVAE(encoder, nn.Sequential(nn.Linear(N, 8, bias=False), nn.SiLU(), nn.Linear(8, 3)), N)


def padded_maps() -> GatedVAE:
    encoder = nn.Sequential(conv(3, 8), nn.SiLU(), conv(8, 2 * N))
    return GatedVAE(encoder, nn.Sequential(conv(N, 8), nn.SiLU(), conv(8, 3)), latent=(N, 6, 6))


def maps() -> GatedVAE:
    decoder = nn.Sequential(nn.Conv2d(N, 8, 3), nn.SiLU(), nn.ConvTranspose2d(8, 3, 3))
    return GatedVAE(TwoHeads(conv, N), decoder, latent=(N, 6, 6))


def transposed_maps() -> GatedVAE:
    encoder = nn.Sequential(nn.ConvTranspose2d(3, 2 * N, 3, padding=1))
    decoder = nn.Sequential(nn.ConvTranspose2d(N, 8, 3, padding=1), nn.SiLU(), conv(8, 3))
    return GatedVAE(encoder, decoder, latent=(N, 6, 6))


CASES = {
    "mlp": (mlp, (3,), True),
    "a direct path": (direct, (3,), True),
    "conv": (images, (1, 28, 28), True),
    "conv with a direct path": (direct_images, (1, 28, 28), True),
    "one head": (one_head, (3,), True),
    "two heads": (two_heads, (3,), True),
    "no biases": (no_biases, (3,), False),
    "padded maps": (padded_maps, (3, 6, 6), False),
    "maps": (maps, (3, 6, 6), True),
    "transposed maps": (transposed_maps, (3, 6, 6), False),
}


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(1)
    make, shape, shiftable = CASES[request.param]
    model = make().double().eval()
    x = torch.rand(6, *shape, dtype=torch.float64)
    model.encode(x)  # the first batch checks the networks
    return model, x, shiftable


def random_coordinates(shift: bool, seed: int = 0, n: int = N) -> Coordinates:
    generator = torch.Generator().manual_seed(seed)
    forward = torch.randn(n, n, generator=generator, dtype=torch.float64) + 2 * torch.eye(n)
    centre = torch.randn(n, generator=generator, dtype=torch.float64) * shift
    mix = torch.rand(n, n, generator=generator, dtype=torch.float64)
    mix /= mix.sum(1, keepdim=True)
    return Coordinates(forward, forward.inverse(), centre, mix, torch.randn(n, generator=generator).double())


def before_bound(log_std: torch.Tensor) -> torch.Tensor:
    return 8 * torch.atanh(log_std / 8)


# Coordinates


@pytest.mark.parametrize("shape", [(7, N), (7, N, 3, 5)])
def test_undoing_is_the_inverse_of_applying(shape):
    z = torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    new = random_coordinates(True)
    torch.testing.assert_close(new.undo(new.apply(z)), z, **EXACT)
    torch.testing.assert_close(new.apply(new.undo(z)), z, **EXACT)
    by_hand = torch.stack([(new.forward @ (point - new.centre)) for point in z.movedim(1, -1).reshape(-1, N)])
    torch.testing.assert_close(new.apply(z).movedim(1, -1).reshape(-1, N), by_hand, **EXACT)
    assert new.apply(z.float()).dtype == torch.float32


def test_a_change_within_some_dimensions_leaves_the_others_alone():
    rows = torch.tensor([True, False, True, True, False, True])
    new = random_coordinates(True)
    whole = Coordinates.within(rows, new)
    z = torch.randn(5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert torch.equal(whole.apply(z)[:, ~rows], z[:, ~rows])
    torch.testing.assert_close(whole.apply(z)[:, rows], new.apply(z[:, rows]), **EXACT)
    torch.testing.assert_close(whole.undo(whole.apply(z)), z, **EXACT)
    assert torch.equal(whole.log_std_mix.sum(1), torch.ones(6).double())
    assert (whole.log_std_shift[~rows] == 0).all()


# The layer


def test_the_layer_makes_the_new_coordinates_and_decodes_the_same(case):
    model, x, shiftable = case
    assert model.latent_layer.shiftable() is shiftable
    new = random_coordinates(shiftable)
    mean, log_std = model.encode(x)
    before = model.decode(mean)
    model.latent_layer.change(new)
    after = model.encode(x)
    torch.testing.assert_close(model.decode(after.mean), before, **EXACT)
    torch.testing.assert_close(after.mean, new.apply(mean), **EXACT)
    mixed = torch.einsum("kj,bj...->bk...", new.log_std_mix, before_bound(log_std))
    if model.latent_layer.log_std.bias is not None:
        mixed = mixed + new.log_std_shift.view(-1, *(1,) * (mixed.ndim - 2))
    torch.testing.assert_close(before_bound(after.log_std), mixed, rtol=1e-8, atol=1e-8)


def test_any_z_is_decoded_the_same(case):
    """Not only codes of data: the stem undoes the change for every z."""
    model, _, shiftable = case
    new = random_coordinates(shiftable, seed=2)
    z = torch.randn(5, *model.latent_shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    before = model.decode(z)
    model.latent_layer.change(new)
    torch.testing.assert_close(model.decode(new.apply(z)), before, **EXACT)


def test_a_change_and_its_inverse_leave_the_weights_as_they_were(case):
    model, _, shiftable = case
    new = random_coordinates(shiftable)
    before = copy.deepcopy(model.state_dict())
    unmix = new.log_std_mix.inverse()
    inverse = Coordinates(new.backward, new.forward, -new.forward @ new.centre, unmix, -unmix @ new.log_std_shift)
    model.latent_layer.change(new)
    model.latent_layer.change(inverse)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=1e-9, atol=1e-9)


def test_a_changed_then_narrowed_model_equals_the_gated_one(case):
    model, x, shiftable = case
    model.latent_layer.change(random_coordinates(shiftable))
    model.gates.close([0, 3])
    smaller = model.narrow()
    torch.testing.assert_close(smaller.reconstruct(x), model.reconstruct(x), **EXACT)
    torch.testing.assert_close(smaller.encode(x).mean, model.encode(x).mean[:, [1, 2]], **EXACT)


def test_closed_dimensions_are_neither_moved_nor_read(case):
    """A change within the open dimensions of a model with closed ones."""
    model, x, shiftable = case
    model.gates.close([1])
    rows = model.gates.hard().bool()
    new = Coordinates.within(rows, random_coordinates(shiftable, n=3))
    before, codes = model.reconstruct(x), model.encode(x)
    column = model.latent_layer.stem.weight.detach().clone()
    model.latent_layer.change(new)
    torch.testing.assert_close(model.reconstruct(x), before, **EXACT)
    after = model.encode(x)
    torch.testing.assert_close(after.mean[:, 1], codes.mean[:, 1], rtol=0, atol=0)
    torch.testing.assert_close(after.log_std[:, 1], codes.log_std[:, 1], rtol=0, atol=0)
    stem = model.latent_layer.stem
    axis = 0 if isinstance(stem, nn.ConvTranspose2d) else 1
    assert torch.equal(stem.weight.select(axis, 1), column.select(axis, 1))


def test_the_encoders_and_decoders_other_layers_stay(case):
    model, _, shiftable = case
    before = copy.deepcopy(model.state_dict())
    layer = model.latent_layer
    latent = {id(p) for part in (layer.mean, layer.log_std, layer.stem) for p in part.parameters()}
    layer.change(random_coordinates(shiftable))
    for name, parameter in model.named_parameters():
        if id(parameter) not in latent:
            assert torch.equal(parameter, before[name]), name
    assert not any(torch.equal(p, before[n]) for n, p in model.named_parameters() if id(p) in latent and p.ndim > 1)


# Gradients and the moments that Adam keeps of them


def gradients(model: GatedVAE, x: torch.Tensor) -> None:
    """Of a loss that depends on the decoded means alone, so that it is the same function in all coordinates."""
    model.zero_grad()
    (model.reconstruct(x) - x.roll(1, 0)).pow(2).sum().backward()


def adam_after(model: GatedVAE, x: torch.Tensor, steps: int = 3) -> torch.optim.Adam:
    """Adam that has seen some gradients but has not moved a weight."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0)
    for step in range(steps):
        gradients(model, x * (1 + step))
        optimiser.step()
    return optimiser


def changed_before_and_after(
    model: GatedVAE, x: torch.Tensor, new: Coordinates
) -> tuple[GatedVAE, torch.optim.Adam, torch.optim.Adam]:
    """Return a copy that had the new coordinates from the start, its optimiser, and that of the model changed later."""
    other = copy.deepcopy(model)
    other.latent_layer.change(new)
    optimiser = adam_after(model, x)
    model.latent_layer.change(new)
    model.latent_layer.change_moments(new, optimiser)
    return other, adam_after(other, x), optimiser


@pytest.mark.parametrize("centred", [True, False])
def test_the_first_moments_are_those_of_a_model_trained_in_the_new_coordinates(case, centred):
    """The mean's rows and the stem's columns; the biases of both."""
    model, x, shiftable = case
    if not (centred or shiftable):
        pytest.skip("this layer can only be turned")
    new = random_coordinates(not centred)
    other, expected, optimiser = changed_before_and_after(model, x, new)

    def moments(model: GatedVAE, optimiser: torch.optim.Adam) -> dict[str, torch.Tensor]:
        layer, states = model.latent_layer, optimiser.state
        axis = 1 if isinstance(layer.mean, nn.ConvTranspose2d) else 0
        found = {"rows": states[layer.mean.weight]["exp_avg"].movedim(axis, 0)[:N]}
        found["columns"] = states[layer.stem.weight]["exp_avg"]
        for name, bias in (("mean bias", layer.mean.bias), ("stem bias", layer.stem.bias)):
            if bias is not None:
                found[name] = states[bias]["exp_avg"][: N if name == "mean bias" else None]
        return found

    theirs = moments(other, expected)
    for name, ours in moments(model, optimiser).items():
        assert theirs[name].abs().max() > 0
        torch.testing.assert_close(ours, theirs[name], rtol=1e-9, atol=1e-9, msg=partial("{}: {}".format, name))


def test_a_change_of_scale_alone_keeps_the_second_moments_exact(case):
    model, x, _ = case
    scale = torch.tensor([0.5, 2.0, 3.0, 0.1]).double()
    plain = torch.eye(N).double(), torch.zeros(N).double()
    new = Coordinates(scale.diag(), (1 / scale).diag(), torch.zeros(N).double(), *plain)
    other, expected, optimiser = changed_before_and_after(model, x, new)
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        for name in ("exp_avg", "exp_avg_sq"):
            if ours.grad is not None:
                torch.testing.assert_close(
                    optimiser.state[ours][name], expected.state[theirs][name], rtol=1e-9, atol=1e-12
                )


def test_second_moments_stay_positive(case):
    model, x, shiftable = case
    optimiser = adam_after(model, x)
    model.latent_layer.change_moments(random_coordinates(shiftable), optimiser)
    assert all((state["exp_avg_sq"] >= 0).all() for state in optimiser.state.values())


def test_moments_that_are_not_there_are_left_alone(case):
    """Before the first step, and with other optimisers."""
    model, x, shiftable = case
    new = random_coordinates(shiftable)
    optimiser = torch.optim.Adam(model.parameters())
    model.latent_layer.change_moments(new, optimiser)
    assert not optimiser.state
    plain = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    gradients(model, x)
    plain.step()
    before = copy.deepcopy(plain.state_dict())
    model.latent_layer.change_moments(new, plain)
    for one, other in zip(before["state"].values(), plain.state_dict()["state"].values(), strict=True):
        assert torch.equal(one["momentum_buffer"], other["momentum_buffer"])
