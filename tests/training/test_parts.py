"""Settings, starting values, which model is kept, and checkpoints on their own."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data import Data, from_array, split
from narrows.recipes.registry import RECIPES, Effort
from narrows.runs.certificate import Terms
from narrows.runs.records import HeldOut
from narrows.training.build import make_model
from narrows.training.checkpoint import Damaged, list_checkpoints, load_newest, read_checkpoint, save_checkpoint
from narrows.training.config import TrainConfig, config_from_dict, to_dict
from narrows.training.fingerprint import fingerprint
from narrows.training.moments import moments
from narrows.training.selection import Candidate
from narrows.training.setup import make_plan, resolve, tau_as_good


def vectors(count: int = 500, scale: float = 1.0, shift: float = 0.0) -> Data:
    x = np.random.default_rng(0).normal(shift, scale, (count, 5)).astype(np.float32)
    return from_array(x, values="any")


def kept(dims: int, error: float) -> Candidate:
    return Candidate(list(range(dims)), 1, HeldOut(error, error, error, 1), {})


def test_fewer_dimensions_win_and_then_the_smaller_error():
    assert kept(5, 19).beats(None)
    assert kept(4, 19.9).beats(kept(5, 1.0))
    assert kept(5, 18).beats(kept(5, 19))
    assert not kept(5, 19).beats(kept(5, 19))
    assert not kept(6, 1).beats(kept(5, 19))


def test_settings_round_trip_and_unknown_ones_are_refused():
    config = TrainConfig(tau=3.0, n=7)
    assert config_from_dict(to_dict(config), "here") == config
    with pytest.raises(NarrowsError, match=r"here has an unknown setting 'stepz'; did you mean 'steps'"):
        config_from_dict({"stepz": 3}, "here")


def test_an_effort_that_there_is_not_is_refused():
    for effort in get_args(Effort):
        assert TrainConfig(effort=effort).checked().effort == effort
    with pytest.raises(NarrowsError, match="effort must be one of quick, normal, thorough; it is 'heroic'"):
        TrainConfig(effort="heroic").checked()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_learning_rate_is_the_recipes_own_unless_one_is_given(recipe):
    data = vectors()
    measured = moments(data.examples, np.arange(500))
    config = TrainConfig(tau=1.0, recipe=recipe)
    assert config.learning_rate == "auto"
    assert resolve(config, data, measured).learning_rate == RECIPES[recipe].learning_rate
    assert resolve(replace(config, learning_rate=0.01), data, measured).learning_rate == 0.01


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e3, 1e5), (1e-3, 0.5)])
def test_moments_are_numpys(scale, shift):
    data = vectors(3000, scale, shift)
    measured = moments(data.examples, np.arange(3000))
    x = data.examples.batch(np.arange(3000)).double()
    torch.testing.assert_close(measured.mean.double(), x.mean(0), rtol=1e-6, atol=0)
    assert measured.variance == pytest.approx(x.var(0, correction=0).sum().item(), rel=1e-3)


@pytest.mark.parametrize("promise", [{"tau": 0.1}, {"explained": 0.9}])
@pytest.mark.parametrize("shape", [(200, 5), (200, 16, 16)])
def test_doubles_that_single_precision_makes_equal(promise, shape):
    """1e9 and 1e9 + 1 are one number in single precision, and a promise about nothing would be kept."""
    data = from_array(1e9 + np.random.default_rng(0).random(shape), "any", "clock")
    remedy = r"column's mean first, or use scaling='standard'$" if len(shape) == 2 else "pixel's mean first$"
    problem = r"^clock: values around 1e\+09 that vary by 0.2[89] lose their digits in single precision; subtract each "
    with pytest.raises(NarrowsError, match=problem + remedy):
        make_plan(TrainConfig(**promise), data)
    if len(shape) == 2:
        assert make_plan(TrainConfig(**promise, scaling="standard"), data).moments.variance == pytest.approx(5, rel=0.1)


def test_examples_that_are_the_same_and_nearly_the_same():
    same = from_array(np.ones((200, 5)), "any", "same")
    with pytest.raises(NarrowsError, match=r"^same: all training examples are the same; check the data, or give tau$"):
        make_plan(TrainConfig(explained=0.9), same)
    tiny = from_array(1e-20 * np.random.default_rng(0).random((200, 5)), "any", "tiny")
    with pytest.raises(NarrowsError, match=r"nearly the same, .* give tau, or multiply them by a large number$"):
        make_plan(TrainConfig(explained=0.9), tiny)


def test_the_model_starts_at_the_datas_mean():
    """Decision D15: before training, an image model's error is near the data's variance, not that of grey."""
    images = np.zeros((200, 28, 28), np.float32)
    images[:, 3:6, 3:6] = 1.0
    data = from_array(images)
    measured = moments(data.examples, np.arange(200))
    config = resolve(TrainConfig(tau=1.0, width=4), data, measured)
    x = data.examples.batch(np.arange(50))
    with torch.no_grad():
        out = make_model(config, data, measured).eval().reconstruct(x)
    assert (out.mean() - x.mean()).abs() < 0.03


def test_auto_is_decided_and_stored():
    data = vectors()
    config = resolve(TrainConfig(tau=1.0, data="mine.npy"), data, moments(data.examples, np.arange(500)))
    assert (config.network, config.constraint) == ("mlp", "relative")


def test_a_plain_model_would_keep_the_tau_that_it_sets():
    """Under the terms that the narrow model's certificate will have: exact for many images, else approximate."""
    images = from_array(np.zeros((100_000, 4, 4), np.uint8))
    held = HeldOut(error=0.5, high=0.51, error_at_mean=0.4, count=5_000, spread=0.3)
    exact = 0.5 + Terms(limit=16.0).room(0.3, 10_000)
    for config, tau in (("auto", exact), ("exact", exact), ("approximate", 0.51)):
        assert tau_as_good(held, TrainConfig(certificate=config), images) == tau
    assert tau_as_good(held, TrainConfig(), vectors()) == 0.51


def test_the_fingerprint_tells_data_apart():
    first, again, scaled, fewer = (
        fingerprint(data, split(data)) for data in (vectors(), vectors(), vectors(scale=2.0), vectors(499))
    )
    assert first == again
    assert len({first, scaled, fewer}) == 3


def test_the_initial_weights_depend_on_the_seed_alone():
    data = vectors()
    measured = moments(data.examples, np.arange(500))
    torch.manual_seed(99)
    before = torch.get_rng_state()
    states = []
    for seed in (1, 1, 2):
        config = resolve(TrainConfig(tau=1.0, seed=seed), data, measured)
        states.append(make_model(config, data, measured).encoder.head.weight)
        torch.rand(3)
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    torch.set_rng_state(before)


@pytest.mark.parametrize(("rows", "direct"), [(4_999, True), (5_000, False)])
def test_few_rows_get_a_direct_path(rows, direct):
    data = vectors(rows)
    measured = moments(data.examples, np.arange(500))
    model = make_model(resolve(TrainConfig(tau=1.0), data, measured), data, measured)
    assert model.network.direct is direct
    values = data.examples.shape[0]
    assert model.decoder.stem.out_features == model.decoder.second.in_features + values * direct


@pytest.mark.parametrize(
    ("recipe", "n", "direct"), [("fast", 32, False), ("fast", 33, True), ("plain", 33, True), ("paper", 64, False)]
)
def test_many_dimensions_of_images_get_a_direct_path_except_in_the_papers_networks(recipe, n, direct):
    data = from_array(np.random.default_rng(0).integers(0, 256, (60, 16, 16), dtype=np.uint8))
    measured = moments(data.examples, np.arange(50))
    model = make_model(resolve(TrainConfig(tau=1.0, n=n, recipe=recipe, width=2), data, measured), data, measured)
    assert model.network.direct is direct
    assert model.decoder.stem.out_features == 128 * (1 + direct)
    assert (model.encoder.direct is not None) is direct
    assert set(model.heads) == {"head"}


def accept(state):
    """Any state will do."""


def test_a_checkpoint_round_trips_and_any_flipped_byte_is_found(tmp_path):
    state = {"step": 3, "tensor": torch.arange(5.0), "best": (1.5, 2)}
    path = save_checkpoint(tmp_path, 3, state)
    loaded = read_checkpoint(path)
    assert loaded["step"] == 3
    assert torch.equal(loaded["tensor"], state["tensor"])
    whole = path.read_bytes()
    for position in range(0, len(whole), 97):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(Damaged, match="is damaged"):
            read_checkpoint(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(Damaged, match="is damaged"):
        read_checkpoint(path)


def test_the_newest_good_checkpoint_is_used(tmp_path):
    for step in (10, 20, 30):
        save_checkpoint(tmp_path, step, {"step": step})
    assert [p.name for p in list_checkpoints(tmp_path)] == ["batch-000000020.ckpt", "batch-000000030.ckpt"]
    list_checkpoints(tmp_path)[-1].write_bytes(b"")
    state, passed = load_newest(tmp_path, accept)
    assert state["step"] == 20
    assert passed == [f"the checkpoint {tmp_path / 'batch-000000030.ckpt'} is damaged"]


def test_a_folder_without_checkpoints_says_so(tmp_path):
    with pytest.raises(NarrowsError, match="holds no checkpoint"):
        load_newest(tmp_path, accept)
