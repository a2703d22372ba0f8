"""3a. Gates on any inner layer: put one behind a layer, train, and cut what it closed out of both neighbours.

    network = nn.Sequential(gate(nn.Linear(784, 64)), nn.ReLU(), nn.Linear(64, 10))
    ...                                                          # train with InnerNarrowing (inner.py)
    smaller = narrow(network)                                    # nn.Linear(784, 23), nn.ReLU(), nn.Linear(23, 10)

A closed unit sends zeros to the next layer, so it can go without any change of the output, as long as nothing between
the two turns zeros into something else. `narrow` knows the layers of which that is certain and refuses all others by
name: before the gate anything that treats channels apart (activations, BatchNorm, dropout, pooling of maps); behind it
only what keeps zeros zero. Certain means PyTorch's own layer, not a subclass or a parametrised one, without hooks, and
where it is cut, used in one place only. It follows `nn.Sequential`, nested as you like; for other networks,
`narrows.cutting` has the two cuts it is made of.
"""

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

from torch import Tensor, nn

from narrows.cutting import CUTTABLE, inputs, outputs, with_inputs, with_outputs
from narrows.errors import NarrowsError
from narrows.gates import L0Gates

MAPS_ONLY = (
    nn.Dropout2d,
    nn.AvgPool2d,
    nn.MaxPool2d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
    nn.Upsample,
)
"""Of maps, (batch, channels, height, width), they keep channels apart and zeros zero; rows of units they would mix."""
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
    nn.Flatten,
    *MAPS_ONLY,
)
"""A channel of zeros comes out as zeros, and no channel sees another."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
APART = (*KEEP_ZEROS, *NORMS, nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid)
"""No channel sees another."""
LAYERS = "Linear, Conv2d or ConvTranspose2d"


class Gate(nn.Module):
    """Gates on one axis of what passes through: hard ones (0 or 1), or those that `choose` was given."""

    def __init__(self, n: int, dim: int = 1) -> None:
        super().__init__()
        if dim == 0:
            raise NarrowsError("dim must be an axis behind the batch, which is axis 0")
        self.gates = L0Gates(n)
        self.dim = dim
        self.chosen: Tensor | None = None
        self.seen: int | None = None
        """How many axes the last tensor had: `narrow` must know which of them `dim` is."""

    def choose(self, gates: Tensor | None) -> None:
        """Use these gates, (batch, n) or (1, n), from now on; None: the hard ones."""
        self.chosen = gates

    def forward(self, x: Tensor) -> Tensor:
        """Multiply axis `dim` of x, (batch, ...), by the gates."""
        gates = self.gates.hard()[None] if self.chosen is None else self.chosen
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != self.gates.n:
            raise NarrowsError(f"{self.gates.n} gates stand on axis {self.dim} of a tensor of {tuple(x.shape)}")
        self.seen = x.ndim
        shape = [1] * x.ndim
        shape[0], shape[self.dim] = gates.shape
        return x * gates.view(shape)

    def extra_repr(self) -> str:
        """Say how many are open, in a printed network."""
        return f"{len(self.gates.kept())} of {self.gates.n} open, dim={self.dim}"


def gate(module: nn.Module, dim: int | None = None) -> nn.Sequential:
    """Put a gate on every output of a module: as many as its last layer has units or channels.

    `dim` is the axis they stand on; by default the last one behind a Linear and axis 1 behind a convolution.
    """
    if not isinstance(module, nn.Module):
        raise NarrowsError(f"what is gated must be a torch module; it is {module!r:.100}")
    layers = [layer for layer in module.modules() if isinstance(layer, CUTTABLE)]
    if not layers:
        raise NarrowsError(f"{type(module).__name__} has no {LAYERS} whose outputs could be gated")
    last = layers[-1]
    placed = Gate(outputs(last), (-1 if isinstance(last, nn.Linear) else 1) if dim is None else dim).to(last.weight)
    return nn.Sequential(*(module if _is_sequence(module) else [module]), placed)


def gates_in(model: nn.Module) -> list[Gate]:
    """Return all gates of a network, in order."""
    return [module for module in model.modules() if isinstance(module, Gate)]


def narrow(model: nn.Module) -> nn.Module:
    """Return a copy without gates and without the units they closed; the given network stays as it is."""
    if not isinstance(model, nn.Module):
        raise NarrowsError(f"what is narrowed must be a torch module; it is {model!r:.100}")
    if isinstance(model, Gate):
        raise NarrowsError("a gate alone has no neighbours to cut")
    try:
        smaller = copy.deepcopy(model)
    except RuntimeError as error:
        reason = str(error).partition(".")[0]
        why = f"the network cannot be copied ({reason}); take off what torch.nn.utils put on it"
        raise NarrowsError(why) from error
    used = Counter(map(id, _walk(smaller)))
    for parent, name in _gate_places(smaller):
        _cut_out(smaller, parent._modules[name], used)
        _remove(parent, name)
    return smaller


class Place(NamedTuple):
    """A module of a chain, and where it hangs."""

    parent: nn.Module
    name: str
    module: nn.Module


def _is_sequence(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Tell whether a module does what nn.Sequential does, and no more."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _walk(module: nn.Module) -> Iterator[nn.Module]:
    """Yield all modules below, one that is used in several places each time."""
    for child in module._modules.values():
        if child is not None:
            yield child
            yield from _walk(child)


def _gate_places(model: nn.Module) -> list[tuple[nn.Module, str]]:
    return [
        (parent, name)
        for parent in model.modules()
        for name, child in parent._modules.items()
        if isinstance(child, Gate)
    ][::-1]


def _chain(model: nn.Module, gate: nn.Module | None) -> tuple[list[Place], int]:
    """Return the longest chain of nested Sequentials around a gate, flat, and the gate's place in it."""
    chains = [_flat(m) for m in model.modules() if _is_sequence(m)]
    holding = [c for c in chains if any(place.module is gate for place in c)]
    if not holding:
        raise NarrowsError("a gate is not in an nn.Sequential: cut its neighbours with narrows.cutting")
    longest = max(holding, key=len)
    return longest, next(i for i, place in enumerate(longest) if place.module is gate)


def _flat(sequence: nn.Module) -> list[Place]:
    places: list[Place] = []
    for name, child in sequence._modules.items():
        if child is not None:
            plain = _is_sequence(child) and not _hooked(child)
            places += _flat(child) if plain else [Place(sequence, name, child)]
    return places


def _cut_out(model: nn.Module, gate: nn.Module | None, used: Counter[int]) -> None:
    chain, at = _chain(model, gate)
    assert isinstance(gate, Gate)
    before = _until_layer(chain[:at][::-1], APART, "before", "treats channels apart")
    after = _until_layer(chain[at + 1 :], KEEP_ZEROS, "behind", "leaves zeros as they are; put the gate after it")
    maker, reader = before[-1], after[-1]
    assert isinstance(maker.module, CUTTABLE)
    assert isinstance(reader.module, CUTTABLE)
    between = [place.module for place in (*before[:-1], *after[:-1])]
    for module in (gate, maker.module, reader.module, *between):
        if used[id(module)] > 1 and module.state_dict():
            kind = type(module).__name__
            raise NarrowsError(f"the {kind} at a gate is used in more than one place, and only here can it be cut")
    _check_axes(gate, maker.module, between)
    n, kept = gate.gates.n, gate.gates.kept()
    flattened = any(isinstance(module, nn.Flatten) for module in between)
    map_to_rows = isinstance(reader.module, nn.Linear) and not isinstance(maker.module, nn.Linear)
    each = inputs(reader.module) // n if map_to_rows and flattened else 1  # columns a channel has, once flattened
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
    for module in between:
        _cut_channels(module, n, kept or [0])


def _until_layer(places: Sequence[Place], allowed: tuple[type, ...], where: str, rule: str) -> list[Place]:
    """Walk to the next layer that can be cut, through modules that are certain."""
    for i, place in enumerate(places):
        kind = type(place.module).__name__
        if _hooked(place.module):
            raise NarrowsError(f"{kind} stands {where} a gate and has hooks, which may do anything; remove them first")
        if type(place.module) in CUTTABLE:
            return list(places[: i + 1])
        if type(place.module) not in (*allowed, Gate):
            raise NarrowsError(f"{kind} stands {where} a gate, and it is not certain that it {rule}")
    raise NarrowsError(f"there is no {LAYERS} {where} a gate in its nn.Sequential")


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _check_axes(gate: Gate, maker: nn.Module, between: Sequence[nn.Module]) -> None:
    """Refuse gates on another axis than the one that the layer makes, and modules that work on another one."""
    rows = isinstance(maker, nn.Linear)
    whole = [m for m in between if isinstance(m, nn.Flatten) and (m.start_dim, m.end_dim) != (1, -1)]
    mixing = [m for m in between if rows and type(m) in MAPS_ONLY]
    if whole or mixing:
        module = (*whole, *mixing)[0]
        raise NarrowsError(f"{module} stands at gates behind a {type(maker).__name__}: its units would be mixed")
    flat = any(isinstance(module, nn.Flatten) for module in between)
    own = -1 if rows else 1
    axes = gate.seen or (max(2, gate.dim + 1) if rows or flat else 4)
    if gate.dim % axes != own % axes:
        raise NarrowsError(
            f"gates stand on axis {gate.dim} of a tensor with {axes} axes, and the {type(maker).__name__} before them "
            f"makes axis {own}: leave dim out"
        )
    norm = next((m for m in between if isinstance(m, NORMS) or _numbers(m) > 1), None)
    if rows and axes > 2 and norm is not None:
        raise NarrowsError(f"{norm} works on axis 1 of a tensor with {axes} axes, and the gates stand on the last one")


def _numbers(module: nn.Module) -> int:
    """Return how many numbers a PReLU has, 0 for any other module."""
    return module.num_parameters if isinstance(module, nn.PReLU) else 0


def _cut_channels(module: nn.Module, n: int, kept: list[int]) -> None:
    """Give a module with one number a channel only those of the kept channels."""
    if isinstance(module, Gate):
        raise NarrowsError("two gates stand between the same two layers; one is enough")
    numbers = module.num_features if isinstance(module, NORMS) else _numbers(module)
    if numbers <= 1 and not isinstance(module, NORMS):
        return
    if numbers != n:
        raise NarrowsError(f"{module} stands at {n} gates: it must have as many numbers as there are gates")
    for name, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(parameter.detach()[kept].clone(), parameter.requires_grad))
    for name, buffer in list(module.named_buffers(recurse=False)):
        if buffer.ndim == 1:
            setattr(module, name, buffer[kept].clone())
    setattr(module, "num_features" if isinstance(module, NORMS) else "num_parameters", len(kept))


def _remove(parent: nn.Module, name: str) -> None:
    """Take a gate out of its Sequential; numbered places close up, named ones keep their names."""
    children = dict(parent._modules)
    del children[name]
    numbered = all(key.isdigit() for key in children)
    names = map(str, range(len(children))) if numbered else children
    parent._modules = dict(zip(names, children.values(), strict=True))
