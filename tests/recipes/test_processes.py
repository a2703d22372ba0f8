"""Several processes with a share of the batch each are one process with all of it: the whole model, both recipes.

All numbers are compared in float64. There are networks of three kinds: ours, a user's with torch's BatchNorm on both
sides, and one with gates on a hidden layer. A group is started once for all of them.
"""

from functools import partial

import pytest
import torch
from torch import nn

from groups import in_group
from narrows._util.processes import mean_over_processes, own_share, process_count
from narrows.constraint import Geco, GecoConfig
from narrows.gates.layer import gate
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.base import Noise
from narrows.recipes.controller import Controller, Decision
from narrows.recipes.fast import MEASURE_EVERY, Fast
from narrows.recipes.hidden_layers import HiddenNarrowing
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise

EXACT = {"rtol": 1e-10, "atol": 1e-10, "equal_nan": True}
BATCH, N, STEPS = 12, 5, 6
CONV = NetworkConfig("conv", (1, 16, 16), N, width=2)
MLP = NetworkConfig("mlp", (1, 16, 16), N, width=2)


class Scripted(Controller):
    """Closes a direction, brings it back, closes others and begins the last phase at given batches."""

    def __init__(self, script: dict[int, Decision]) -> None:
        super().__init__()
        self.script = script

    def decide(self, removal):
        decision = self.script.get(self.step)
        if decision is None:
            return None
        if decision.action == "close":
            list(removal())
        return self._release() if decision.action == "release" else decision


SCRIPT = {
    MEASURE_EVERY + 1: Decision("close", [4]),
    MEASURE_EVERY + 3: Decision("restore", []),
    MEASURE_EVERY + 5: Decision("close", [3, 4]),
    MEASURE_EVERY + 7: Decision("release", []),
}


def of_user() -> GatedVAE:
    """Networks as a user may write them, for maps of 16 x 16; one BatchNorm is frozen.

    A bias before BatchNorm has no effect and no gradient, but Adam would follow the rounding of its gradient.
    """
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=4, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2 * N)
    )
    body = [nn.Linear(N, 16, bias=False), nn.BatchNorm1d(16), nn.SiLU(), nn.BatchNorm1d(16).eval()]
    return GatedVAE(encoder, nn.Sequential(*body, nn.Linear(16, 256), nn.Unflatten(1, (1, 16, 16))), latent=N)


def make_model(kind) -> GatedVAE:
    torch.manual_seed(2)
    model = {"conv": partial(gated_vae, CONV), "mlp": partial(gated_vae, MLP), "user": of_user}[kind]().double()
    with torch.no_grad():
        model.gates.logits.copy_(torch.linspace(-0.1, 0.42, N))
    return model


def images(count: int, generator: torch.Generator) -> torch.Tensor:
    """Bright bars, wide or narrow, of any height."""
    width, height = torch.rand(2, count, 1, generator=generator, dtype=torch.float64).mul(16)
    place = torch.arange(16.0).double()
    return ((place < width)[:, None, None, :] * torch.sigmoid(height - place)[:, None, :, None]).double()


def wrap(objective):
    return nn.parallel.DistributedDataParallel(objective) if process_count() > 1 else objective


def account(objective, seen, loss, record):
    """Note the loss and the gradients of a batch, over all processes."""
    seen.append([mean_over_processes(part.double()) for part in (loss.detach(), *record)])
    seen.append([p.grad.clone() for p in objective.parameters() if p.grad is not None])


def train_paper(kind, estimator, config=None, settled=False):
    narrowing = Narrowing(make_model(kind), Geco(40.0, config), estimator).double()
    narrowing.hit.fill_(True)
    if settled:
        narrowing.model.gates.logits.data.fill_(0.6)
    optimiser, wrapped, seen = make_optimiser(narrowing, 1e-2), wrap(narrowing), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        x, noise = images(BATCH, generator), draw_noise(BATCH, N, generator, dtype=torch.float64)
        loss, record = wrapped(own_share(x), Noise(*map(own_share, noise)))
        loss.backward()
        account(narrowing, seen, loss, record)
        optimiser.step()
        optimiser.zero_grad()
        narrowing.constraint.project()
    return seen, narrowing.state_dict(), {}


def train_hidden():
    torch.manual_seed(2)
    gated = gate(nn.Sequential(nn.Linear(256, 9, bias=False), nn.BatchNorm1d(9)))
    network = nn.Sequential(nn.Flatten(), gated, nn.Linear(9, 1))

    def error(network, x):
        return (network(x)[:, 0] - x.mean((1, 2, 3))).square()

    narrowing = HiddenNarrowing(network.double(), Geco(0.1), error).double()
    narrowing.hit.fill_(True)
    optimiser, wrapped, seen = make_optimiser(narrowing, 1e-2), wrap(narrowing), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        x, u = images(BATCH, generator), narrowing.draw(BATCH, generator)
        loss, record = wrapped((own_share(x),), own_share(u))
        loss.backward()
        account(narrowing, seen, loss, record)
        optimiser.step()
        optimiser.zero_grad()
    return seen, narrowing.state_dict(), {}


def train_fast(kind):
    """Train through measurements, closings, a return and the last phase."""
    fast = Fast(
        make_model(kind),
        tolerance=40.0,
        held_out=lambda count, generator: own_share(images(count, generator)),
        split_sizes=(400, 100),
        controller=Scripted(SCRIPT),
        share=own_share,
    ).double()
    fast.constraint.inverse.fill_(1 / fast.constraint.start)
    optimiser, wrapped, seen = make_optimiser(fast, 2e-3), wrap(fast), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(max(SCRIPT) + STEPS):
        x, noise = images(BATCH, generator), fast.noise(BATCH, generator)
        loss, record = wrapped(own_share(x), noise)
        loss.backward()
        account(fast, seen, loss, record)
        optimiser.step()
        optimiser.zero_grad()
        fast.after_step(optimiser)
    assert not fast.fresh or fast.controller.phase == "release"
    return seen, fast.state_dict(), fast.monitor.state_dict()


CASES = {
    "paper, our convolutions, ARM": partial(train_paper, "conv", "arm"),
    "paper, our convolutions, DisARM": partial(train_paper, "conv", "disarm"),
    "paper, MLP, relative": partial(train_paper, "mlp", "arm", GecoConfig(relative_scale=20.0)),
    "paper, a user's networks": partial(train_paper, "user", "disarm"),
    "paper, a user's networks, no second pass for some": partial(train_paper, "user", "disarm", settled=True),
    "hidden layers": train_hidden,
    "fast, our convolutions": partial(train_fast, "conv"),
    "fast, MLP": partial(train_fast, "mlp"),
    "fast, a user's networks": partial(train_fast, "user"),
}


def train_all():
    return {case: train() for case, train in CASES.items()}


def train_and_share():
    """Train all, and share rows of any number: equal shares for all, and together their mean."""
    for count in range(1, 13):
        rows = torch.arange(float(count)) ** 2
        assert mean_over_processes(own_share(rows).mean()).item() == pytest.approx(rows.mean().item())
    assert len(own_share(torch.zeros(12))) == 12 // process_count()
    return train_all()


@pytest.fixture(scope="module", params=[2, 3])
def each(request, tmp_path_factory):
    """What each process of a group of two or three saw; three do not share 256 held-out examples evenly."""
    return in_group(request.param, train_and_share, tmp_path_factory.mktemp("group"))


@pytest.fixture(scope="module")
def alone():
    """What one process sees."""
    return train_all()


@pytest.mark.parametrize("case", CASES)
def test_losses_gradients_and_states_are_those_of_one_process(each, alone, case):
    expected = alone[case]
    for seen in each:
        for ours, theirs in zip(seen[case][0], expected[0], strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)
        for ours, theirs in zip(seen[case][1:], expected[1:], strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("case", CASES)
def test_all_processes_have_the_same_model_and_average(each, case):
    """Bit for bit, so that they make the same decisions, and any of them could save the model."""
    (_, *first), *others = (seen[case] for seen in each)
    for _, *states in others:
        for ours, theirs in zip(states, first, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
