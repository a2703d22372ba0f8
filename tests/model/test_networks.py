"""GatedVAE around any networks: the same mathematics as with built-in ones, latent maps, exact narrowing, errors."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from narrows._util.errors import NarrowsError
from narrows.constraint import Geco, GecoConfig
from narrows.gates.l0 import L0Gates
from narrows.model.vae import VAE, GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.base import Noise
from narrows.recipes.controller import Controller, ControllerConfig, Decision
from narrows.recipes.fast import Fast
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise
from networks_of_users import TwoHeads

EXACT = {"rtol": 0.0, "atol": 1e-12}
N = 5


def vectors() -> GatedVAE:
    decoder = nn.Sequential(nn.Linear(N, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return GatedVAE(nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2 * N)), decoder, N)


def two_heads() -> GatedVAE:
    return GatedVAE(TwoHeads(nn.Linear, N), nn.Linear(N, 3), latent=N)


def maps() -> GatedVAE:
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(8, 2 * N, 3, padding=1))
    decoder = nn.Sequential(nn.ConvTranspose2d(N, 8, 4, stride=2, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))
    return GatedVAE(encoder, decoder, latent=(N, 4, 4))


def maps_two_heads() -> GatedVAE:
    decoder = nn.Sequential(nn.Conv2d(N, 8, 1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))
    return GatedVAE(TwoHeads(lambda a, b: nn.Conv2d(a, b, 3, padding=1), N), decoder, latent=(N, 8, 8))


CASES = {
    "vectors": (vectors, (3,)),
    "two": (two_heads, (3,)),
    "maps": (maps, (3, 8, 8)),
    "both": (maps_two_heads, (3, 8, 8)),
}


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(1)
    make, shape = CASES[request.param]
    return make().double(), torch.randn(6, *shape, dtype=torch.float64)


def test_narrowed_model_equals_gated_model(case):
    model, x = case
    model.gates.close([0, 3])
    smaller = model.narrow()
    assert (smaller.n, smaller.kept, smaller.latent_shape) == (3, [1, 2, 4], (3, *model.latent_shape[1:]))
    mine, others = model.encode(x), smaller.encode(x)
    torch.testing.assert_close(others.mean, mine.mean[:, [1, 2, 4]], **EXACT)
    torch.testing.assert_close(others.log_std, mine.log_std[:, [1, 2, 4]], **EXACT)
    torch.testing.assert_close(smaller.decode(others.mean), model.decode(mine.mean), **EXACT)
    assert type(smaller) is VAE
    model.gates.close([2])
    assert smaller.narrow([0, 2]).kept == [1, 4]
    torch.testing.assert_close(smaller.narrow([0, 2]).reconstruct(x), model.reconstruct(x), **EXACT)
    torch.testing.assert_close(smaller.narrow([2, 0]).encode(x).mean, mine.mean[:, [4, 1]], **EXACT)


def test_both_recipes_train_any_networks(case):
    model, x = case
    generator = torch.Generator().manual_seed(0)
    for objective in (
        Narrowing(model, Geco(4.0).double(), "disarm"),
        Fast(model, 4.0, lambda k, g: x, (6, 6)).double(),
    ):
        if isinstance(objective, Narrowing):
            objective.hit.fill_(True)
            noise = draw_noise(6, model.latent_shape, generator)
        else:
            noise = objective.noise(6, generator)
        loss, record = objective(x, Noise(*(part.double() for part in noise)))
        loss.backward()
        assert all(torch.isfinite(value) for value in record)
        assert all(p.grad is not None for p in model.encoder.parameters())


def test_built_in_networks_as_plain_modules_have_the_same_loss_and_gradients():
    """A built-in MLP, wrapped as if it were the user's, in Algorithm 1 and in the fast recipe."""
    torch.manual_seed(0)
    ours = gated_vae(NetworkConfig("mlp", (7,), n=N, width=1, output="linear")).double()
    theirs = GatedVAE(copy.deepcopy(ours.encoder), copy.deepcopy(ours.decoder), N).double()
    x, generator = torch.randn(8, 7, dtype=torch.float64), torch.Generator().manual_seed(0)
    noise = Noise(*(part.double() for part in draw_noise(8, N, generator)))
    for make in (
        lambda model: Narrowing(model, Geco(3.0).double()),
        lambda model: Fast(model, 3.0, lambda k, g: x, (8, 8)).double(),
    ):
        losses = []
        for model in (ours, theirs):
            model.zero_grad()
            objective = make(model)
            if isinstance(objective, Narrowing):
                objective.hit.fill_(True)
            loss, _ = objective(x, noise)
            loss.backward()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-13)
        for a, b in zip(ours.encoder.parameters(), theirs.encoder.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, **EXACT)


def test_kl_of_a_latent_map_is_summed_over_positions():
    """A latent map of constant channels through 1x1 convolutions is a vector, position by position: KL times 16."""
    torch.manual_seed(0)
    model = GatedVAE(nn.Conv2d(3, 2 * N, 1), nn.Conv2d(N, 3, 1), latent=(N, 4, 4)).double()
    flat = GatedVAE(nn.Linear(3, 2 * N), nn.Linear(N, 3), latent=N).double()
    flat.encoder.load_state_dict(
        {k: v.reshape(v.shape[:2]) if v.ndim > 1 else v for k, v in model.encoder.state_dict().items()}
    )
    flat.decoder.load_state_dict(
        {k: v.reshape(v.shape[:2]) if v.ndim > 1 else v for k, v in model.decoder.state_dict().items()}
    )
    x, eps = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, N, dtype=torch.float64)
    wide = x[:, :, None, None].expand(-1, -1, 4, 4)
    _, one = Fast(flat, 4.0, lambda k, g: x, (6, 6)).double()(x, Noise(eps, eps[:, :0]))
    _, many = Fast(model, 4.0, lambda k, g: wide, (6, 6)).double()(
        wide, Noise(eps[:, :, None, None].expand(-1, -1, 4, 4), eps[:, :0])
    )
    torch.testing.assert_close(many.kl, 16 * one.kl)
    torch.testing.assert_close(many.error, 16 * one.error)


def test_the_last_phase_begins_in_other_coordinates_and_keeps_reconstructions(case):
    """... with variance 1 over the data, and mean 0 where the stem can take the shift back."""
    model, x = case
    fast = Fast(model, 4.0, lambda k, g: x.repeat(-(-k // 6), *(1,) * (x.ndim - 1))[:k], (6, 6))
    model.eval()
    with torch.no_grad():
        model.latent_layer.mean.bias[:N].add_(2.0)
    model.encode(x)
    fast.monitor.restart()
    before, codes = model.reconstruct(x), model.encode(x).mean
    fast.act(Decision("release", []), make_optimiser(fast))
    torch.testing.assert_close(model.reconstruct(x), before, rtol=1e-10, atol=1e-10)
    mean, log_std = (part.transpose(0, 1).flatten(1) for part in model.encode(x))
    assert not torch.allclose(model.encode(x).mean, codes, atol=0.1)
    if model.latent_layer.shiftable():
        centre = torch.stack([part.mean() for part in mean])
        torch.testing.assert_close(centre, torch.zeros_like(centre), rtol=0, atol=0.05)  # 256 are not 42 times six
    else:
        assert isinstance(model.latent_layer.stem, nn.ConvTranspose2d)
    spread = ((mean - mean.mean(1, keepdim=True)).square() + (2 * log_std).exp()).mean(1)
    torch.testing.assert_close(spread, torch.ones_like(spread), rtol=0.1, atol=0)  # deviations follow on average


def test_batchnorm_in_a_decoder_counts_each_batch_once():
    torch.manual_seed(0)
    model = vectors()
    norm = model.decoder[1]
    narrowing = Narrowing(model, Geco(4.0))
    narrowing.hit.fill_(True)
    with torch.no_grad():
        model.gates.logits.zero_()  # the pair differs nearly everywhere
    assert not model.independent_rows
    loss, _ = narrowing(torch.randn(16, 3), draw_noise(16, N, torch.Generator().manual_seed(0)))
    assert norm.num_batches_tracked == 1
    loss.backward()
    assert norm.weight.grad.abs().sum() > 0


class Skip(nn.Module):
    """Reads z in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(N, 4), nn.Linear(N, 4)

    def forward(self, z):
        return self.first(z) + self.second(z)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: GatedVAE(nn.Linear(3, 7), nn.Linear(N, 3), N),
            "of 10 outputs .* or two of 5 each; encoder has 7; name",
        ),
        (
            lambda: GatedVAE(nn.Linear(3, 10), nn.Linear(4, 3), N),
            "reads the 5 latent dimensions .*; decoder has 4",
        ),
        (lambda: GatedVAE(nn.Linear(3, 10), nn.Linear(N, 3), N, heads=["body"]), "the encoder has no layer 'body'"),
        (lambda: GatedVAE(nn.Sequential(nn.ReLU()), nn.Linear(N, 3), N, heads=["0"]), "encoder.0 is a ReLU"),
        (
            lambda: GatedVAE(nn.Sequential(nn.Linear(3, 4)), nn.Linear(N, 3), N, heads=["0"]),
            "encoder.0 has 4; name the right",
        ),
        (
            lambda: GatedVAE(nn.Linear(3, 10), nn.Sequential(nn.Linear(4, 3)), N, stem="0"),
            "decoder.0 has 4 inputs;",
        ),
        (lambda: GatedVAE(nn.Linear(3, 10), Skip(), N).narrow([0, 1]), "more than its layer 'first' reads z"),
        (lambda: two_heads().encode(torch.zeros(2, 3)) and maps().narrow([]), "every channel is closed"),
        (
            lambda: GatedVAE(nn.Conv2d(3, 10, 1), nn.Conv2d(N, 3, 1), (N, 4, 4)).encode(torch.zeros(1, 3, 5, 5)),
            r"of shape \(5, 4, 4\) per example, as latent says; it returns \(5, 5, 5\) and \(5, 5, 5\)",
        ),
    ],
)
def test_wrong_sizes_are_refused(make, text):
    with pytest.raises(NarrowsError, match=text):
        make()


def test_model_without_dimensions_decodes_zero():
    model = vectors().double().eval()
    smaller, x = model.narrow([]), torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(smaller.reconstruct(x), model.decoder(torch.zeros(4, N, dtype=torch.float64)), **EXACT)


class Swapped(TwoHeads):
    """The deviations' layer comes first; what is returned is in order."""

    def __init__(self) -> None:
        super().__init__(nn.Linear, N)
        self.mean, self.log_std = self.log_std, self.mean
        order = dict(self._modules)
        self._modules.clear()
        self._modules.update({name: order[name] for name in ("body", "log_std", "mean")})


class Sum(nn.Module):
    """Reads z a second time, without a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(N, 3)

    def forward(self, z):
        return self.first(z) + z.sum(1, keepdim=True)


class Mean(Sum):
    def forward(self, z):
        return self.first(z) + z.mean(1, keepdim=True)


class Backwards(nn.Linear):
    def forward(self, x):
        log_std, mean = super().forward(x).chunk(2, dim=1)
        return mean, log_std


MIXED = {
    "two heads": (lambda: two_heads(), True),
    "two heads, deviations first": (lambda: GatedVAE(Swapped(), nn.Linear(N, 3), N), True),
    "z read twice": (lambda: GatedVAE(nn.Linear(3, 2 * N), Sum(), N), False),
    "z bent first": (lambda: GatedVAE(nn.Linear(3, 2 * N), nn.Sequential(nn.Tanh(), nn.Linear(N, 3)), N), False),
    "one head, deviations first": (lambda: GatedVAE(Backwards(3, 2 * N), nn.Linear(N, 3), N), False),
}


@pytest.mark.parametrize("case", MIXED)
def test_coordinates_stay_where_others_would_change_the_output(case):
    torch.manual_seed(2)
    make, mixable = MIXED[case]
    model, x = make().double(), 3 + 5 * torch.randn(40, 3, dtype=torch.float64)
    fast = Fast(model, 4.0, lambda k, g: x[torch.randint(40, (k,), generator=g)], (40, 40))
    before = model.reconstruct(x)
    assert model.mixable is mixable
    fast.act(Decision("release", []), make_optimiser(fast))
    torch.testing.assert_close(model.reconstruct(x), before, rtol=1e-10, atol=1e-10)
    spread = model.encode(x).mean.var(0)
    assert bool((spread < 1.2).all()) is mixable
    model.gates.close([0, 3])
    torch.testing.assert_close(model.narrow().reconstruct(x), model.reconstruct(x), **EXACT)


class Unused(nn.Module):
    """A layer of the heads' size that comes after them and does something else."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.other = nn.Linear(3, 2 * N), nn.Linear(2 * N, 2 * N)

    def forward(self, x):
        return self.head(x)


class Returns(nn.Linear):
    def __init__(self, change) -> None:
        super().__init__(3, 2 * N)
        self.change = change

    def forward(self, x):
        return self.change(super().forward(x))


@pytest.mark.parametrize(
    ("encoder", "decoder", "text"),
    [
        (nn.Sequential(nn.Linear(3, 2 * N), nn.Softmax(1)), nn.Linear(N, 3), "name the right layers with heads="),
        (
            nn.Sequential(nn.Linear(3, 2 * N), nn.BatchNorm1d(2 * N)),
            nn.Linear(N, 3),
            "the output of '0', unchanged",
        ),
        (Unused(), nn.Linear(N, 3), "must be the output of 'other'"),
        (nn.Linear(3, 2 * N), Mean(), "more than its layer 'first' reads z"),
        (nn.Linear(3, 2 * N), Skip(), "more than its layer 'first' reads z"),
        (Returns(lambda y: {"mean": y}), nn.Linear(N, 3), "it returns a dict"),
        (Returns(lambda y: (y, y, y)), nn.Linear(N, 3), "it returns a tuple of 3"),
        (Returns(lambda y: torch.distributions.Normal(y, 1.0)), nn.Linear(N, 3), "it returns a Normal"),
    ],
)
def test_networks_that_cannot_be_narrowed_are_refused_at_the_first_batch(encoder, decoder, text):
    """The error comes before the first step, and again on a second call."""
    fast = Fast(GatedVAE(encoder, decoder, N), 4.0, lambda k, g: torch.zeros(k, 3), (9, 9))
    for _ in range(2):
        with pytest.raises(NarrowsError, match=text):
            fast(torch.randn(4, 3), fast.noise(4, torch.Generator().manual_seed(0)))


def test_decoder_may_return_a_distribution():
    class Uncertain(nn.Linear):
        def forward(self, z):
            mean, log_std = super().forward(z).chunk(2, dim=1)
            return torch.distributions.Normal(mean, log_std.exp())

    model = GatedVAE(nn.Linear(3, 2 * N), Uncertain(N, 6), N)
    fast = Fast(model, 4.0, lambda k, g: torch.zeros(k, 3), (9, 9), error=lambda x, y: -y.log_prob(x).sum(1))
    fast(torch.randn(4, 3), fast.noise(4, torch.Generator().manual_seed(0)))
    model.gates.close([2])
    x = torch.randn(4, 3)
    torch.testing.assert_close(model.narrow().reconstruct(x).mean, model.reconstruct(x).mean)


def test_data_made_under_autocast_are_accepted():
    model = vectors()
    fast = Fast(model, 4.0, lambda k, g: torch.randn(k, 3, generator=g), (8, 8))
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(8, 3) @ torch.eye(3)
        loss, _ = fast(x, fast.noise(8, torch.Generator().manual_seed(0)))
    assert x.dtype == torch.bfloat16
    assert torch.isfinite(loss)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions_train(kind):
    model, x = vectors().to(kind), torch.randn(8, 3).to(kind)
    generator = torch.Generator().manual_seed(0)
    fast = Fast(model, 4.0, lambda k, g: x, (8, 8))
    fast(x, fast.noise(8, generator))[0].backward()
    model.gates.requires_grad_(True)
    narrowing = Narrowing(model, Geco(4.0))
    narrowing.hit.fill_(True)
    narrowing(x, draw_noise(8, N, generator, dtype=kind))[0].backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.encoder.parameters())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda model: GatedVAE(model.encoder, model.decoder, 5.0), "latent must be a number of dimensions.*it is 5.0"),
        (lambda model: GatedVAE(model.encoder, model.decoder, -1), "latent must be a number"),
        (lambda model: GatedVAE(model.encoder, torch.relu, 5), "the decoder must be a torch.nn.Module"),
        (lambda model: L0Gates(-3), "n must be a whole number from 1 to 1,000,000; it is -3"),
        (lambda model: model.narrow([0, 9]), r"kept must be different numbers from 0 to 4; it is \[0, 9\]"),
        (lambda model: model.narrow([0, 0]), "kept must be different numbers"),
        (lambda model: Narrowing(model, Geco(1.0), "xx"), "estimator must be one of arm, disarm; it is 'xx'"),
        (lambda model: Fast(model, "x", zeros, (1, 1)), "tolerances must be finite numbers"),
        (lambda model: Geco("a"), "tolerances must be finite numbers, one or more; they are 'a'"),
        (lambda model: Geco(1, GecoConfig(lowest=5, highest=1)), "lowest must be above 0 and at most highest"),
        (lambda model: Geco(1, GecoConfig(decay=2)), "decay must be at least 0 and below 1; it is 2"),
        (lambda model: Controller(steps=-5), "steps must be a whole number from 1 on, or None; it is -5"),
        (lambda model: Controller(steps=1.5), "steps must be a whole number"),
        (lambda model: ControllerConfig(patience=-1), "patience must be a number of at least 0; it is -1"),
        (lambda model: Fast(model, 1.0, zeros, (0, 0)), "split_sizes must be two counts"),
        (lambda model: Fast(model, 1.0, zeros, 10), r"split_sizes must be two counts, .*; it is 10"),
        (lambda model: step(Fast(model, 1.0, zeros, (9, 9), error=all_values)), "the error returns 3 numbers per"),
        (lambda model: step(Narrowing(model, Geco(1.0), error=all_values)), "for 1 tolerances"),
        (lambda model: step(Fast(model, 1.0, zeros, (9, 9), error=F.mse_loss)), "error must return one number per"),
    ],
)
def test_bad_parameters_are_named(make, text):
    with pytest.raises(NarrowsError, match=text):
        make(vectors())


def zeros(count, generator):
    return torch.zeros(count, 3)


def all_values(x, y):
    return (x - y) ** 2


def step(objective):
    return objective(torch.randn(4, 3), draw_noise(4, N, torch.Generator().manual_seed(0)))


def test_numpy_integers_are_accepted():
    assert GatedVAE(nn.Linear(3, 2 * N), nn.Linear(N, 3), np.int64(N)).latent_shape == (N,)
