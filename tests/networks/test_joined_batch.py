"""BatchNorm in several processes against torch's own with all rows, in float64."""

import pytest
import torch
from torch import nn

from groups import in_group
from narrows.networks.batchnorm import BatchNorm
from narrows.networks.joined_batch import joined_batch

EXACT = {"rtol": 0, "atol": 1e-10}
C = 3
ROWS = (7, 1, 0)
"""Rows of each process: some, a single one, none."""
STEPS = 3


class Scaled(nn.BatchNorm2d):
    """A class derived from torch's, with a forward pass of its own."""

    def forward(self, x):
        return 2 * super().forward(x)


class Functional(nn.BatchNorm1d):
    """A derived class that calls the function itself, as timm's do."""

    def forward(self, x):
        parts = (self.running_mean, self.running_var, self.weight, self.bias)
        return torch.nn.functional.batch_norm(x, *parts, self.training, self.momentum, self.eps)


KINDS = {
    "ours": (BatchNorm, (C, 5, 4)),
    "ours, channels last": (BatchNorm, (C, 5, 4)),
    "vectors": (nn.BatchNorm1d, (C,)),
    "sequences": (nn.BatchNorm1d, (C, 6)),
    "images": (nn.BatchNorm2d, (C, 5, 4)),
    "volumes": (nn.BatchNorm3d, (C, 2, 3, 4)),
    "no weights": (lambda c: nn.BatchNorm2d(c, affine=False), (C, 5, 4)),
    "no running statistics": (lambda c: nn.BatchNorm2d(c, track_running_stats=False), (C, 5, 4)),
    "cumulative": (lambda c: nn.BatchNorm2d(c, momentum=None), (C, 5, 4)),
    "derived": (Scaled, (C, 5, 4)),
    "functional": (Functional, (C,)),
    "far from 0": (nn.BatchNorm2d, (C, 5, 4)),
}


def make(kind):
    norm = KINDS[kind][0](C).double()
    for parameter in norm.parameters():
        parameter.data.copy_(torch.arange(1.0, C + 1))
    return norm


def train(kind, own=slice(None)):
    """Make some steps with these rows of the batch; return outputs, gradients and the layer's state."""
    generator = torch.Generator().manual_seed(1)
    norm, seen = make(kind), {"outputs": [], "inputs": [], "weights": []}
    for _ in range(STEPS):
        x, towards = torch.randn(2, sum(ROWS), *KINDS[kind][1], generator=generator, dtype=torch.float64)
        x = 3 * x + (1e5 if kind == "far from 0" else 1)
        if "last" in kind:
            x = x.contiguous(memory_format=torch.channels_last)
        x = x[own].clone().requires_grad_()
        norm.zero_grad()
        with joined_batch(norm):
            y = norm(x)
        (y.square() * towards[own]).sum().backward()
        seen["outputs"].append(y.detach())
        seen["inputs"].append(x.grad)
        seen["weights"] += [parameter.grad.clone() for parameter in norm.parameters()]
    return seen, norm.state_dict()


def train_all():
    """Train a share of each kind's batch."""
    rank = torch.distributed.get_rank()
    own = slice(sum(ROWS[:rank]), sum(ROWS[: rank + 1]))
    return {kind: train(kind, own) for kind in KINDS}


@pytest.fixture(scope="module")
def each(tmp_path_factory):
    """What three processes with 7, 1 and no rows saw."""
    return in_group(len(ROWS), train_all, tmp_path_factory.mktemp("group"))


@pytest.mark.parametrize("kind", KINDS)
def test_processes_compute_what_one_would_with_all_rows(each, kind):
    expected, state = train(kind)
    exact = {"rtol": 0, "atol": 1e-8} if kind == "far from 0" else EXACT  # 5 of 16 digits are before the point
    for part in ("outputs", "inputs"):
        joined = [torch.cat(rows) for rows in zip(*(seen[part] for seen, _ in each_of(each, kind)), strict=True)]
        torch.testing.assert_close(joined, expected[part], **exact)
    summed = [sum(parts) for parts in zip(*(seen["weights"] for seen, _ in each_of(each, kind)), strict=True)]
    torch.testing.assert_close(summed, expected["weights"], **exact)
    for _, other in each_of(each, kind):
        torch.testing.assert_close(other, state, **exact)


def each_of(each, kind):
    return [seen[kind] for seen in each]


@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_have_the_same_running_statistics(each, kind):
    """Bit for bit: each joins the same numbers in the same order."""
    (_, first), *others = each_of(each, kind)
    for _, state in others:
        assert all(torch.equal(state[name], first[name]) for name in first)


def test_with_one_process_nothing_is_replaced():
    norm = nn.BatchNorm1d(C)
    with joined_batch(norm):
        assert torch.overrides._get_current_function_mode() is None
