"""Muon: the orthogonal matrix against its definition, the step against torch's, and who gets which."""

import io
import itertools

import pytest
import torch
from torch import nn

from narrows.constraint import Geco
from narrows.gates.layer import gate
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.fast import Fast
from narrows.recipes.hidden_layers import HiddenNarrowing
from narrows.recipes.optimiser import LARGEST, MOMENTUM, POLYNOMIAL, SIZE, STEPS, Muon, make_optimiser, orthogonalise
from narrows.recipes.paper import Narrowing

SHAPES = [(6, 6), (4, 9), (9, 4), (1, 7), (7, 1)]


def matrix_with(values: torch.Tensor, rows: int, columns: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Return U S V' with these singular values, and U and V."""
    generator = torch.Generator().manual_seed(seed)
    count = len(values)
    u, v = (
        torch.linalg.qr(torch.randn(side, count, generator=generator, dtype=torch.float64)).Q
        for side in (rows, columns)
    )
    return u * values @ v.T, u, v


def random_matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The orthogonal matrix


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_singular_values_become_nearly_one_and_singular_vectors_stay(rows, columns, scale):
    count = min(rows, columns)
    values = torch.logspace(0, -1.5, count, dtype=torch.float64)
    matrix, u, v = matrix_with(scale * values, rows, columns)
    middle = u.T @ orthogonalise(matrix) @ v
    ends = middle.diagonal()
    assert (ends > 0.6).all()
    assert (ends < 1.25).all()
    torch.testing.assert_close(middle, ends.diag(), rtol=0, atol=1e-9)
    torch.testing.assert_close(orthogonalise(matrix), u * ends @ v.T, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_transposed_matrix_gives_the_transposed_result(rows, columns):
    matrix = random_matrix(rows, columns)
    torch.testing.assert_close(orthogonalise(matrix.T), orthogonalise(matrix).T, rtol=0, atol=1e-12)


def test_a_turned_matrix_gives_the_turned_result():
    """Q X R with orthogonal Q and R: no direction is preferred."""
    matrix = random_matrix(5, 8)
    q, r = (torch.linalg.qr(random_matrix(side, side, seed=side)).Q for side in (5, 8))
    torch.testing.assert_close(orthogonalise(q @ matrix @ r), q @ orthogonalise(matrix) @ r, rtol=0, atol=1e-9)


def test_a_zero_matrix_gives_zeros():
    assert (orthogonalise(torch.zeros(3, 5)) == 0).all()


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize(("rows", "columns"), [*SHAPES, (64, 300)])
def test_it_is_the_plain_iteration(rows, columns, kind, tolerance):
    """X <- a X + b (X X') X + c (X X')^2 X, multiplied out."""
    a, b, c = POLYNOMIAL
    matrix = random_matrix(rows, columns)
    x = matrix / (matrix.norm() + 1e-7)
    for _ in range(STEPS):
        gram = x @ x.T
        x = a * x + b * gram @ x + c * gram @ gram @ x
    torch.testing.assert_close(orthogonalise(matrix.to(kind)).double(), x, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_enough(kind):
    matrix, _, _ = matrix_with(torch.logspace(0, -1.5, 16, dtype=torch.float64), 16, 16)
    result = orthogonalise(matrix.to(kind))
    assert result.dtype == kind
    ends = torch.linalg.svdvals(result.double())
    assert ends.min() > 0.5
    assert ends.max() < 1.3


# The step


def make(shapes, orthogonal: bool, lr: float = 0.01, **group) -> tuple[list[nn.Parameter], Muon]:
    parameters = [nn.Parameter(random_matrix(*shape, seed=9).float()) for shape in shapes]
    return parameters, Muon([{"params": parameters, "orthogonal": orthogonal, **group}], lr)


def give_gradients(parameters, step: int) -> None:
    for place, parameter in enumerate(parameters):
        parameter.grad = random_matrix(*parameter.shape, seed=100 * step + place).float()


def test_a_step_by_hand():
    """Nesterov's momentum of the gradient, made orthogonal, at the size of Adam's step; kernels are rows."""
    for shape in ((4, 9), (9, 4), (6, 2, 3, 3)):
        (parameter,), optimiser = make([shape], True)
        expected, momentum = parameter.detach().clone(), torch.zeros(shape).flatten(1)
        for step in range(4):
            give_gradients([parameter], step)
            gradient = parameter.grad.flatten(1)
            momentum = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
            ahead = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
            size = 0.01 * SIZE * max(ahead.shape) ** 0.5
            expected -= size * orthogonalise(ahead).view(shape)
            optimiser.step()
            torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-6)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 40), (40, 16)])
def test_matrices_step_as_with_torchs_muon(rows, columns, decay):
    """Which iterates in bfloat16: each step within 3% of its size."""
    (parameter,), ours = make([(rows, columns)], True, weight_decay=decay)
    other = nn.Parameter(parameter.detach().clone())
    theirs = torch.optim.Muon(
        [other],
        lr=0.01,
        weight_decay=decay,
        momentum=MOMENTUM,
        nesterov=True,
        ns_coefficients=POLYNOMIAL,
        ns_steps=STEPS,
        adjust_lr_fn="match_rms_adamw",
    )
    for step in range(6):
        before, other_before = parameter.detach().clone(), other.detach().clone()
        give_gradients([parameter], step)
        other.grad = parameter.grad.clone()
        ours.step()
        theirs.step()
        move, other_move = parameter.detach() - before, other.detach() - other_before
        assert (move - other_move).norm() < 0.03 * move.norm()


@pytest.mark.parametrize("shape", [(5,), (4, 9), (6, 2, 3, 3)])
def test_parameters_that_are_not_orthogonal_take_exactly_adams_step(shape):
    """Also beside one that is, which Adam must pass over, and with a maximised one, as the multiplier is."""
    adams, other = nn.Parameter(random_matrix(*shape).float()), nn.Parameter(random_matrix(5, 5).float())
    up = nn.Parameter(torch.zeros(3))
    optimiser = Muon(
        [{"params": [adams]}, {"params": [up], "maximize": True}, {"params": [other], "orthogonal": True}], 0.01
    )
    alone, alone_up = nn.Parameter(adams.detach().clone()), nn.Parameter(torch.zeros(3))
    reference = torch.optim.Adam([{"params": [alone]}, {"params": [alone_up], "maximize": True}], lr=0.01, fused=True)
    for step in range(5):
        give_gradients([adams, up, other], step)
        alone.grad, alone_up.grad = adams.grad.clone(), up.grad.clone()
        optimiser.step()
        reference.step()
        assert torch.equal(adams, alone)
        assert torch.equal(up, alone_up)
    assert optimiser.state[adams].keys() == {"step", "exp_avg", "exp_avg_sq"}
    assert optimiser.state[other].keys() == {"step", "momentum"}


def test_gradients_are_still_there_after_the_step():
    """For whoever clips, logs or accumulates them."""
    parameters, optimiser = make([(4, 9), (6, 2, 3, 3)], True)
    give_gradients(parameters, 0)
    gradients = [p.grad for p in parameters]
    copies = [g.clone() for g in gradients]
    optimiser.step()
    assert all(p.grad is g for p, g in zip(parameters, gradients, strict=True))
    assert all(torch.equal(g, c) for g, c in zip(gradients, copies, strict=True))


def test_parameters_without_a_gradient_stay():
    (one, other), optimiser = make([(4, 9), (3, 3)], True)
    before = other.detach().clone()
    give_gradients([one], 0)
    optimiser.step()
    assert torch.equal(other, before)
    assert other.grad is None
    assert other not in optimiser.state


def test_the_size_of_a_step_is_that_of_adam():
    """Adam moves a weight by about 0.2 of the rate, as a root mean square, whatever the size of the gradient."""
    for shape, scale in itertools.product(((64, 64), (32, 256), (256, 32)), (1e-3, 1e3)):
        (parameter,), optimiser = make([shape], True, lr=1.0)
        before = parameter.detach().clone()
        parameter.grad = scale * random_matrix(*shape).float()
        optimiser.step()
        assert (parameter.detach() - before).square().mean().sqrt().item() == pytest.approx(SIZE, rel=0.3)


def test_an_optimiser_that_goes_on_from_its_state_takes_the_same_steps_bit_for_bit():
    parameters, optimiser = make([(4, 9), (6, 2, 3, 3)], True)
    bias = nn.Parameter(torch.zeros(9))
    optimiser.add_param_group({"params": [bias]})
    for step in range(3):
        give_gradients([*parameters, bias], step)
        optimiser.step()
    file = io.BytesIO()
    torch.save(optimiser.state_dict(), file)
    others, again = make([(4, 9), (6, 2, 3, 3)], True, lr=5.0)
    other_bias = nn.Parameter(torch.zeros(9))
    again.add_param_group({"params": [other_bias]})
    with torch.no_grad():
        for p, q in zip([*others, other_bias], [*parameters, bias], strict=True):
            p.copy_(q)
    again.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for step in range(3, 6):
        for some, opt in (([*parameters, bias], optimiser), ([*others, other_bias], again)):
            give_gradients(some, step)
            opt.step()
    assert all(torch.equal(p, q) for p, q in zip([*others, other_bias], [*parameters, bias], strict=True))


def test_a_closure_is_called_once_and_its_gradients_count():
    parameters, optimiser = make([(4, 9)], True)
    others, reference = make([(4, 9)], True)
    calls = []

    def closure():
        calls.append(1)
        give_gradients(parameters, 0)
        return 7.0

    assert optimiser.step(closure) == 7.0
    give_gradients(others, 0)
    reference.step()
    assert len(calls) == 1
    assert torch.equal(parameters[0], others[0])


# Who gets which


def names_of(optimiser: torch.optim.Optimizer, objective: nn.Module) -> dict[bool, set[str]]:
    """Return the names of the objective's parameters, by whether their updates are orthogonal."""
    names = {id(p): name for name, p in objective.named_parameters()}
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for group in optimiser.param_groups:
        found[bool(group.get("orthogonal"))] |= {names[id(p)] for p in group["params"]}
    return found


def own_networks() -> GatedVAE:
    encoder = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(16, 8), nn.Linear(8, 2 * 3))
    decoder = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 16), nn.Unflatten(1, (1, 4, 4)))
    return GatedVAE(encoder, decoder, 3)


@pytest.mark.parametrize(
    "make_model",
    [
        lambda: gated_vae(NetworkConfig("conv", (1, 28, 28), n=3, width=2)),
        own_networks,
    ],
    ids=["conv", "own"],
)
def test_the_fast_recipe_leaves_the_latent_layer_biases_and_batch_norm_with_adam(make_model):
    model = make_model()
    fast = Fast(model, 4.0, lambda count, generator: torch.zeros(count, 7), (9, 9))
    optimiser = make_optimiser(fast, 0.004)
    assert isinstance(optimiser, Muon)
    named = names_of(optimiser, fast)
    trained = {name for name, p in fast.named_parameters() if p.requires_grad}
    assert named[True] | named[False] == trained
    assert named[True].isdisjoint(named[False])
    layer = model.latent_layer
    latent = {id(p) for part in (layer.mean, layer.log_std, layer.stem) for p in part.parameters()}
    for name, parameter in fast.named_parameters():
        if parameter.requires_grad:
            assert (name in named[True]) == (parameter.ndim > 1 and id(parameter) not in latent), name
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    weights = {id(p) for norm in norms for p in norm.parameters()}
    assert {name for name, p in fast.named_parameters() if id(p) in weights} <= named[False]
    assert len(named[True]) >= 2
    assert all(group["lr"] == 0.004 for group in optimiser.param_groups)


def test_networks_without_convolutions_and_large_matrices_are_trained_with_adam():
    def fast(model: GatedVAE) -> Fast:
        return Fast(model, 4.0, lambda count, generator: torch.zeros(count, 7), (9, 9))

    optimiser = make_optimiser(fast(gated_vae(NetworkConfig("mlp", (7,), n=3, width=1))))
    assert type(optimiser) is torch.optim.Adam
    model = own_networks()
    model.encoder[3] = nn.Linear(16, LARGEST + 1)  # its smaller side is 16
    model.encoder.insert(4, nn.Linear(LARGEST + 1, LARGEST + 1))
    model.encoder[5] = nn.Linear(LARGEST + 1, 2 * 3)
    model.heads = ["5"]
    objective = fast(model)
    named = names_of(make_optimiser(objective), objective)
    assert "model.encoder.3.weight" in named[True]
    assert "model.encoder.4.weight" in named[False]


@pytest.mark.parametrize("kind", ["paper", "hidden"])
def test_the_papers_objectives_are_trained_with_adam_alone(kind):
    torch.manual_seed(0)
    if kind == "paper":
        objective = Narrowing(gated_vae(NetworkConfig("mlp", (7,), n=3, width=1)), Geco(4.0))
    else:
        network = nn.Sequential(gate(nn.Linear(4, 3)), nn.ReLU(), nn.Linear(3, 2))
        objective = HiddenNarrowing(network, Geco(0.3), lambda network, x: network(x).square().sum(1))
    optimiser = make_optimiser(objective, 0.003)
    assert type(optimiser) is torch.optim.Adam
    named = names_of(optimiser, objective)
    assert named[True] == set()
    assert named[False] == {name for name, p in objective.named_parameters() if p.requires_grad}
    ascending = [group for group in optimiser.param_groups if group["maximize"]]
    assert [list(map(id, group["params"])) for group in ascending] == [list(map(id, objective.constraint.parameters()))]
