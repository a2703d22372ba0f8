"""The averaged weights, the error and the costs of removal, against what is computed without short cuts."""

import copy
import io
from functools import cache

import numpy as np
import pytest
import torch

from narrows.data import from_array
from narrows.model.vae import GatedVAE, gated_vae, standard_normal
from narrows.networks import NetworkConfig
from narrows.objective import squared_error
from narrows.recipes.monitor import ENOUGH, MEMORY, Monitor
from narrows.runs.certificate import half_width
from narrows.training.validation import evaluate

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
    monitor = Monitor(model, squared_error, 1)
    move_to(model, 7.0)
    monitor.follow(since, window)
    assert torch.equal(weights(monitor.averaged), weights(model))


def test_weights_that_do_not_move_stay_as_they_are():
    model = make_model()
    monitor = Monitor(model, squared_error, 1)
    for since in range(1, 50):
        monitor.follow(since, 20)
    assert torch.equal(weights(monitor.averaged), weights(model))


def test_the_average_of_weights_that_move_steadily_lags_by_its_window():
    """At first by about a quarter of the batches so far, a fifth of them in all; in the end by window - 1."""
    model = make_model().double()
    monitor = Monitor(model, squared_error, 1)
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
    monitor = Monitor(model, squared_error, 1)
    model.encoder.norms[0].running_mean.fill_(8.0)
    monitor.follow(4, 500)  # weight 1 / (1 + 4 / 4)
    assert monitor.averaged.encoder.norms[0].running_mean.tolist() == [4.0, 4.0]


def test_a_restart_copies_the_weights_and_the_gates():
    model = make_model()
    monitor = Monitor(model, squared_error, 1)
    move_to(model, 7.0)
    model.gates.close([2])
    monitor.restart()
    assert torch.equal(weights(monitor.averaged), weights(model))
    assert monitor.averaged.gates.kept() == [0, 1, 3, 4]


def test_gates_are_copied_and_not_averaged():
    model = make_model()
    monitor = Monitor(model, squared_error, 1)
    model.gates.close([1, 4])
    monitor.follow(100_000, 500)
    assert torch.equal(monitor.averaged.gates.logits, model.gates.logits)


def test_following_and_measuring_leave_the_trained_model_alone():
    model = make_model()
    before = copy.deepcopy(model.state_dict())
    monitor = Monitor(model, squared_error, 1)
    monitor.follow(10, 500)
    monitor.measure(examples(64))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(p.requires_grad for p in monitor.averaged.parameters())
    assert model.decoder.stem.weight.requires_grad


# The error


def test_the_error_is_that_of_an_evaluation_with_the_same_noise():
    model = make_model()
    model.gates.close([3])
    monitor = Monitor(model, squared_error, 1, seed=11)
    data = from_array(examples(200).numpy(), values="any")
    x = data.examples.batch(np.arange(200))
    held_out = evaluate(model, data.examples, np.arange(200), seed=11)
    assert monitor.measure(x).item() == pytest.approx(held_out.error, rel=1e-6)
    half = half_width(monitor.spread.item() * np.sqrt(200 / 199), 200)  # the spread divides by 200, the interval by 199
    assert half == pytest.approx(held_out.high - held_out.error, rel=1e-5)


def test_the_error_is_that_of_the_averaged_weights():
    model = make_model()
    monitor = Monitor(model, squared_error, 1, seed=11)
    alone = Monitor(copy.deepcopy(model), squared_error, 1, seed=11)
    move_to(model, 7.0)
    assert torch.equal(monitor.measure(examples(64)), alone.measure(examples(64)))


def test_the_spread_is_a_moving_average_of_variances():
    monitor = Monitor(make_model(), squared_error, 1)
    variances = []
    for seed in range(3):
        z_from = torch.Generator().manual_seed(0)
        z_from.set_state(monitor.generator.get_state())
        x = examples(50, seed)
        posterior = monitor.averaged.encode(x)
        z = posterior.draw(standard_normal(posterior.mean, z_from))
        variances.append(squared_error(x, monitor.averaged.decode(z)).double().var(correction=0).item())
        monitor.measure(x)
    keep = 1 - 1 / MEMORY
    expected = keep**2 * variances[0] + (1 - keep) * (keep * variances[1] + variances[2])
    assert monitor.spread.item() == pytest.approx(expected**0.5, rel=1e-6)


# The costs of removal


def test_the_costs_of_removal_are_those_of_closing_each_gate_for_all_examples():
    """Each example tries one gate, at random: within four standard errors of trying them all on the same noise."""
    model = trained()
    model.gates.close([1])
    monitor = Monitor(model, squared_error, 1, seed=5)
    x = examples(20_000)
    posterior = model.encode(x)
    z = posterior.draw(standard_normal(posterior.mean, torch.Generator().manual_seed(5)))
    exact = rises(model, x, z)
    monitor.measure(x)
    kept = model.gates.kept()
    error = exact.std(0) / monitor.counts[:, 0].sqrt()
    deviation = (monitor.costs()[:, 0] - exact.mean(0)) / error
    assert deviation[kept].abs().max() < 4
    assert monitor.counts.sum() == len(x)
    assert (exact.mean(0) / error)[kept].min() > 20, "the costs should be far from 0 for this to say something"
    assert (exact.mean(0)[kept].diff() / error[kept[1:]]).abs().max() > 8, "and from one another"


def test_many_small_measurements_come_to_the_same_costs_and_forget_what_was_before():
    """About 320 tries a gate count, twice as many in effect, since the weights fall slowly: four standard errors."""
    model = trained()
    monitor = Monitor(model, squared_error, 1, seed=5)
    with torch.no_grad():
        monitor.averaged.decoder.stem.weight.mul_(4)  # another model, at first
    for seed in range(100):
        monitor.measure(examples(64, seed))
    x = examples(20_000, 999)
    posterior = model.encode(x)
    exact = rises(model, x, posterior.draw(standard_normal(posterior.mean, torch.Generator().manual_seed(8))))
    error = exact.std(0) / monitor.counts[:, 0].sqrt()
    assert ((monitor.costs()[:, 0] - exact.mean(0)) / error).abs().max() > 8
    monitor.restart()
    for seed in range(100, 400):
        monitor.measure(examples(64, seed))
    assert monitor.counts.mean().item() == pytest.approx(MEMORY * 64 / N, rel=1e-3)
    assert ((monitor.costs()[:, 0] - exact.mean(0)) / error).abs().max() < 4


def test_a_cost_is_infinite_until_its_gate_has_been_tried_often_enough():
    monitor = Monitor(make_model(), squared_error, 1)
    assert torch.isinf(monitor.costs()).all()
    mixed = 0
    for seed in range(60):
        monitor.measure(examples(1, seed))
        finite = torch.isfinite(monitor.costs())
        assert torch.equal(finite, monitor.counts >= ENOUGH)
        mixed += 0 < finite.sum() < N
    assert mixed > 0
    monitor.measure(examples(200))
    assert torch.isfinite(monitor.costs()).all()


def test_the_cost_of_a_gate_long_closed_is_forgotten():
    model = make_model()
    monitor = Monitor(model, squared_error, 1)
    monitor.measure(examples(640))
    model.gates.close([2])
    monitor.restart()
    for seed in range(150):
        monitor.measure(examples(64, seed))
    assert torch.isinf(monitor.costs()[:, 0]).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("n", [100, 600])
def test_gates_are_tried_often_enough_however_many_there_are(n):
    """On average: with 64 examples a measurement, twice as often as it takes."""
    monitor = Monitor(make_model(n), squared_error, 1)
    tries = 64 / n / (1 - monitor.forget)
    assert tries > 2 * ENOUGH


def test_two_errors_have_two_columns_of_costs():
    def both(x, y):
        return torch.stack([squared_error(x, y), 8 * squared_error(x, y)], 1)

    one, two = Monitor(make_model(), squared_error, 1, seed=5), Monitor(make_model(), both, 2, seed=5)
    x = examples(500)
    mean = one.measure(x)
    torch.testing.assert_close(two.measure(x), torch.cat([mean, 8 * mean]))
    torch.testing.assert_close(two.costs(), torch.cat([one.costs(), 8 * one.costs()], 1))
    torch.testing.assert_close(two.spread, torch.cat([one.spread, 8 * one.spread]))


def test_several_processes_share_what_one_would_draw():
    """Each takes its own rows of the same noise and the same gates; then both generators stand at the same place."""
    x = examples(64)
    alone = Monitor(make_model(), squared_error, 1, seed=5)
    parts = [slice(0, 32), slice(32, 64)]
    each = [Monitor(make_model(), squared_error, 1, seed=5, share=lambda rows, own=own: rows[own]) for own in parts]
    mean = alone.measure(x)
    means = [monitor.measure(x[own], 64) for monitor, own in zip(each, parts, strict=True)]
    torch.testing.assert_close(sum(means) / 2, mean)
    torch.testing.assert_close(sum(monitor.sums for monitor in each) / 2, alone.sums)
    torch.testing.assert_close(sum(monitor.counts for monitor in each) / 2, alone.counts)
    assert all(torch.equal(monitor.generator.get_state(), alone.generator.get_state()) for monitor in each)


def test_with_all_gates_closed_there_is_an_error_and_no_cost():
    model = make_model()
    model.gates.close(range(N))
    monitor = Monitor(model, squared_error, 1)
    x = examples(64)
    expected = squared_error(x, model.decode(torch.zeros(64, N))).double().mean()
    torch.testing.assert_close(monitor.measure(x), expected[None].detach())
    assert torch.isinf(monitor.costs()).all()
    assert torch.isfinite(monitor.spread).all()


# Checkpoints


def test_a_monitor_that_goes_on_from_its_state_measures_the_same():
    model = make_model()
    monitor = Monitor(model, squared_error, 1, seed=5)
    for seed in range(3):
        monitor.measure(examples(64, seed))
    move_to(model, 0.1)
    monitor.follow(4, 500)
    file = io.BytesIO()
    torch.save(monitor.state_dict(), file)
    other = Monitor(copy.deepcopy(model), squared_error, 1, seed=99)
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    for seed in range(3, 6):
        for each in (monitor, other):
            each.follow(seed, 500)
        assert torch.equal(monitor.measure(examples(64, seed)), other.measure(examples(64, seed)))
    assert torch.equal(monitor.costs(), other.costs())
    assert torch.equal(monitor.spread, other.spread)
    assert torch.equal(weights(monitor.averaged), weights(other.averaged))
