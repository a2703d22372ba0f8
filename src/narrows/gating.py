"""3a. Gates on any inner layer: put one behind a layer, train, and cut what it closed out of both neighbours.

    network = nn.Sequential(gate(nn.Linear(784, 64)), nn.ReLU(), nn.Linear(64, 10))
    ...                                                          # train with InnerNarrowing (inner.py)
    smaller = narrow(network)                                    # nn.Linear(784, 23), nn.ReLU(), nn.Linear(23, 10)

A closed unit sends zeros to the next layer, so it can go without any change of the output, as long as nothing between
the two turns zeros into something else. `narrow` knows the layers of which that is certain and refuses all others by
name: before the gate anything that treats channels apart (activations, BatchNorm, dropout, pooling); behind it only
what keeps zeros zero. It follows `nn.Sequential`, nested as you like; for other networks, `narrows.cutting` has the two
cuts it is made of.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from narrows.cutting import CUTTABLE, inputs, outputs, with_inputs, with_outputs
from narrows.errors import NarrowsError
from narrows.gates import L0Gates

KEEP_ZEROS = (
    nn.Identity,
    nn.ReLU,
    nn.LeakyReLU,
    nn.PReLU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Tanh,
    nn.ReLU6,
    nn.Hardswish,
    nn.Softsign,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.Upsample,
    nn.Flatten,
)
"""A channel of zeros comes out as zeros, and no channel sees another."""
APART = (*KEEP_ZEROS, _BatchNorm, nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid)
"""No channel sees another."""


class Gate(nn.Module):
    """Gates on one axis of what passes through: hard ones (0 or 1), or those that `choose` was given."""

    def __init__(self, n: int, dim: int = 1) -> None:
        super().__init__()
        self.gates = L0Gates(n)
        self.dim = dim
        self.chosen: Tensor | None = None

    def choose(self, gates: Tensor | None) -> None:
        """Use these gates, (batch, n) or (1, n), from now on; None: the hard ones."""
        self.chosen = gates

    def forward(self, x: Tensor) -> Tensor:
        """Multiply axis `dim` of x, (batch, ...), by the gates."""
        gates = self.gates.hard()[None] if self.chosen is None else self.chosen
        if x.shape[self.dim] != self.gates.n:
            raise NarrowsError(f"{self.gates.n} gates stand on axis {self.dim} of a tensor of {tuple(x.shape)}")
        shape = [1] * x.ndim
        shape[0], shape[self.dim] = gates.shape
        return x * gates.view(shape)

    def extra_repr(self) -> str:
        """Say how many are open, in a printed network."""
        return f"{len(self.gates.kept())} of {self.gates.n} open, dim={self.dim}"


def gate(module: nn.Module, dim: int = 1) -> nn.Sequential:
    """Put a gate on every output of a module (on axis `dim` of it): as many as its last layer has units or channels."""
    layers = [layer for layer in module.modules() if isinstance(layer, CUTTABLE)]
    if not layers:
        raise NarrowsError(f"{type(module).__name__} has no Linear or Conv2d whose outputs could be gated")
    placed = Gate(outputs(layers[-1]), dim).to(layers[-1].weight)
    return nn.Sequential(*(module if isinstance(module, nn.Sequential) else [module]), placed)


def gates_in(model: nn.Module) -> list[Gate]:
    """Return all gates of a network, in order."""
    return [module for module in model.modules() if isinstance(module, Gate)]


def narrow(model: nn.Module) -> nn.Module:
    """Return a copy without gates and without the units they closed; the given network stays as it is."""
    smaller = copy.deepcopy(model)
    if isinstance(smaller, Gate):
        raise NarrowsError("a gate alone has no neighbours to cut")
    for parent, name in list(_gate_places(smaller)):
        _cut_out(smaller, getattr(parent, name))
        _remove(parent, name)
    return smaller


class Place(NamedTuple):
    """A module of a chain, and where it hangs."""

    parent: nn.Module
    name: str
    module: nn.Module


def _gate_places(model: nn.Module) -> list[tuple[nn.Module, str]]:
    return [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, Gate)
    ][::-1]


def _chain(model: nn.Module, gate: Gate) -> tuple[list[Place], int]:
    """Return the longest chain of nested Sequentials around a gate, flat, and the gate's place in it."""
    chains = [_flat(m) for m in model.modules() if isinstance(m, nn.Sequential)]
    holding = [c for c in chains if any(place.module is gate for place in c)]
    if not holding:
        raise NarrowsError("a gate is not in an nn.Sequential: cut its neighbours with narrows.cutting")
    longest = max(holding, key=len)
    return longest, next(i for i, place in enumerate(longest) if place.module is gate)


def _flat(sequence: nn.Sequential) -> list[Place]:
    places: list[Place] = []
    for name, child in sequence.named_children():
        places += _flat(child) if isinstance(child, nn.Sequential) else [Place(sequence, name, child)]
    return places


def _cut_out(model: nn.Module, gate: Gate) -> None:
    chain, at = _chain(model, gate)
    before = _until_layer(chain[:at][::-1], APART, "before", "treats channels apart")
    after = _until_layer(chain[at + 1 :], KEEP_ZEROS, "behind", "leaves zeros as they are; put the gate after it")
    maker, reader = before[-1], after[-1]
    assert isinstance(maker.module, CUTTABLE)
    assert isinstance(reader.module, CUTTABLE)
    n, kept = gate.gates.n, gate.gates.kept()
    flattened = any(isinstance(place.module, nn.Flatten) and place.module.start_dim == 1 for place in (*before, *after))
    map_to_rows = isinstance(reader.module, nn.Linear) and not isinstance(maker.module, nn.Linear)
    each = (
        inputs(reader.module) // n if map_to_rows and flattened else 1
    )  # a flattened map has several columns a channel
    if outputs(maker.module) != n or inputs(reader.module) != n * each or map_to_rows != flattened:
        raise NarrowsError(
            f"{n} gates stand between a {type(maker.module).__name__} with {outputs(maker.module)} outputs and a "
            f"{type(reader.module).__name__} with {inputs(reader.module)} inputs: they must be the ones the other reads"
        )
    smaller = with_inputs(reader.module, [each * j + i for j in kept or [0] for i in range(each)])
    if not kept:  # layers of size 0 are refused by convolutions: one unit stays, and nobody listens
        nn.init.zeros_(smaller.weight)
    setattr(reader.parent, reader.name, smaller)
    setattr(maker.parent, maker.name, with_outputs(maker.module, kept or [0]))
    for place in (*before[:-1], *after[:-1]):
        _cut_channels(place.module, kept or [0])


def _until_layer(places: Sequence[Place], allowed: tuple[type, ...], where: str, rule: str) -> list[Place]:
    """Walk to the next layer that can be cut, through modules that are certain."""
    for i, place in enumerate(places):
        if isinstance(place.module, CUTTABLE):
            return list(places[: i + 1])
        if not isinstance(place.module, (*allowed, Gate)):
            kind = type(place.module).__name__
            raise NarrowsError(f"{kind} stands {where} a gate, and it is not certain that it {rule}")
    raise NarrowsError(f"there is no Linear or Conv2d {where} a gate in its nn.Sequential")


def _cut_channels(module: nn.Module, kept: list[int]) -> None:
    """Give a module with one number a channel only those of the kept channels."""
    if isinstance(module, Gate):
        raise NarrowsError("two gates stand between the same two layers; one is enough")
    if isinstance(module, _BatchNorm):
        module.num_features = len(kept)
    if isinstance(module, _BatchNorm | nn.PReLU):
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.numel() > 1:
                setattr(module, name, nn.Parameter(parameter.detach()[kept].clone(), parameter.requires_grad))
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.ndim == 1:
                setattr(module, name, buffer[kept].clone())


def _remove(parent: nn.Module, name: str) -> None:
    """Take a gate out of its Sequential; numbered places close up, named ones keep their names."""
    children = dict(parent.named_children())
    del children[name]
    numbered = all(key.isdigit() for key in children)
    names = map(str, range(len(children))) if numbered else children
    parent._modules = dict(zip(names, children.values(), strict=True))
