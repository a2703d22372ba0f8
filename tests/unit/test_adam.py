"""Our Adam beside torch's own: the same numbers, bit for bit."""

import copy
import io

import pytest
import torch
from torch import nn

from narrows.adam import Adam


class Pair:
    """Two equal sets of parameters, each with its optimiser, that are given the same gradients."""

    def __init__(self, generator):
        self.generator = generator
        self.ours = [nn.Parameter(torch.rand(shape, generator=generator)) for shape in [(3, 4), (5,), (2, 3, 3, 2)]]
        self.ours[2].data = self.ours[2].data.to(memory_format=torch.channels_last)
        self.theirs = copy.deepcopy(self.ours)
        groups = [{"params": p[:2]} for p in (self.ours, self.theirs)]
        rest = [{"params": p[2:], "maximize": True} for p in (self.ours, self.theirs)]
        self.mine = Adam([groups[0], rest[0]], lr=0.01)
        self.torchs = torch.optim.Adam([groups[1], rest[1]], lr=0.01, fused=True)

    def step(self, without=()):
        for i, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
            b.grad = None if i in without else torch.empty_like(b).normal_(generator=self.generator)
            a.grad = None if i in without else b.grad.clone()
        self.mine.step()
        self.torchs.step()

    def check(self):
        assert all(torch.equal(a, b) for a, b in zip(self.ours, self.theirs, strict=True))
        a, b = self.mine.state_dict(), self.torchs.state_dict()
        assert a["param_groups"] == b["param_groups"]
        for i in b["state"]:
            assert a["state"][i].keys() == b["state"][i].keys()
            assert all(torch.equal(a["state"][i][key], value) for key, value in b["state"][i].items())


@pytest.fixture
def pair(generator):
    return Pair(generator)


def test_it_takes_torchs_steps(pair):
    for _ in range(5):
        pair.step()
        pair.check()


@pytest.mark.parametrize("without", [{1}, {2}, {0, 1, 2}])
def test_parameters_without_a_gradient_are_left_alone(pair, without):
    for _ in range(3):
        pair.step()
        pair.step(without)
    pair.check()


def test_a_changed_learning_rate_holds_from_the_next_step(pair):
    pair.step()
    for optimiser in (pair.mine, pair.torchs):
        optimiser.param_groups[0]["lr"] = 0.5
    pair.step()
    pair.check()


def test_it_goes_on_from_a_saved_state(pair):
    for _ in range(3):
        pair.step()
    file = io.BytesIO()
    torch.save(pair.mine.state_dict(), file)
    file.seek(0)
    pair.step()
    for p, q in zip(pair.ours, pair.theirs, strict=True):
        p.data.zero_()
        q.data.zero_()
    state = torch.load(file, weights_only=True)
    pair.mine.load_state_dict(copy.deepcopy(state))
    pair.torchs.load_state_dict(state)
    for _ in range(3):
        pair.step()
    pair.check()


def test_a_new_group_joins(pair):
    pair.step()
    new = torch.ones(4)
    for parameters, optimiser in ((pair.ours, pair.mine), (pair.theirs, pair.torchs)):
        parameters.append(nn.Parameter(new.clone()))
        optimiser.add_param_group({"params": parameters[-1:]})
    for _ in range(3):
        pair.step()
    pair.check()


def test_a_copy_has_its_own_state(pair):
    for _ in range(2):
        pair.step()
    parameters, optimiser = copy.deepcopy((pair.ours, pair.mine))
    for p, q in zip(parameters, pair.ours, strict=True):
        p.grad = q.grad.clone()
    optimiser.step()
    pair.check()  # untouched by the copy's step
    pair.mine.step()
    assert all(torch.equal(p, q) for p, q in zip(parameters, pair.ours, strict=True))


def test_a_closure_is_called(pair):
    pair.step()
    calls = []
    assert pair.mine.step(lambda: calls.append(1) or 3.0) == 3.0
    assert calls == [1]


def test_gradients_are_forgotten(pair):
    pair.step()
    pair.mine.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in pair.ours)
    pair.mine.zero_grad()
    assert all(p.grad is None for p in pair.ours)
