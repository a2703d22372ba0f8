"""Training on a GPU that is not there (fake_cuda.py): nothing is on the wrong device, and the host waits when it must.

Steps, decisions and whole runs are compared with the same on the CPU. `WAITS` is the whole list of what a run asks a
device for.
"""

import os
from collections import Counter
from functools import partial
from unittest import mock

import accelerate
import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn
from torch.utils._pytree import tree_map

from fake_cuda import CPU, CUDA, fake_cuda, numbers
from narrows import Fast, GatedVAE, Geco, HiddenNarrowing, Narrowing, gate
from narrows._util.waits import HostWaits
from narrows.data import from_array
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes import fast, last_phase
from narrows.recipes.controller import Decision
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import draw_noise
from narrows.training import build, trainer
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.sinks import MemorySink
from narrows.training.state import check_state
from narrows.training.trainer import Trainer
from networks_of_users import TwoHeads

MEASUREMENT = Counter(
    {"training.trainer.Trainer._draw": 1, "recipes.monitor.Monitor.measure": 1, "recipes.fast.Fast.update": 1}
)
"""Fast recipe, every 16 batches: the indices of the panel, the open gates, and the error for the controller."""
SECOND_PASS = Counter({"recipes.paper.Narrowing.second_errors": 1})
"""Paper's recipe, each batch once tau was met: on which examples the gates differ."""
BEFORE_TAU = Counter({"recipes.paper.Algorithm1._has_hit": 1})
"""Paper's recipe, each batch until tau was met, and the one after."""
ROW = Counter({"training.trainer.Trainer._log": 4})
"""Every `log_every` batches."""
ROW_OF_FAST = ROW + Counter({"recipes.fast.Fast.heldout_error": 1, "recipes.fast.Fast.costs": 1})
DECISIONS = {
    "recipes.fast.Fast._calibrate",
    "recipes.fast.Fast._removal",
    "recipes.fast.Fast.target",
    "recipes.last_phase.LastPhase.find_noise",
    "recipes.last_phase.LastPhase.share_of_target",
    "recipes.last_phase.LastPhase.take_better",
    "recipes.monitor.Monitor.calibrate",
    "recipes.rotation.settle",
    "recipes.rotation.find_directions",
    "networks.latent_layer.Coordinates.within",
    "gates.l0.L0Gates.close",
    "gates.l0.L0Gates.kept",
    "gates.l0.L0Gates.open",
}
"""Fast recipe: when gates may close, when the last phase begins, and when it ends."""
MODELS = {
    "networks.pruning._selected",
    "training.selection._copy",
    "training.selection.Candidate.narrowed",
    "training.trainer.Trainer.__init__",
    "training.trainer.Trainer._checkpoint",
    "training.validation.costs_by_value",
    "training.validation.describe_dimensions",
    "training.validation.errors_of_first",
    "training.validation.per_input",
}
"""When a model is built, validated, kept, checkpointed or certified."""


@pytest.fixture
def waits(monkeypatch):
    """In the test there is CUDA; count the waits."""
    with fake_cuda(), HostWaits("cuda") as counted:
        yield counted


@pytest.fixture(scope="module")
def plane():
    """500 vectors of 20 values, near a plane of three dimensions."""
    rng = np.random.default_rng(0)
    return (rng.random((500, 3)) @ rng.random((3, 20)) / 3).astype(np.float32)


@pytest.fixture
def prepare(plane, monkeypatch):
    """Return a function that prepares a small run on a device; accelerate takes that from its environment."""

    def make_accelerator(config):
        return accelerate.Accelerator(mixed_precision="bf16" if config.precision == "bfloat16" else "no")

    def prepared(device, **settings):
        settings = {"tau": 0.2, "n": 6, "width": 4, "batch": 16, "log_every": 25, "eval_every": 50, **settings}
        AcceleratorState._reset_state(True)
        plan = make_plan(TrainConfig(**settings).checked(), from_array(plane, "unit"))
        with mock.patch.dict(os.environ, ACCELERATE_TORCH_DEVICE=str(device)):
            return Trainer(plan, Listener())

    for module in (build, trainer):
        monkeypatch.setattr(module, "make_accelerator", make_accelerator)
    yield prepared
    AcceleratorState._reset_state(True)


def waits_of(call, waits):
    waits.places.clear()
    call()
    return Counter({place: count for place, count in waits.places.items() if place})


def built_in():
    return gated_vae(NetworkConfig("conv", (1, 16, 16), 4, width=2)), (1, 16, 16)


def users(norm=nn.BatchNorm2d):
    """Latent maps between networks that are not ours."""
    layer = partial(nn.Conv2d, kernel_size=1)
    decoder = nn.Sequential(layer(4, 8), norm(8), nn.SiLU(), layer(8, 3))
    return GatedVAE(TwoHeads(layer, 4), decoder, latent=(4, 5, 5)), (3, 5, 5)


def examples_of(shape, device, count=12):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(device)


def trained_by_algorithm_1(networks, estimator, device):
    torch.manual_seed(0)
    model, shape = networks()
    narrowing = Narrowing(model, Geco(1e3), estimator).to(device, torch.float64)
    with torch.no_grad():
        narrowing.model.gates.logits.copy_(torch.linspace(-0.2, 0.4, 4))
    optimiser = make_optimiser(narrowing)
    x, generator = examples_of(shape, device), torch.Generator(device).manual_seed(0)
    for _ in range(3):
        loss, _ = narrowing(x, draw_noise(len(x), model.latent_shape, generator, dtype=torch.float64))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        narrowing.constraint.project()
    return narrowing


@pytest.mark.parametrize("networks", [built_in, users])
@pytest.mark.parametrize("estimator", ["arm", "disarm"])
def test_algorithm_1_is_the_same_on_cuda(waits, networks, estimator):
    there, here = (trained_by_algorithm_1(networks, estimator, device) for device in (CUDA, CPU))
    assert bool(here.hit)
    same_state(there, here)


def same_state(there, here):
    for name, tensor in there.state_dict().items():
        assert tensor.device == CUDA, name
        torch.testing.assert_close(numbers(tensor), here.state_dict()[name], rtol=1e-6, atol=1e-9)


def trained_fast(networks, device):
    """Take every decision there is, with a step before and after each."""
    torch.manual_seed(0)
    model, shape = networks()
    model = model.to(device, torch.float64)
    data = examples_of(shape, device, 200)

    def draw(count, generator):
        return data[torch.randint(len(data), (count,), generator=generator, device=device)]

    recipe = Fast(model, 30.0, draw, (100, 100)).to(device, torch.float64)
    optimiser, generator = make_optimiser(recipe), torch.Generator(device).manual_seed(0)
    for action in ("close", "restore", "release", "end"):
        loss, _ = recipe(data[:12], recipe.noise(12, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        recipe.controller.step = 15  # so that this step is one with a measurement
        recipe.update(optimiser)
        recipe._calibrate(256)
        gates = [gate for gate, _ in recipe._removal() or ()][:1] if action == "close" else []
        recipe.controller.phase = {"release": "release", "end": "ended"}.get(action, "closed")
        recipe.act(Decision(action, gates), optimiser)
    return recipe


@pytest.mark.parametrize("networks", [built_in, users])
def test_the_decisions_of_the_fast_recipe_are_the_same_on_cuda(waits, networks, monkeypatch):
    for home, name in ((last_phase, "SETTLED"), (fast, "TURNED_AT_LAST"), (fast, "MANY"), (fast, "MOST")):
        monkeypatch.setattr(home, name, 256)
    there, here = (trained_fast(networks, device) for device in (CUDA, CPU))
    assert len(here.model.gates.kept()) == 4, "restored"
    for one, other in ((there, here), (there.candidate, here.candidate)):
        same_state(one, other)
    assert numbers(there.target()).item() == pytest.approx(here.target().item(), rel=1e-4)


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_a_whole_run_is_the_same_on_cuda(waits, prepare, recipe):
    sinks = [MemorySink(), MemorySink()]
    answers = [
        prepare(device, recipe=recipe, steps=20, log_every=10).start(sink)
        for device, sink in zip((CUDA, CPU), sinks, strict=True)
    ]
    there, here = answers
    assert there.kept == here.kept
    assert there.heldout.error == pytest.approx(here.heldout.error, rel=1e-3)
    assert [d.cost for d in there.dimensions] == pytest.approx([d.cost for d in here.dimensions], rel=1e-2)
    assert [row.loss for row in sinks[0].rows] == pytest.approx([row.loss for row in sinks[1].rows], rel=1e-3)
    unlisted = set(waits.places) - {""} - MODELS - DECISIONS - set(MEASUREMENT | SECOND_PASS | BEFORE_TAU | ROW_OF_FAST)
    assert not unlisted


def test_a_step_of_the_fast_recipe_waits_for_nothing_between_measurements(waits, prepare):
    run = prepare(CUDA)
    for step in range(1, 18):
        assert waits_of(run.train_batch, waits) == (MEASUREMENT if step % 16 == 0 else Counter()), step
    assert waits_of(run._log, waits) == ROW_OF_FAST
    assert waits_of(lambda: run.recipe.last_phase.steer(run.recipe.watched), waits) == Counter()


def test_a_step_of_the_papers_recipe_waits_once(waits, prepare):
    run = prepare(CUDA, recipe="paper", tau=1e-3)
    for _ in range(3):
        assert waits_of(run.train_batch, waits) == BEFORE_TAU
    run.objective.hit.fill_(True)
    assert waits_of(run.train_batch, waits) == BEFORE_TAU + SECOND_PASS
    for _ in range(3):
        assert waits_of(run.train_batch, waits) == SECOND_PASS
    assert waits_of(run._log, waits) == ROW


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_bfloat16_multiplies_in_half_precision_on_cuda(waits, prepare, recipe):
    run = prepare(CUDA, recipe=recipe, tau=0.5, precision="bfloat16")
    kinds = set()
    for layer in run.model.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda layer, inputs, output: kinds.add(output.dtype))
    for _ in range(3):
        run.train_batch()
    assert kinds == {torch.bfloat16}
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    run._log()  # raises if error or loss is not finite


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_a_run_resumes_on_cuda(waits, prepare, recipe):
    first, second = prepare(CUDA, recipe=recipe, tau=0.5), prepare(CUDA, recipe=recipe, tau=0.5)
    for _ in range(15):
        first.train_batch()
    state = tree_map(lambda part: part.cpu() if isinstance(part, torch.Tensor) else part, first.state_dict())
    state["records"] = {name: [] for name in ("metrics.csv", "decisions.csv", "costs.csv")}
    check_state(second, state)
    second.load_state_dict(state)
    for run in (first, second):
        for _ in range(2):
            run.train_batch()
    for name, tensor in first.objective.state_dict().items():
        other = numbers(second.objective.state_dict()[name])
        assert torch.equal(numbers(tensor).nan_to_num(), other.nan_to_num()), name


def test_a_model_encodes_samples_and_narrows_on_cuda(waits):
    def made(device):
        torch.manual_seed(0)
        model = gated_vae(NetworkConfig("mlp", (9,), 4, width=2)).to(device, torch.float64).eval()
        model.gates.close([1])
        small = model.narrow()
        generator, x = torch.Generator(device).manual_seed(0), examples_of((9,), device)
        return [*small.encode(x), small.sample(3, generator), small.reconstruct(x, generator), small.reconstruct(x)]

    for there, here in zip(made(CUDA), made(CPU), strict=True):
        assert there.device == CUDA
        torch.testing.assert_close(numbers(there), here)


def test_gates_on_hidden_layers_train_on_cuda(waits):
    def trained(device):
        torch.manual_seed(0)
        network = nn.Sequential(gate(nn.Linear(4, 8)), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        objective = HiddenNarrowing(network, Geco(50.0), lambda net, x: net(x).square().sum(1)).to(
            device, torch.float64
        )
        optimiser, generator = make_optimiser(objective), torch.Generator(device).manual_seed(0)
        for _ in range(3):
            loss, _ = objective((examples_of((4,), device),), objective.draw(12, generator))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        return objective

    same_state(trained(CUDA), trained(CPU))


@pytest.mark.parametrize(
    ("mistake", "answer"),
    [
        (lambda x: x + torch.ones(3), "two devices, cuda:0 and cpu"),
        (lambda x: torch.cat([x, torch.ones(3)]), "two devices, cuda:0 and cpu"),
        (lambda x: torch.rand(3, device=CUDA, generator=torch.Generator()), "generator but found 'cpu'"),
        (lambda x: torch.rand(3, generator=torch.Generator(CUDA)), "generator but found 'cuda'"),
        (lambda x: x.numpy(), "not supported"),
    ],
)
def test_what_cuda_refuses_is_refused(waits, mistake, answer):
    with pytest.raises(RuntimeError, match=answer):
        mistake(torch.ones(3, device=CUDA))


@pytest.mark.parametrize(
    "question",
    [
        lambda x: x[0].item(), lambda x: bool(x[0] > 0), lambda x: x.tolist(), lambda x: x.nonzero(), lambda x: x.cpu(),
        lambda x: x[x > 0], lambda x: torch.equal(x, x), lambda x: torch.zeros(3).copy_(x), lambda x: x.unique(),
        lambda x: torch.zeros(3).to(CUDA), lambda x: x.copy_(torch.zeros(3)), lambda x: torch.linalg.eigh(x.diag()),
        lambda x: torch.tensor([1.0], device=CUDA),
    ],
)  # fmt: skip
def test_what_waits_is_counted(waits, question):
    x = torch.ones(3, device=CUDA)
    waits.places.clear()
    question(x)
    assert waits.places.total() == 1


def test_what_does_not_wait_is_not_counted(waits):
    x = torch.ones(3, device=CUDA)
    waits.places.clear()
    x.add_(1).clamp(min=torch.tensor(0.0)).to(torch.float64)
    torch.zeros(3).pin_memory().to(CUDA, non_blocking=True)
    torch.zeros(3).tolist()
    assert not waits.places
