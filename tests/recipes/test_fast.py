"""The fast recipe: its loss by hand, what it does to the model when gates close, open and settle, and one whole run."""

import io
import itertools
import math
import textwrap

import pytest
import torch

import narrows.recipes.fast
from narrows._util.errors import NarrowsError
from narrows.constraint import SteeredBound
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.objective import absolute_error, squared_error
from narrows.recipes.base import Noise, make_optimiser
from narrows.recipes.controller import Controller, ControllerConfig, Decision
from narrows.recipes.fast import DECIDE_EVERY, FALLING, LAST_WINDOW, MEASURE_EVERY, MOST_MARGIN, WINDOW, Fast

N = 5
MLP = NetworkConfig("mlp", (6,), N, width=2, output="linear")
BATCH = 16


class Scripted(Controller):
    """Decides what the test says, by the batch, and remembers the costs it was told."""

    def __init__(self, **script: Decision) -> None:
        super().__init__()
        self.script = {int(name.removeprefix("at_")): decision for name, decision in script.items()}
        self.costs: dict[int, float] = {}

    def decide(self, costs):
        self.costs = dict(costs)
        decision = self.script.get(self.step)
        if decision is not None and decision.action == "release":
            return self._release()
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


def train(fast: Fast, optimiser: torch.optim.Optimizer, batches: int, seed: int = 0) -> list[Decision]:
    """Train for so many batches, the same for the same seed and step; return the decisions."""
    decisions = []
    for _ in range(batches):
        loss, _ = fast(*make_batch(seed=seed + 1_000 * fast.controller.step))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        decision = fast.after_step(optimiser)
        decisions += [decision] if decision else []
    return decisions


def latent_layer(model: GatedVAE, gate: int) -> list[torch.Tensor]:
    """All weights of one dimension: two rows of the head and their biases, one column of the stem."""
    rows = [gate, model.n + gate]
    head, stem = model.encoder.head, model.decoder.stem
    return [tensor.detach().clone() for tensor in (head.weight[rows], head.bias[rows], stem.weight[:, gate])]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


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
    assert loss.item() == pytest.approx(20 * (error / 4 - 1) + kl, rel=1e-12)
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
def test_a_small_margin_is_two_half_widths_of_a_95_percent_interval(spread):
    fast = make(4.0, split_sizes=(400, 100))
    fast.monitor.spread.fill_(spread)
    assert 4 - fast.target().item() == pytest.approx(1.96 * spread / 20 + 1.96 * spread / 10)


@pytest.mark.parametrize("spread", [1e2, 1e9])
def test_the_margin_is_a_small_share_of_tau_at_most(spread):
    fast = make([4.0, 40.0], error=two_errors)
    fast.monitor.spread.fill_(spread)
    assert fast.target().tolist() == pytest.approx([4 * (1 - MOST_MARGIN), 40 * (1 - MOST_MARGIN)])
    assert MOST_MARGIN < 0.5


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


# After each step


def test_the_worst_of_several_bounds_is_what_counts():
    for tolerance, worst in (([1.0, 1e6], 0), ([1e6, 1.0], 1)):
        fast = make(tolerance, error=two_errors)
        train(fast, make_optimiser(fast), MEASURE_EVERY)
        share = fast.watched / fast.target()
        assert share.argmax() == worst
        assert fast.controller.seen == [(MEASURE_EVERY, share.max().item())]


def test_a_gates_cost_is_its_largest_share_of_any_target():
    fast = make([4.0, 3.0], error=two_errors, controller=Scripted(at_10=Decision("close", [1])))
    train(fast, make_optimiser(fast), 20)
    shares = fast.monitor.costs() / fast.target()
    expected = {gate: max(shares[gate].tolist()) for gate in (0, 2, 3, 4)}
    assert fast.controller.costs == pytest.approx(expected)
    assert all(math.isfinite(cost) for cost in expected.values())


def test_deciding_changes_nothing_and_acting_does():
    decision = Decision("close", [1, 3])
    fast = make(controller=Scripted(at_10=decision))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 9)
    loss, _ = fast(*make_batch())
    loss.backward()
    optimiser.step()
    fast.update(optimiser)
    assert fast.decide() == decision
    assert fast.model.gates.kept() == [0, 1, 2, 3, 4]
    fast.act(decision)
    assert fast.model.gates.kept() == fast.monitor.averaged.gates.kept() == [0, 2, 4]


def test_an_opened_gate_has_the_weights_it_had_when_it_closed():
    """Adam's momentum moves closed gates, so that they must be put back; open ones keep what they learned."""
    fast = make(controller=Scripted(at_20=Decision("close", [1, 3]), at_40=Decision("reopen", [1])))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 20)
    closed = {gate: latent_layer(fast.model, gate) for gate in range(N)}
    train(fast, optimiser, 19)
    moved = {gate: latent_layer(fast.model, gate) for gate in range(N)}
    assert not any(same(closed[gate], moved[gate]) for gate in range(N))
    assert fast.model.gates.kept() == [0, 2, 4]
    train(fast, optimiser, 1)
    assert same(latent_layer(fast.model, 1), closed[1])
    assert not any(same(latent_layer(fast.model, gate), closed[gate]) for gate in (0, 2, 3, 4))
    assert fast.model.gates.kept() == [0, 1, 2, 4]
    averaged = fast.monitor.averaged.state_dict()
    assert all(torch.equal(tensor, averaged[name]) for name, tensor in fast.model.state_dict().items())


def test_restoring_brings_back_the_average_of_before_the_closing():
    fast = make(
        controller=Scripted(
            at_20=Decision("close", [1, 3]), at_40=Decision("reopen", [1, 3]), at_60=Decision("restore", [])
        )
    )
    optimiser = make_optimiser(fast)
    seen = {}
    for _ in range(60):
        loss, _ = fast(*make_batch(seed=fast.controller.step))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        fast.update(optimiser)
        decision = fast.decide()
        if decision is not None:
            averaged = fast.monitor.averaged.state_dict()
            seen.setdefault(decision.action, {name: tensor.clone() for name, tensor in averaged.items()})
            fast.act(decision)
    for model in (fast.model, fast.monitor.averaged):
        for name, tensor in model.state_dict().items():
            torch.testing.assert_close(tensor, seen["close"][name], rtol=0, atol=0)
    assert not torch.equal(seen["close"]["encoder.first.weight"], seen["restore"]["encoder.first.weight"])
    assert fast.model.gates.kept() == list(range(N))


def test_each_multiplier_is_steered_by_its_own_violation_and_only_in_the_last_phase():
    fast = make([1e-3, 1e6], error=two_errors, controller=Scripted(at_10=Decision("release", [])))
    optimiser = make_optimiser(fast)
    fast.constraint.inverse.fill_(1.0)
    train(fast, optimiser, 10)
    assert fast.constraint.multiplier().tolist() == [1.0, 1.0]
    train(fast, optimiser, 1)
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
    fast.controller.phase, fast.controller.limit = "release", 40
    optimiser = torch.optim.Adam([{"params": [p], "lr": 1e-3} for p in fast.model.parameters()])
    optimiser.param_groups[1]["lr"] = 1e-2
    rates = [[1e-3, 1e-2]]
    for _ in range(40):
        train(fast, optimiser, 1)
        rates.append([group["lr"] for group in optimiser.param_groups[:2]])
    starts, middle = round(40 * (1 - FALLING)), round(40 * (1 - FALLING / 2))
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


# Standardising


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("closed", [[], [1, 3], [0, 1, 2, 3, 4]], ids=["all open", "some closed", "all closed"])
def test_standardising_does_not_change_what_is_decoded_and_makes_each_open_dimension_standard(dtype, tolerance, closed):
    """The log standard deviations pass a tanh, so that they move by the log of the scale only nearly: 1%."""
    used = []

    def held_out(count, generator):
        used.append(examples(count, generator).to(dtype))
        return used[-1]

    fast = make(dtype=dtype, held_out=held_out)
    model = fast.model
    with torch.no_grad():  # latents of many sizes, far from 0
        model.encoder.head.weight[:N].mul_(torch.tensor([3.0, 10.0, 1.0, 30.0, 20.0], dtype=dtype)[:, None])
        model.encoder.head.bias[:N].add_(torch.tensor([0.0, 5.0, -5.0, 1.0, 2.0], dtype=dtype))
    model.gates.close(closed)
    fast.monitor.restart()
    layers = {gate: latent_layer(model, gate) for gate in closed}
    x = examples(100).to(dtype)
    with torch.no_grad():
        before = model.reconstruct(x)
        fast.standardise()
        torch.testing.assert_close(model.reconstruct(x), before, rtol=tolerance, atol=tolerance)
        posterior = model.encode(used[0])
    for gate in range(N):
        mean = posterior.mean[:, gate].mean().item()
        variance = (posterior.mean[:, gate].var(correction=0) + (2 * posterior.log_std[:, gate]).exp().mean()).item()
        if gate in closed:
            assert same(latent_layer(model, gate), layers[gate])
        else:
            assert mean == pytest.approx(0, abs=10 * tolerance)
            assert variance == pytest.approx(1, abs=0.01)


def test_the_last_phase_begins_with_standard_dimensions():
    fast = make(controller=Scripted(at_20=Decision("release", [])))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 19)
    calls = []
    fast.standardise = lambda: calls.append(fast.controller.step)
    train(fast, optimiser, 11)
    assert calls == [20]


# Checkpoints


def small() -> Controller:
    return Controller(ControllerConfig(least_patience=40, judge_from=20, least_last=40, last=0.0, pause=20))


def test_a_run_that_goes_on_from_its_state_is_the_same_run():
    """Interrupted while gates are in question; it then opens them, settles and ends."""
    generous = {"tolerance": 9.0, "seed": 4}
    fast = make(**generous, controller=small())
    optimiser = make_optimiser(fast, 3e-3)
    while fast.controller.phase == "fit":
        train(fast, optimiser, 1)
    assert fast.controller.phase == "closed"
    train(fast, optimiser, 5)
    file = io.BytesIO()
    torch.save([fast.state_dict(), fast.recipe_state(), optimiser.state_dict()], file)
    other = make(**{**generous, "seed": 5}, controller=small())
    other_optimiser = make_optimiser(other, 1.0)
    weights, state, moments = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    other.load_state_dict(weights)
    other.load_recipe_state(state)
    other_optimiser.load_state_dict(moments)
    decisions = train(fast, optimiser, 300)
    assert {decision.action for decision in decisions} == {"close", "reopen", "release", "end"}
    assert train(other, other_optimiser, 300) == decisions
    for (name, tensor), again in zip(fast.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(tensor, again), name
    assert torch.equal(fast.watched, other.watched)
    assert torch.equal(fast.monitor.costs(), other.monitor.costs())


def test_a_gate_closed_before_a_checkpoint_has_its_weights_back_when_it_is_opened_after_it():
    script = {"at_20": Decision("close", [1, 3]), "at_40": Decision("reopen", [1, 3])}
    fast = make(controller=Scripted(**script))
    optimiser = make_optimiser(fast)
    train(fast, optimiser, 20)
    closed = {gate: latent_layer(fast.model, gate) for gate in (1, 3)}
    train(fast, optimiser, 10)
    file = io.BytesIO()
    torch.save([fast.state_dict(), fast.recipe_state(), optimiser.state_dict()], file)
    other = make(controller=Scripted(**script))
    other_optimiser = make_optimiser(other)
    weights, state, moments = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    other.load_state_dict(weights)
    other.load_recipe_state(state)
    other_optimiser.load_state_dict(moments)
    train(other, other_optimiser, 10)
    assert other.model.gates.kept() == [0, 1, 2, 3, 4]
    assert all(same(latent_layer(other.model, gate), closed[gate]) for gate in (1, 3))


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
        "torch": torch,
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
            watched += 0.08 * (averaged - watched)
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
