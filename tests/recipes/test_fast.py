"""The fast recipe: its loss by hand, what happens to the model when gates close, come back and settle, a whole run."""

import copy
import io
import itertools
import math
import textwrap

import pytest
import torch
from torch import nn

import narrows.recipes.fast
from narrows._util.errors import NarrowsError
from narrows.constraint import SteeredBound
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.objective import absolute_error, kl_elements, squared_error
from narrows.recipes.base import Noise, RecipeInputs, all_rows
from narrows.recipes.controller import EFFORTS, Controller, ControllerConfig, Decision
from narrows.recipes.fast import (
    ALLOWANCE,
    CALIBRATE_AFTER,
    CALIBRATIONS,
    DECIDE_EVERY,
    LAST_ALLOWANCE,
    LAST_WINDOW,
    MEASURE_EVERY,
    MOST_LAST_MARGIN,
    MOST_MARGIN,
    WINDOW,
    Fast,
    Plain,
)
from narrows.recipes.last_phase import SETTLED, TURNED_AT_LAST
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.rotation import joint_costs
from narrows.recipes.turning import TURNED
from narrows.runs.certificate import Terms

N = 5
MLP = NetworkConfig("mlp", (6,), N, width=2, output="linear")
BATCH = 16


class Scripted(Controller):
    """Decides what the test says, by the batch, and remembers the joint costs it was told when gates close."""

    def __init__(self, **script: Decision) -> None:
        super().__init__()
        self.script = {int(name.removeprefix("at_")): decision for name, decision in script.items()}
        self.joint: list[tuple[int, float]] | None = []

    def decide(self, removal):
        decision = self.script.get(self.step)
        if decision is None:
            return None
        if decision.action == "release":
            return self._release()
        if decision.action == "close":
            costs = removal()
            self.joint = None if costs is None else list(costs)
        return decision


def examples(count: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """Six values that depend on five numbers, by a fixed linear map."""
    generator = generator or torch.Generator().manual_seed(count)
    mix = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    return torch.randn(count, 5, generator=generator) @ mix + 1


def make_model(dtype: torch.dtype = torch.float32) -> GatedVAE:
    torch.manual_seed(2)
    return gated_vae(MLP).to(dtype)


def make(tolerance=4.0, dtype=torch.float32, **settings) -> Fast:
    model = settings.pop("model", None) or make_model(dtype)
    settings.setdefault("held_out", lambda count, generator: examples(count, generator).to(dtype))
    settings.setdefault("split_sizes", (400, 100))
    fast = Fast(model, tolerance, **settings)
    if dtype == torch.float64:
        fast.double()
        fast.constraint.inverse.fill_(1 / fast.constraint.start)
    return fast


def make_batch(dtype=torch.float32, seed=0) -> tuple[torch.Tensor, Noise]:
    generator = torch.Generator().manual_seed(seed)
    x = examples(BATCH, generator)
    eps = torch.randn(BATCH, N, generator=generator)
    return x.to(dtype), Noise(eps.to(dtype), eps[:, :0].to(dtype))


def run_one(fast: Fast, optimiser: torch.optim.Optimizer, dtype=torch.float32) -> None:
    """Train one batch, the same for the same step, up to the point where a decision is made."""
    loss, _ = fast(*make_batch(dtype, seed=1_000 * fast.controller.step))
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    fast.update(optimiser)


def train(fast: Fast, optimiser: torch.optim.Optimizer, batches: int, dtype=torch.float32) -> list[Decision]:
    """Train for so many batches; return the decisions."""
    decisions = []
    for _ in range(batches):
        run_one(fast, optimiser, dtype)
        decision = fast.decide()
        if decision is not None:
            fast.act(decision, optimiser)
            decisions.append(decision)
    return decisions


def test_everything_after_a_step_is_one_call():
    one, other = (make(controller=Scripted(at_20=Decision("close", [1, 3]))) for _ in range(2))
    optimiser, other_optimiser = make_optimiser(one), make_optimiser(other)
    train(one, optimiser, 30)
    for step in range(30):
        loss, _ = other(*make_batch(seed=1_000 * step))
        loss.backward()
        other_optimiser.step()
        other_optimiser.zero_grad()
        assert (other.after_step(other_optimiser) is not None) == (step == 19)
    assert same_state(one, other)


def save_and_load(fast: Fast, optimiser: torch.optim.Optimizer, other: Fast) -> torch.optim.Optimizer:
    """Write a checkpoint, load it into another run, and return that run's optimiser."""
    file = io.BytesIO()
    torch.save([fast.state_dict(), fast.recipe_state(), optimiser.state_dict()], file)
    weights, state, moments = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    again = make_optimiser(other, 1.0)
    other.load_state_dict(weights)
    other.load_recipe_state(state)
    again.load_state_dict(moments)
    return again


def same_state(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in pairs)


def two_errors(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.stack([squared_error(x, y), absolute_error(x, y)], 1)


# The loss


def test_the_loss_is_lambda_times_the_relative_violation_plus_the_kl_of_the_open_gates():
    fast = make(dtype=torch.float64)
    fast.model.gates.close([1, 3])
    x, noise = make_batch(torch.float64)
    loss, record = fast(x, noise)
    mean, log_std = (tensor.detach() for tensor in fast.model.encode(x))
    z = (mean + log_std.exp() * noise.eps) * torch.tensor([1, 0, 1, 0, 1])
    errors, kls = [], []
    for i in range(BATCH):
        errors.append(((fast.model.decoder(z[i : i + 1])[0] - x[i]) ** 2).sum().item())
        pairs = [(mean[i, j].item(), log_std[i, j].item()) for j in (0, 2, 4)]
        kls.append(sum(0.5 * (math.exp(2 * log) + mu**2 - 1 - 2 * log) for mu, log in pairs) / 3)
    error, kl = sum(errors) / BATCH, sum(kls) / BATCH
    assert loss.item() == pytest.approx(60 * (error / 4 - 1) + kl, rel=1e-12)
    assert record.loss.item() == loss.item()
    assert record.error.item() == pytest.approx(error, rel=1e-12)
    assert record.kl.item() == pytest.approx(kl, rel=1e-12)


def test_the_record_says_how_many_examples_meet_the_bound():
    x, noise = make_batch(torch.float64)
    model = make_model(torch.float64)
    z = model.encode(x).draw(noise.eps)
    middle = squared_error(x, model.decode(z)).sort().values[9:11].mean().item()
    assert make(middle, torch.float64)(x, noise)[1].hits == 10 / BATCH


def test_two_bounds_add_up():
    x, noise = make_batch(torch.float64)
    squared, absolute = make(4.0, torch.float64), make(3.0, torch.float64, error=absolute_error)
    both = make([4.0, 3.0], torch.float64, error=two_errors)
    kl = squared(x, noise)[1].kl
    torch.testing.assert_close(both(x, noise)[0], squared(x, noise)[0] + absolute(x, noise)[0] - kl)
    assert both(x, noise)[1].error == squared(x, noise)[1].error
    hits = [make([tau, 1e9], torch.float64, error=two_errors)(x, noise)[1].hits for tau in (1e-9, 1e9)]
    assert hits == [0, 1], "an example must meet every bound"


def test_loss_and_gradients_do_not_depend_on_the_unit():
    losses, gradients = [], []
    for unit in (1.0, 1024.0):
        fast = make(4.0 * unit**2, torch.float64)
        fast.model.scaling.fit(torch.zeros(6).double(), torch.tensor(unit).double())
        x, noise = make_batch(torch.float64)
        loss, _ = fast(x * unit, noise)
        loss.backward()
        losses.append(loss)
        gradients.append(torch.cat([p.grad.flatten() for p in fast.model.parameters() if p.requires_grad]))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)


def test_closed_gates_get_no_gradient_and_the_logits_never_do():
    fast = make()
    fast.model.gates.close([1, 3])
    loss, _ = fast(*make_batch())
    loss.backward()
    head, stem = fast.model.encoder.head, fast.model.decoder.stem
    for gate in range(N):
        rows = [gate, N + gate]
        parts = (head.weight.grad[rows], head.bias.grad[rows], stem.weight.grad[:, gate])
        assert all((part == 0).all() if gate in (1, 3) else (part != 0).any() for part in parts)
    assert fast.model.gates.logits.grad is None
    assert all(p is not fast.model.gates.logits for group in make_optimiser(fast).param_groups for p in group["params"])


def test_all_gates_closed_is_finite():
    fast = make()
    fast.model.gates.close(range(N))
    loss, record = fast(*make_batch())
    loss.backward()
    assert record.kl == 0
    assert all(torch.isfinite(p.grad).all() for p in fast.model.parameters() if p.grad is not None)
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 2 * DECIDE_EVERY)
    assert all(torch.isfinite(p).all() for p in fast.model.parameters())


def test_the_noise_is_for_the_latents_alone(generator):
    noise = make().noise(BATCH, generator)
    assert noise.eps.shape == (BATCH, N)
    assert noise.u.numel() == 0


# The target


@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("terms", [Terms(), Terms(0.99, limit=20.0)])
def test_a_small_margin_is_the_certificates(spread, terms):
    fast = make(4.0, split_sizes=(4_000, 1_000), terms=terms)
    fast.monitor.spread.fill_(spread)
    assert 4 - fast.target().item() == pytest.approx(terms.margin(spread, 4_000, 1_000, ALLOWANCE))
    fast.controller.phase = "release"
    assert 4 - fast.target().item() == pytest.approx(terms.margin(spread, 4_000, 1_000, LAST_ALLOWANCE))


@pytest.mark.parametrize("spread", [1e2, 1e9])
def test_the_margin_is_a_small_share_of_tau_at_most(spread):
    fast = make([4.0, 40.0], error=two_errors)
    fast.monitor.spread.fill_(spread)
    assert fast.target().tolist() == pytest.approx([4 * (1 - MOST_MARGIN), 40 * (1 - MOST_MARGIN)])
    assert MOST_MARGIN < 0.5


def test_the_margin_is_never_less_than_an_exact_certificate_needs():
    terms = Terms(limit=1_000.0)
    least = terms.room(0.0, 1_000)
    fast = make(4.0, split_sizes=(4_000, 1_000), terms=terms)
    assert MOST_MARGIN * 4 < least < 4
    for spread in (0.0, 1e9):
        fast.monitor.spread.fill_(spread)
        assert fast.target().item() <= 4 - least + 1e-9
    assert fast.target().item() == pytest.approx((1 - MOST_MARGIN) * (4 - least))


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e9])
def test_the_last_phase_aims_no_higher_and_at_a_share_of_tau_at_least(spread):
    fast = make(4.0)
    fast.monitor.spread.fill_(spread)
    before = fast.target().item()
    fast.controller.phase = "release"
    after = fast.target().item()
    assert after <= before
    assert (after < before) == (spread > 0)
    assert after >= 4 * (1 - MOST_LAST_MARGIN) - 1e-12


def test_an_aim_sets_the_target():
    fast = make([4.0, 40.0], error=two_errors, aim=0.75)
    fast.monitor.spread.fill_(1.0)
    assert fast.target().tolist() == [3.0, 30.0]


def test_without_a_tolerance_errors_are_as_they_are():
    fast = make(None)
    assert fast.target().tolist() == [1.0]
    assert not fast.controller.bounded
    train(fast, make_optimiser(fast), MEASURE_EVERY)
    assert fast.controller.seen == [(MEASURE_EVERY, fast.watched.item())]


@pytest.mark.parametrize(("kind", "closes"), [(Fast, True), (Plain, False)])
def test_a_plain_vae_is_the_same_recipe_that_closes_nothing(kind, closes):
    inputs = RecipeInputs(
        model=make_model(),
        error=squared_error,
        tau=4.0,
        aim=None,
        steps=None,
        seed=0,
        effort="thorough",
        relative=True,
        estimator="arm",
        share_gates=False,
        held_out=lambda count, generator: examples(count, generator),
        split_sizes=(400, 100),
        share=all_rows,
    )
    config = kind.build(inputs).controller.config
    assert (config.closes, config.patience) == (closes, EFFORTS["thorough"])


# After each step


def test_the_worst_of_several_bounds_is_what_counts():
    for tolerance, worst in (([1.0, 1e6], 0), ([1e6, 1.0], 1)):
        fast = make(tolerance, error=two_errors)
        train(fast, make_optimiser(fast), MEASURE_EVERY)
        share = fast.watched / fast.target()
        assert share.argmax() == worst
        assert fast.controller.seen == [(MEASURE_EVERY, share.max().item())]


def test_the_joint_cost_of_directions_is_its_largest_share_of_any_target():
    fast = make([4.0, 3.0], error=two_errors, controller=Scripted(at_20=Decision("close", [1])))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 19)
    run_one(fast, optimiser)
    again = torch.Generator()
    again.set_state(fast.monitor.generator.get_state())
    assert fast.decide() is not None
    x, _, z = fast.monitor.draw(TURNED, again)
    assert fast.turning.found is not None
    costs = joint_costs(fast.monitor.averaged, fast.turning.found, z, x, two_errors)
    expected = [(gate, (cost / fast.target()).max().item()) for gate, cost in costs]
    assert fast.controller.joint == expected
    assert sorted(gate for gate, _ in expected) == list(range(N))


class Sum(nn.Module):
    """Reads z a second time, so that it cannot be turned."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(N, 6)

    def forward(self, z):
        return self.first(z) + z.sum(1, keepdim=True)


def test_where_the_latent_space_cannot_be_turned_single_dimensions_close_by_their_costs():
    """A cost below 0 is noise: it counts as 0, and makes no room for others."""
    torch.manual_seed(2)
    model = GatedVAE(nn.Linear(6, 2 * N), Sum(), N)
    fast = make([4.0, 3.0], model=model, error=two_errors, controller=Scripted(at_40=Decision("close", [1])))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 39)
    assert not model.mixable
    run_one(fast, optimiser)
    fast.monitor.sums[2] = -1e6
    before = [tensor.clone() for tensor in model.state_dict().values()]
    decision = fast.decide()
    shares = (fast.monitor.costs() / fast.target()).amax(1).tolist()
    order = sorted(range(N), key=lambda gate: shares[gate])
    expected = itertools.accumulate(max(0.0, shares[gate]) for gate in order)
    assert [gate for gate, _ in fast.controller.joint] == order
    assert [cost for _, cost in fast.controller.joint] == pytest.approx(list(expected))
    assert order[0] == 2
    assert fast.controller.joint[0][1] == 0
    model.gates.close([3])
    fast.act(decision, optimiser)
    model.gates.open(range(N))
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))


def test_costs_of_single_dimensions_are_unknown_until_each_has_been_tried():
    model = GatedVAE(nn.Linear(6, 2 * N), Sum(), N)
    fast = make(model=model, controller=Scripted(at_10=Decision("close", [1])))
    train(fast, make_optimiser(fast), 10)
    assert MEASURE_EVERY > 10
    assert fast.controller.joint is None


def test_deciding_changes_nothing_and_acting_does():
    decision = Decision("close", [1, 3])
    fast = make(controller=Scripted(at_20=decision))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 19)
    run_one(fast, optimiser)
    before = copy.deepcopy(fast.model.state_dict())
    assert fast.decide() == decision
    assert fast.model.gates.kept() == [0, 1, 2, 3, 4]
    assert all(torch.equal(tensor, before[name]) for name, tensor in fast.model.state_dict().items())
    fast.act(decision, optimiser)
    assert fast.model.gates.kept() == fast.monitor.averaged.gates.kept() == [0, 2, 4]


def test_before_gates_close_the_latent_space_takes_other_coordinates_and_decodes_the_same():
    """... in the trained model, which is what the average begins with, and in the model that is kept to come back."""
    fast = make(dtype=torch.float64, controller=Scripted(at_20=Decision("close", [4])))
    optimiser = make_optimiser(fast)
    x = examples(50).double()
    train(fast, optimiser, 19, dtype=torch.float64)
    run_one(fast, optimiser, dtype=torch.float64)
    with torch.no_grad():
        trained, averaged = fast.model.reconstruct(x), fast.candidate.reconstruct(x)
        codes = fast.model.encode(x).mean
        decision = fast.decide()
        turn = fast.turning.found
        fast.act(decision, optimiser)
        assert not torch.allclose(fast.model.encode(x).mean, codes, atol=0.1)
        torch.testing.assert_close(fast.model.encode(x).mean, turn.apply(codes), rtol=1e-10, atol=1e-10)
        assert not torch.allclose(fast.model.reconstruct(x), trained, atol=1e-4), "a direction is closed"
        torch.testing.assert_close(fast.candidate.reconstruct(x), fast.model.reconstruct(x), rtol=0, atol=0)
        fast.model.gates.open(range(N))
        torch.testing.assert_close(fast.model.reconstruct(x), trained, rtol=1e-10, atol=1e-10)
        before = copy.deepcopy(fast.model)
        before.load_state_dict(fast.good)
        torch.testing.assert_close(before.reconstruct(x), averaged, rtol=1e-10, atol=1e-10)
    assert fast.turning.found is None


def test_after_a_turn_costs_of_single_dimensions_are_unknown():
    fast = make(controller=Scripted(at_40=Decision("close", [1])))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 39)
    assert all(math.isfinite(cost) for cost in fast.costs())
    train(fast, optimiser, 1)
    assert all(math.isnan(cost) for cost in fast.costs())
    train(fast, optimiser, 40)
    assert [math.isfinite(cost) for cost in fast.costs()] == [True, False, True, True, True]


def test_restoring_brings_back_the_average_of_before_the_closing():
    """All weights, trained or averaged, and the gates: bit for bit what it was in the coordinates of the closing."""
    script = Scripted(at_20=Decision("close", [1, 3]), at_60=Decision("restore", [1, 3]))
    fast = make(dtype=torch.float64, controller=script)
    optimiser = make_optimiser(fast)
    x = examples(50).double()
    train(fast, optimiser, 19, dtype=torch.float64)
    run_one(fast, optimiser, dtype=torch.float64)
    with torch.no_grad():
        before = fast.candidate.reconstruct(x)
    fast.act(fast.decide(), optimiser)
    good = {name: tensor.clone() for name, tensor in fast.good.items()}
    train(fast, optimiser, 39, dtype=torch.float64)
    assert fast.model.gates.kept() == [0, 2, 4]
    assert not torch.equal(fast.model.encoder.first.weight, good["encoder.first.weight"])
    train(fast, optimiser, 1, dtype=torch.float64)
    for model in (fast.model, fast.candidate):
        assert all(torch.equal(tensor, good[name]) for name, tensor in model.state_dict().items())
        assert model.gates.kept() == list(range(N))
        with torch.no_grad():
            torch.testing.assert_close(model.reconstruct(x), before, rtol=1e-10, atol=1e-10)
    train(fast, optimiser, 1, dtype=torch.float64)
    assert all(torch.equal(tensor, good[name]) for name, tensor in fast.good.items()), "training does not move it"


# Calibration


def panel_is_easier(seed: int, factor: float):
    """Held-out data on which the panel's examples are that much smaller than all others."""

    def draw(count, generator):
        is_panel = generator.initial_seed() == 1_000 * seed
        return examples(count, generator) * (1.0 if is_panel else factor)

    return draw


def test_an_error_within_its_target_is_confirmed_on_many_examples_before_gates_close():
    """The panel is within and all data are not: nothing closes, and what was seen is corrected."""
    seed = 3
    level = make(held_out=panel_is_easier(seed, 1.0), seed=seed).monitor.measure().item()
    decisions = {}
    for factor in (1.0, 3.0):
        draw = panel_is_easier(seed, factor)
        fast = make(2 * level, held_out=draw, seed=seed, aim=1.0)
        decisions[factor] = train(fast, make_optimiser(fast, 1e-12), 60)
        assert fast.calibrated >= 50
        truth = squared_error(x := draw(20_000, torch.Generator().manual_seed(1)), fast.candidate.reconstruct(x))
        share = truth.mean().item() / (2 * level)
        assert [error for _, error in fast.controller.seen] == pytest.approx(
            [share] * len(fast.controller.seen), rel=0.2
        )
        assert (share > 1) == (factor == 3.0)
        assert fast.heldout_error() == pytest.approx(truth.mean().item(), rel=0.2)
    assert [decision.action for decision in decisions[1.0]] == ["close"]
    assert decisions[3.0] == []


def test_a_calibration_also_counts_the_margin_that_it_finds():
    """Until the first one the spread is unknown and the target is tau: what was seen becomes a share of the new one."""
    level = make(seed=3).monitor.measure().item()
    for share, acts in ((1.1, False), (2.0, True)):
        fast = make(share * level, seed=3, split_sizes=(400, 100))
        decisions = train(fast, make_optimiser(fast, 1e-12), 50)
        assert fast.calibrated == 50
        now = (fast.monitor.measure() / fast.target()).max().item()
        assert (now <= 1) is acts
        assert bool(decisions) is acts
        if not acts:
            assert fast.controller.seen[-1][1] == pytest.approx(now, rel=1e-6)


def test_it_is_confirmed_again_once_the_run_is_a_share_longer_and_a_number_of_times_in_the_last_phase():
    fast = make(1e6, controller=Scripted(at_1000=Decision("release", [])))
    calls = []
    calibrate = fast.monitor.calibrate
    fast.monitor.calibrate = lambda count: (calls.append(fast.controller.step), calibrate(count))[1]
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 999)
    assert calls[0] == fast.controller.config.pause
    assert all(
        CALIBRATE_AFTER <= later / earlier < CALIBRATE_AFTER * 1.2 for earlier, later in itertools.pairwise(calls)
    )
    assert calls[-1] > 1_000 / CALIBRATE_AFTER - DECIDE_EVERY
    train(fast, optimiser, 1)
    assert calls[-1] == 1_000, "when the last phase begins"
    before = len(calls)
    train(fast, optimiser, fast.controller.limit)
    assert abs(len(calls) - before - CALIBRATIONS) <= 1


# The last phase


def test_each_multiplier_is_steered_by_its_own_violation_and_only_in_the_last_phase():
    fast = make([1e-3, 1e6], error=two_errors, controller=Scripted(at_10=Decision("release", [])))
    optimiser = make_optimiser(fast)
    fast.constraint.inverse.fill_(1.0)
    train(fast, optimiser, 10)
    assert fast.constraint.multiplier().tolist() == [1.0, 1.0]
    train(fast, optimiser, MEASURE_EVERY - 11)
    assert fast.constraint.multiplier().tolist() == [1.0, 1.0], "nothing has been measured since the change"
    train(fast, optimiser, 1)
    expected = SteeredBound([1.0, 1.0])
    expected.inverse.fill_(1.0)
    expected.steer((fast.watched / fast.target() - 1).float())
    torch.testing.assert_close(fast.constraint.inverse, expected.inverse)
    violated, idle = fast.constraint.multiplier().tolist()
    assert violated > 1 > idle


def test_without_a_tolerance_nothing_is_steered():
    fast = make(None, controller=Scripted(at_10=Decision("release", [])))
    fast.constraint.inverse.fill_(1.0)
    train(fast, make_optimiser(fast), 20)
    assert fast.constraint.multiplier().item() == 1


def test_the_learning_rate_falls_to_a_hundredth_over_the_last_part_of_the_last_phase():
    fast = make(controller=Controller(ControllerConfig(), steps=100))
    fast.controller.phase, fast.controller.limit, fast.controller.falls_from = "release", 40, 24
    optimiser = torch.optim.Adam([{"params": [p], "lr": 1e-3} for p in fast.model.parameters()])
    optimiser.param_groups[1]["lr"] = 1e-2
    rates = [[1e-3, 1e-2]]
    for _ in range(40):
        train(fast, optimiser, 1)
        rates.append([group["lr"] for group in optimiser.param_groups[:2]])
    starts, middle = 24, 32
    assert rates[1] == rates[starts] == pytest.approx([1e-3, 1e-2])
    assert rates[middle] == pytest.approx([0.505e-3, 0.505e-2])
    assert rates[40] == pytest.approx([1e-5, 1e-4])
    assert all(later < earlier for (earlier, _), (later, _) in itertools.pairwise(rates[starts:]))
    assert fast.done


def test_the_average_is_shorter_in_the_last_phase():
    fast = make(controller=Scripted(at_10=Decision("release", [])))
    follow, windows = fast.monitor.follow, []
    fast.monitor.follow = lambda since, window: (windows.append((since, window)), follow(since, window))
    train(fast, make_optimiser(fast), 20)
    assert windows == [(since, WINDOW) for since in range(1, 11)] + [(since, LAST_WINDOW) for since in range(1, 11)]
    assert LAST_WINDOW < WINDOW


def test_the_last_phase_begins_in_new_coordinates_that_decode_the_same_at_a_lower_kl():
    """Centred where they were not, and the KL term of badly scaled codes falls at once; closed gates are left alone."""
    used = []

    def training(count, generator):
        used.append(examples(count, generator).double())
        return used[-1]

    fast = make(dtype=torch.float64, training_examples=training, controller=Scripted(at_20=Decision("release", [])))
    optimiser = make_optimiser(fast, 1e-9)
    model, x = fast.model, examples(200).double()
    with torch.no_grad():  # latents of many sizes, far from 0
        model.encoder.head.weight[:N].mul_(torch.tensor([3.0, 10.0, 1.0, 30.0, 20.0]).double()[:, None])
        model.encoder.head.bias[:N].add_(torch.tensor([0.0, 5.0, -5.0, 1.0, 2.0]).double())
    model.gates.close([1])
    fast.monitor.restart()
    train(fast, optimiser, 19, dtype=torch.float64)
    run_one(fast, optimiser, dtype=torch.float64)
    with torch.no_grad():
        fast.monitor.restart()  # the average and the model are one
        before, codes = model.reconstruct(x), model.encode(x)
        decision = fast.decide()
        assert decision.action == "release"
        fast.act(decision, optimiser)
        after = model.encode(x)
        torch.testing.assert_close(model.reconstruct(x), before, rtol=1e-10, atol=1e-10)
        kept = [0, 2, 3, 4]
        centre = model.encode(torch.cat(used[-TURNED_AT_LAST // TURNED :])).mean[:, kept].mean(0)
        torch.testing.assert_close(centre, torch.zeros_like(centre), rtol=0, atol=1e-5)
        assert kl_elements(*after)[:, kept].sum() < 0.2 * kl_elements(*codes)[:, kept].sum()
        for one, other in zip(codes, after, strict=True):
            torch.testing.assert_close(one[:, 1], other[:, 1], rtol=0, atol=0)
    assert same_state(model, fast.candidate)


@pytest.mark.parametrize("tolerance", [10.0, 5.0])
def test_the_posteriors_noise_takes_the_slack_at_once_and_lambda_follows(tolerance):
    """Roughly when the last phase begins, so that steering need not travel far, and exactly when it ends."""
    fast = make(tolerance, controller=Scripted(at_400=Decision("release", []), at_600=Decision("end", [])))
    optimiser = make_optimiser(fast, 1e-2)
    x = examples(200)
    for batches, near in ((399, 0.3), (199, 0.03)):
        train(fast, optimiser, batches)
        run_one(fast, optimiser)
        with torch.no_grad():
            before = fast.candidate.reconstruct(x)
        assert fast.monitor.error_with(1.0)[0] < fast.target()
        decision = fast.decide()
        fast.controller.phase = "release" if decision.action == "release" else "ended"
        fast.act(decision, optimiser)
        with torch.no_grad():
            torch.testing.assert_close(fast.candidate.reconstruct(x), before, rtol=1e-4, atol=1e-4)
        error, spread = fast.monitor.error_with(1.0)
        torch.testing.assert_close(error, fast.target(spread), rtol=near, atol=0)
        assert 0.5 < fast.constraint.multiplier().item() < 5, "near 1 / 2, since the noise makes most of the error"


def test_the_last_phase_goes_on_from_the_better_of_trained_and_averaged_weights():
    for better in ("averaged", "trained"):
        fast = make(controller=Scripted())
        optimiser = make_optimiser(fast, 1e-2)
        train(fast, optimiser, 200)
        fast.monitor.restart()
        worse = fast.model if better == "averaged" else fast.candidate
        x = examples(50)
        with torch.no_grad():
            good = (fast.candidate if better == "averaged" else fast.model).eval().reconstruct(x)
            worse.decoder.last.bias.add_(3.0)
        fast.act(Decision("release", []), optimiser)
        with torch.no_grad():
            torch.testing.assert_close(fast.model.eval().reconstruct(x), good, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(fast.candidate.reconstruct(x), good, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [50, 57])
def test_a_run_of_any_given_length_ends_with_its_last_batch(steps):
    """So that its codes are settled, also where decisions are not due."""
    fast = make(controller=Controller(ControllerConfig(), steps=steps))
    decisions = train(fast, make_optimiser(fast), steps)
    assert decisions[-1].action == "end"
    assert fast.controller.step == steps
    assert fast.done


def quartic(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An error that grows with the square of the noise's variance."""
    return ((x - y) ** 4).sum(1)


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_is_found_for_errors_that_are_not_linear_in_its_variance(seed):
    fast = make(100.0, error=quartic, seed=seed, controller=Scripted(at_400=Decision("release", [])))
    optimiser = make_optimiser(fast, 1e-2)
    train(fast, optimiser, 600)
    fast.controller.phase = "ended"
    fast._calibrate()
    noise = fast.last_phase.find_noise()
    assert 0.9 <= fast.last_phase.share_of_target(noise) <= 1.031


def test_an_error_of_nothing_leaves_everything_finite():
    """A user's error may be 0 for every example, and then no ratio is known."""
    fast = make(error=lambda x, y: (squared_error(x, y) - 1e9).clamp(min=0), controller=Scripted())
    optimiser = make_optimiser(fast)
    for _ in range(3):
        fast._calibrate()
        train(fast, optimiser, 20)
    fast.act(Decision("release", []), optimiser)
    assert torch.isfinite(fast.monitor.ratio).all()
    assert all(torch.isfinite(p).all() for p in fast.model.parameters())


def test_codes_that_are_not_finite_are_said_to_have_diverged():
    fast = make()
    with torch.no_grad():
        fast.candidate.encoder.head.weight.fill_(math.nan)
    with pytest.raises(NarrowsError, match="training diverged; start again with a lower learning rate"):
        list(fast.turning.costs())


def test_without_slack_noise_and_lambda_stay():
    fast = make(1e-3)
    before = fast.monitor.error_with(1.0)[0]
    fast.act(Decision("release", []), make_optimiser(fast))
    torch.testing.assert_close(fast.monitor.error_with(1.0)[0], before, rtol=0.1, atol=0)
    assert fast.constraint.multiplier().item() == pytest.approx(60)


def test_the_final_codes_are_uncorrelated_over_training_examples():
    used = []

    def training(count, generator):
        used.append(examples(count, generator) * torch.tensor([1.0, 1, 1, 1, 1, 3]))
        return used[-1]

    fast = make(training_examples=training, controller=Scripted(at_300=Decision("release", [])))
    optimiser = make_optimiser(fast, 1e-2)
    train(fast, optimiser, 500)
    used.clear()
    fast.controller.phase = "ended"
    fast.act(Decision("end", []), optimiser)
    x = torch.cat(used)
    assert len(x) == SETTLED
    with torch.no_grad():
        codes = fast.candidate.encode(x).mean
    assert (torch.corrcoef(codes.T) - torch.eye(N)).abs().max() < 0.01


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions_close_and_settle(kind):
    fast = make(held_out=lambda count, generator: examples(count, generator).to(kind), model=make_model(kind))
    fast.controller = Scripted(at_20=Decision("close", [4]), at_40=Decision("release", []))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 60, dtype=kind)
    assert all(torch.isfinite(p).all() for p in fast.model.parameters())
    assert fast.model.decoder.stem.weight.dtype == kind


# Checkpoints


def small() -> Controller:
    return Controller(ControllerConfig(least_patience=40, judge_from=20, least_last=40, last=0.0, pause=20))


def test_a_run_that_goes_on_from_its_state_is_the_same_run():
    """Interrupted before the first closing and while gates are in question; it then undoes that, settles and ends."""
    generous = {"tolerance": 9.0, "seed": 4}
    fast = make(**generous, controller=small())
    optimiser = make_optimiser(fast, 3e-3)
    train(fast, optimiser, 5)
    early = make(**generous, controller=small())
    early_optimiser = save_and_load(fast, optimiser, early)
    decisions = []
    while fast.controller.phase == "fit":
        decisions += train(fast, optimiser, 1)
    assert fast.controller.phase == "closed"
    decisions += train(fast, optimiser, 5)
    late = make(**generous, controller=small())
    late_optimiser = save_and_load(fast, optimiser, late)
    early_decisions = train(early, early_optimiser, fast.controller.step - 5)
    rest = train(fast, optimiser, 300)
    assert {decision.action for decision in decisions + rest} == {"close", "restore", "release", "end"}
    assert early_decisions + train(early, early_optimiser, 300) == decisions + rest
    assert train(late, late_optimiser, 300) == rest
    for other in (early, late):
        assert same_state(fast, other)
        assert same_state(fast.candidate, other.candidate)
        assert torch.equal(fast.watched, other.watched)
        assert torch.equal(fast.monitor.costs(), other.monitor.costs())


@pytest.mark.parametrize("undone", [False, True])
def test_a_run_under_a_larger_tau_goes_on_where_a_closing_was_given_up(undone):
    """With the gates that closed still closed; and if it fails here too, the model from before it comes back."""
    tight = make(3.0, controller=Scripted(at_20=Decision("close", [1, 3]), at_60=Decision("restore", [1, 3])))
    optimiser = make_optimiser(tight)
    train(tight, optimiser, 59)
    run_one(tight, optimiser)
    decision = tight.decide()
    tight.controller.phase, tight.controller.pending = "restored", decision.gates
    state = copy.deepcopy(tight.recipe_state())
    loose = make(9.0, controller=small())
    loose.model.load_state_dict(tight.model.state_dict())
    loose.continue_from(state)
    assert loose.model.gates.kept() == [0, 2, 4]
    assert (loose.controller.phase, loose.controller.pending) == ("closed", [1, 3])
    assert same_state(loose.candidate, tight.candidate)
    if undone:
        loose.act(Decision("restore", [1, 3]), make_optimiser(loose))
        assert all(torch.equal(t, tight.good[name]) for name, t in loose.model.state_dict().items())


def test_a_closing_before_a_checkpoint_is_undone_after_it():
    script = {"at_20": Decision("close", [1, 3]), "at_40": Decision("restore", [1, 3])}
    fast = make(controller=Scripted(**script))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 30)
    good = {name: tensor.clone() for name, tensor in fast.good.items()}
    other = make(controller=Scripted(**script))
    other_optimiser = save_and_load(fast, optimiser, other)
    train(other, other_optimiser, 10)
    assert other.model.gates.kept() == [0, 1, 2, 3, 4]
    assert all(torch.equal(tensor, good[name]) for name, tensor in other.model.state_dict().items())


# A whole run


@pytest.fixture(scope="module")
def whole_run() -> dict:
    """The module's own example, word for word, on a plane in six dimensions whose variance is 200."""
    generator = torch.Generator().manual_seed(0)
    plane = torch.linalg.qr(torch.randn(6, 2, generator=generator)).Q

    def points(count):
        return 10 * torch.randn(count, 2, generator=generator) @ plane.T + 0.05 * torch.randn(
            count, 6, generator=generator
        )

    training, validation, test = points(20_000), points(2_000), points(2_000)
    torch.manual_seed(0)
    model = gated_vae(MLP)
    model.scaling.fit(training.mean(0), training.std(0).square().mean().sqrt())
    names = {
        "Fast": Fast,
        "make_optimiser": make_optimiser,
        "model": model,
        "validation": validation,
        "test": test,
        "generator": generator,
        "draw": lambda count, generator: validation[torch.randint(2_000, (count,), generator=generator)],
        "batches": (training[torch.randint(20_000, (64,), generator=generator)] for _ in range(8_000)),
    }
    example = narrows.recipes.fast.__doc__.split("In a loop of your own:")[1]
    exec(textwrap.dedent(example), names)
    return names


def test_the_example_ends_by_itself_with_as_many_dimensions_as_the_data_has(whole_run):
    assert whole_run["fast"].done
    assert whole_run["smaller"].n == 2
    assert len(whole_run["model"].gates.kept()) == 2


def test_the_examples_smaller_model_is_the_averaged_one_without_its_closed_dimensions(whole_run):
    x = whole_run["test"][:50]
    averaged = whole_run["fast"].monitor.averaged
    with torch.no_grad():
        torch.testing.assert_close(whole_run["smaller"].reconstruct(x), averaged.reconstruct(x), rtol=1e-4, atol=1e-4)


def test_both_dimensions_of_the_example_are_needed(whole_run):
    """Each carries half of the variance of 200."""
    fast = whole_run["fast"]
    assert (fast.monitor.costs()[fast.model.gates.kept(), 0] > 30).all()


# Bounds that are steered


@pytest.mark.parametrize(
    ("violation", "move"), [(0.1, 0.1), (-0.1, -0.1), (1.0, 1.0), (7.0, 1.0), (-0.9, -0.9), (-3.0, -1.0), (0.0, 0.0)]
)
def test_steering_moves_one_over_lambda_by_the_clipped_violation(violation, move):
    bound = SteeredBound(3.0)
    bound.inverse.fill_(1.0)
    bound.steer(torch.tensor([violation]), rate=0.02)
    assert bound.multiplier().item() == pytest.approx(1 / (1 - 0.02 * move), rel=1e-6)


@pytest.mark.parametrize(("first", "then", "change"), [(0.3, 0.3, 0.0), (0.3, 0.28, -0.02), (-0.2, -0.17, 0.03)])
def test_steering_also_moves_by_the_change_of_the_violation_once(first, then, change):
    bound = SteeredBound(3.0)
    bound.inverse.fill_(1.0)
    bound.steer(torch.tensor([first]), rate=0.02, lead=0.5)
    for _ in range(3):
        bound.steer(torch.tensor([then]), rate=0.02, lead=0.5)
    assert 1 / bound.multiplier().item() == pytest.approx(1 - 0.02 * (first + 3 * then) - 0.5 * change, rel=1e-5)


def test_lambda_is_never_above_its_start_and_never_below_its_least():
    bound = SteeredBound([1.0, 1.0], start=8.0)
    assert bound.multiplier().tolist() == pytest.approx([8.0, 8.0])
    for _ in range(1_000):
        bound.steer(torch.tensor([1.0, -1.0]), rate=1e3)
    assert bound.multiplier().tolist() == pytest.approx([8.0, 1e-5], rel=1e-4)
    for _ in range(100):
        bound.steer(torch.tensor([-1.0, 1.0]), rate=1e2)
    high, low = bound.multiplier().tolist()
    assert high < 7.5
    assert low > 1.1e-5, "it leaves its bounds as soon as the violation changes sign"


@pytest.mark.parametrize("lag", [1, 50, 100])
@pytest.mark.parametrize("floor", [0.0, 0.5, 0.9])
def test_steering_brings_the_error_to_its_target_and_keeps_it_there(floor, lag):
    """By rate and distortion the noise makes an error of tau / (2 lambda); the network adds its own, the floor.

    It is felt through the averaged weights and `watched`, which lag by some 150 batches, and the network lags too.
    """
    bound = SteeredBound(1.0)
    error = averaged = watched = floor
    seen = []
    for batch in range(1, 4_001):
        error += (floor + 0.5 / bound.multiplier().item() - error) / lag
        averaged += (error - averaged) / LAST_WINDOW
        if batch % MEASURE_EVERY == 0:
            watched += 0.3 * (averaged - watched)
        bound.steer(torch.tensor([watched - 1]))
        seen.append(watched)
    assert seen[-1_000:] == pytest.approx([1.0] * 1_000, abs=0.05)


def test_the_bound_is_relative_and_its_gradient_goes_to_the_error_alone():
    bound = SteeredBound([4.0, 10.0], start=2.0)
    error = torch.tensor([[6.0, 5.0], [2.0, 10.0]], requires_grad=True)
    term = bound(error)
    assert term.violation.tolist() == [[0.5, -0.5], [-0.5, 0.0]]
    assert term.loss.item() == pytest.approx(2 * (0.0 - 0.25))
    term.loss.backward()
    torch.testing.assert_close(error.grad, torch.tensor([[0.25, 0.1], [0.25, 0.1]]))
    assert list(bound.parameters()) == []


def test_without_a_tolerance_the_error_is_weighed_against_its_own_moving_average():
    bound = SteeredBound(None)
    assert not bound.bounded
    bound(torch.tensor([30.0, 50.0]))
    assert bound.tolerance.item() == pytest.approx(40)
    term = bound(torch.tensor([140.0]))
    assert bound.tolerance.item() == pytest.approx(0.99 * 40 + 0.01 * 140)
    assert term.violation.item() == pytest.approx(140 / 41 - 1)
    bound.eval()
    bound(torch.tensor([1e9]))
    assert bound.tolerance.item() == pytest.approx(41)


def test_a_tolerance_stays_what_it_is():
    bound = SteeredBound(4.0)
    bound(torch.tensor([1e9]))
    assert bound.tolerance.item() == 4


def test_the_state_of_a_steered_bound_is_in_its_state_dict():
    for tolerance in (4.0, None):
        bound, other = SteeredBound(tolerance), SteeredBound(tolerance)
        bound(torch.tensor([17.0]))
        bound.steer(torch.tensor([-1.0]))
        other.load_state_dict(bound.state_dict())
        assert other(torch.tensor([5.0])).loss.item() == bound(torch.tensor([5.0])).loss.item()


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan, math.inf, [4.0, 0.0], [4.0, math.nan]])
def test_tolerances_that_bound_nothing_are_refused(tolerance):
    with pytest.raises(NarrowsError, match="tolerances must be"):
        SteeredBound(tolerance)
