"""The averaged weights, the panel's error and the costs of removal, against what is computed without short cuts."""

import copy
import io
from functools import cache

import numpy as np
import pytest
import torch

from narrows.data import from_array
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig
from narrows.objective import squared_error
from narrows.recipes.monitor import ENOUGH, MANY, MEMORY, PANEL, PART, Monitor
from narrows.training import validation

N = 5


def make_model(n: int = N) -> GatedVAE:
    """Build an untrained model."""
    torch.manual_seed(3)
    return gated_vae(NetworkConfig("mlp", (6,), n, width=2, output="linear"))


@cache
def training() -> dict[str, torch.Tensor]:
    """Train for a moment, so that each dimension carries something."""
    model = make_model()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for seed in range(300):
        optimiser.zero_grad()
        x = examples(64, seed)
        squared_error(x, model.reconstruct(x, torch.Generator().manual_seed(seed))).mean().backward()
        optimiser.step()
    return model.state_dict()


def trained() -> GatedVAE:
    model = make_model()
    model.load_state_dict(training())
    return model


def examples(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))


def held_out(count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, 6, generator=generator)


def monitor_of(model: GatedVAE, error=squared_error, bounds: int = 1, **settings) -> Monitor:
    return Monitor(model, error, bounds, settings.pop("held_out", held_out), **settings)


def panel_of(monitor: Monitor) -> tuple[torch.Tensor, torch.Tensor]:
    """The panel's x and z."""
    x, _, z = monitor.draw(PANEL, monitor._again(0))
    return x, z


def weights(model: GatedVAE) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for name, p in model.named_parameters() if name != "gates.logits"])


def move_to(model: GatedVAE, value: float) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "gates.logits":
                parameter.fill_(value)


@torch.no_grad()
def rises(model: GatedVAE, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """How much each example's error rises when each gate is closed: (batch, n)."""
    hard = model.gates.hard()
    error = squared_error(x, model.decode(z, hard)).double()
    columns = []
    for gate in range(model.n):
        without = hard.clone()
        without[gate] = 0
        columns.append(squared_error(x, model.decode(z, without)).double() - error)
    return torch.stack(columns, 1)


# The averaged weights


@pytest.mark.parametrize(("since", "window"), [(0, 500), (0, 1), (1_000, 1)])
def test_the_average_of_one_batch_is_the_trained_weights(since, window):
    model = make_model()
    monitor = monitor_of(model)
    move_to(model, 7.0)
    monitor.follow(since, window)
    assert torch.equal(weights(monitor.averaged), weights(model))


def test_weights_that_do_not_move_stay_as_they_are():
    model = make_model()
    monitor = monitor_of(model)
    for since in range(1, 50):
        monitor.follow(since, 20)
    assert torch.equal(weights(monitor.averaged), weights(model))


def test_the_average_of_weights_that_move_steadily_lags_by_its_window():
    """At first by about a quarter of the batches so far, a fifth of them in all; in the end by window - 1."""
    model = make_model().double()
    monitor = monitor_of(model)
    move_to(model, 0.0)
    monitor.restart()
    expected, lags = 0.0, []
    for since in range(1, 301):
        move_to(model, float(since))
        monitor.follow(since, 20)
        expected += max(1 / (1 + since / 4), 1 / 20) * (since - expected)
        if since % 10 == 0:
            torch.testing.assert_close(weights(monitor.averaged), torch.full_like(weights(model), expected))
        lags.append(since - expected)
    assert lags[39] == pytest.approx(40 / 5, rel=0.02)
    assert lags[-1] == pytest.approx(19, rel=1e-3)


def test_running_statistics_are_averaged_like_weights():
    torch.manual_seed(3)
    model = gated_vae(NetworkConfig("conv", (1, 28, 28), 3, width=2))
    monitor = monitor_of(model)
    model.encoder.norms[0].running_mean.fill_(8.0)
    monitor.follow(4, 500)  # weight 1 / (1 + 4 / 4)
    assert monitor.averaged.encoder.norms[0].running_mean.tolist() == [4.0, 4.0]


def test_a_restart_copies_the_weights_and_the_gates():
    model = make_model()
    monitor = monitor_of(model)
    move_to(model, 7.0)
    model.gates.close([2])
    monitor.restart()
    assert torch.equal(weights(monitor.averaged), weights(model))
    assert monitor.averaged.gates.kept() == [0, 1, 3, 4]


def test_gates_are_copied_and_not_averaged():
    model = make_model()
    monitor = monitor_of(model)
    model.gates.close([1, 4])
    monitor.follow(100_000, 500)
    assert torch.equal(monitor.averaged.gates.logits, model.gates.logits)


def test_following_and_measuring_leave_the_trained_model_alone():
    model = make_model()
    before = copy.deepcopy(model.state_dict())
    monitor = monitor_of(model)
    monitor.follow(10, 500)
    monitor.measure()
    monitor.calibrate()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(p.requires_grad for p in monitor.averaged.parameters())
    assert model.decoder.stem.weight.requires_grad


# The error


def test_the_error_is_that_of_an_evaluation_with_the_same_noise(monkeypatch):
    monkeypatch.setattr(validation, "BATCH", PANEL)
    model = make_model()
    model.gates.close([3])
    data = from_array(examples(PANEL).numpy(), values="any")
    x = data.examples.batch(np.arange(PANEL))
    monitor = monitor_of(model, seed=11, held_out=lambda count, generator: x)
    sampled, _ = validation.per_input(model, data.examples, np.arange(PANEL), monitor._again(0).initial_seed())
    assert monitor.measure().item() == pytest.approx(sampled.mean(), rel=1e-6)


def test_the_same_examples_and_noise_are_measured_each_time():
    """So that a curve shows training and nothing else; another seed has other examples."""
    model = make_model()
    monitor = monitor_of(model, seed=11)
    first = monitor.measure()
    assert all(torch.equal(monitor.measure(), first) for _ in range(3))
    assert not torch.equal(monitor_of(model, seed=12).measure(), first)
    move_to(model, 7.0)
    monitor.restart()
    assert not torch.equal(monitor.measure(), first)


def test_the_error_is_that_of_the_averaged_weights():
    model = make_model()
    monitor = monitor_of(model, seed=11)
    alone = monitor_of(copy.deepcopy(model), seed=11)
    move_to(model, 7.0)
    assert torch.equal(monitor.measure(), alone.measure())


# Calibration


def test_calibrated_errors_are_those_of_many_examples():
    """With all gates closed nothing but x counts: mean and spread by hand, over examples that the panel has not."""
    model = make_model()
    model.gates.close(range(N))
    drawn = []

    def recorded(count, generator):
        drawn.append(held_out(count, generator) * max(1, len(drawn)))  # the panel, measured twice, is the easiest
        return drawn[-1]

    monitor = monitor_of(model, held_out=recorded)
    panel = monitor.measure()
    factor = monitor.calibrate()
    many = torch.cat(drawn[2:])
    assert len(many) == MANY
    assert all(len(part) == PART for part in drawn[1:])
    with torch.no_grad():
        errors = squared_error(many, model.decode(torch.zeros(MANY, N))).double()
    torch.testing.assert_close(monitor.spread, errors.std(correction=0)[None])
    skewness = ((errors - errors.mean()) / errors.std(correction=0)).pow(3).mean()
    torch.testing.assert_close(monitor.skewness, skewness[None])
    torch.testing.assert_close(factor, errors.mean()[None] / panel)
    torch.testing.assert_close(monitor.panel * monitor.ratio, errors.mean()[None])
    drawn.clear()
    torch.testing.assert_close(monitor.measure(), errors.mean()[None])


def test_calibrating_again_changes_nothing_while_the_weights_stay():
    monitor = monitor_of(make_model())
    monitor.measure()
    monitor.calibrate()
    ratio = monitor.ratio.clone()
    assert not torch.equal(ratio, torch.ones_like(ratio))
    torch.testing.assert_close(monitor.calibrate(), torch.ones_like(ratio))
    torch.testing.assert_close(monitor.ratio, ratio)


def test_the_factor_brings_earlier_estimates_up_to_date():
    """What was measured times the factor is what would be measured now."""
    model = make_model()
    monitor = monitor_of(model)
    monitor.measure()
    monitor.calibrate()
    move_to(model, 0.3)
    monitor.restart()
    before = monitor.measure()
    factor = monitor.calibrate()
    assert (factor - 1).abs() > 1e-3
    torch.testing.assert_close(monitor.measure(), before * factor)


def test_calibrating_does_not_move_the_generator_of_the_measurements():
    """So that a run decides the same whether or not it looked."""
    monitor = monitor_of(make_model(), seed=5)
    monitor.measure()
    before = monitor.generator.get_state()
    monitor.calibrate()
    assert torch.equal(monitor.generator.get_state(), before)


def test_a_perfect_model_has_a_finite_ratio():
    monitor = monitor_of(make_model(), error=lambda x, y: 0 * squared_error(x, y))
    assert monitor.measure() == 0
    monitor.calibrate()
    assert torch.isfinite(monitor.ratio).all()
    assert torch.isfinite(monitor.measure()).all()


# The costs of removal


def test_the_costs_of_removal_are_those_of_closing_each_gate_for_the_whole_panel():
    """Each example tries one gate, at random: within four standard errors of trying them all on the same noise."""
    model = trained()
    model.gates.close([1])
    monitor = monitor_of(model, seed=5)
    exact = rises(model, *panel_of(monitor))
    for _ in range(200):
        monitor.measure()
    kept = model.gates.kept()
    error = exact.std(0) / monitor.counts[:, 0].sqrt()
    deviation = (monitor.costs()[:, 0] - exact.mean(0)) / error
    assert deviation[kept].abs().max() < 4
    assert monitor.counts.sum().item() == pytest.approx(MEMORY * PANEL, rel=1e-3)
    assert (exact.mean(0) / error)[kept].min() > 5, "the costs should be far from 0 for this to say something"
    assert (exact.mean(0)[kept].diff() / error[kept[1:]]).abs().max() > 5, "and from one another"


def test_each_measurement_tries_one_gate_per_example():
    monitor = monitor_of(make_model())
    monitor.measure()
    assert monitor.counts.sum() == PANEL
    monitor.measure()
    assert monitor.counts.sum().item() == pytest.approx(PANEL * (1 + monitor.forget))


def test_later_measurements_forget_what_was_before():
    """The weights fall slowly, so that twice as many tries count as `counts` says: four standard errors."""
    model = trained()
    monitor = monitor_of(model, seed=5)
    exact = rises(model, *panel_of(monitor))
    with torch.no_grad():
        monitor.averaged.decoder.stem.weight.mul_(4)  # another model, at first
    for _ in range(100):
        monitor.measure()
    error = exact.std(0) / monitor.counts[:, 0].sqrt()
    assert ((monitor.costs()[:, 0] - exact.mean(0)) / error).abs().max() > 8
    monitor.restart()
    for _ in range(300):
        monitor.measure()
    assert monitor.counts.mean().item() == pytest.approx(MEMORY * PANEL / N, rel=1e-3)
    assert ((monitor.costs()[:, 0] - exact.mean(0)) / error).abs().max() < 4


def test_costs_can_be_begun_anew():
    monitor = monitor_of(make_model())
    monitor.measure()
    assert torch.isfinite(monitor.costs()).all()
    monitor.forget_costs()
    assert torch.isinf(monitor.costs()).all()
    other = monitor_of(make_model())
    other.generator.set_state(monitor.generator.get_state())
    monitor.measure()
    other.measure()
    assert torch.equal(monitor.costs(), other.costs())


def test_a_cost_is_infinite_until_its_gate_has_been_tried_often_enough():
    monitor = monitor_of(make_model(200))
    assert torch.isinf(monitor.costs()).all()
    mixed = 0
    for _ in range(30):
        monitor.measure()
        finite = torch.isfinite(monitor.costs())
        assert torch.equal(finite, monitor.counts >= ENOUGH)
        mixed += 0 < finite.sum() < 200
    assert mixed > 0
    assert torch.isfinite(monitor.costs()).all()


def test_the_cost_of_a_gate_long_closed_is_forgotten():
    model = make_model()
    monitor = monitor_of(model)
    monitor.measure()
    assert torch.isfinite(monitor.costs()).all()
    model.gates.close([2])
    monitor.restart()
    for _ in range(150):
        monitor.measure()
    assert torch.isinf(monitor.costs()[:, 0]).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("n", [100, 600])
def test_gates_are_tried_often_enough_however_many_there_are(n):
    """On average: twice as often as it takes."""
    monitor = monitor_of(make_model(n))
    tries = PANEL / n / (1 - monitor.forget)
    assert tries > 2 * ENOUGH


def test_two_errors_have_two_columns_of_costs():
    def both(x, y):
        return torch.stack([squared_error(x, y), 8 * squared_error(x, y)], 1)

    one, two = monitor_of(make_model(), seed=5), monitor_of(make_model(), both, 2, seed=5)
    mean = one.measure()
    torch.testing.assert_close(two.measure(), torch.cat([mean, 8 * mean]))
    torch.testing.assert_close(two.costs(), torch.cat([one.costs(), 8 * one.costs()], 1))
    factor = one.calibrate()
    torch.testing.assert_close(two.calibrate(), torch.cat([factor, factor]))
    torch.testing.assert_close(two.spread, torch.cat([one.spread, 8 * one.spread]))


def test_several_processes_share_what_one_would_draw():
    """Each takes its own rows of the same examples, noise and gates; then both generators stand at the same place."""
    alone = monitor_of(make_model(), seed=5)
    each = []
    for own in (slice(0, PANEL // 2), slice(PANEL // 2, PANEL)):
        rows = lambda count, generator, own=own: held_out(count, generator)[own]  # noqa: E731
        each.append(monitor_of(make_model(), seed=5, held_out=rows, share=lambda rows, own=own: rows[own]))
    mean = alone.measure()
    means = [monitor.measure() for monitor in each]
    torch.testing.assert_close(sum(means) / 2, mean)
    torch.testing.assert_close(sum(monitor.sums for monitor in each) / 2, alone.sums)
    torch.testing.assert_close(sum(monitor.counts for monitor in each) / 2, alone.counts)
    alone.calibrate()
    for monitor in each:
        monitor.calibrate()
    totals = [monitor.panel * monitor.ratio for monitor in each]
    torch.testing.assert_close(sum(totals) / 2, alone.panel * alone.ratio)
    assert all(torch.equal(monitor.generator.get_state(), alone.generator.get_state()) for monitor in each)


def test_with_all_gates_closed_there_is_an_error_and_no_cost():
    model = make_model()
    model.gates.close(range(N))
    monitor = monitor_of(model)
    x, _ = panel_of(monitor)
    expected = squared_error(x, model.decode(torch.zeros(PANEL, N))).double().mean()
    torch.testing.assert_close(monitor.measure(), expected[None].detach())
    monitor.calibrate()
    assert torch.isinf(monitor.costs()).all()
    assert torch.isfinite(monitor.spread).all()


# Checkpoints


def test_a_monitor_that_goes_on_from_its_state_measures_the_same():
    model = make_model()
    monitor = monitor_of(model, seed=5)
    for _ in range(3):
        monitor.measure()
    monitor.calibrate()
    move_to(model, 0.1)
    monitor.follow(4, 500)
    file = io.BytesIO()
    torch.save(monitor.state_dict(), file)
    other = monitor_of(copy.deepcopy(model), seed=5)
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for since in range(3, 6):
        for each in (monitor, other):
            each.follow(since, 500)
        assert torch.equal(monitor.measure(), other.measure())
    assert torch.equal(monitor.calibrate(), other.calibrate())
    assert torch.equal(monitor.costs(), other.costs())
    assert torch.equal(monitor.spread, other.spread)
    assert torch.equal(weights(monitor.averaged), weights(other.averaged))
