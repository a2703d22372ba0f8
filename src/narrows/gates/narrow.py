"""narrow(): remove the units that gates closed from the layers before and behind them, without changing the output.

    network = nn.Sequential(gate(nn.Linear(784, 64)), nn.ReLU(), nn.Linear(64, 10))
    ...                                                          # train with HiddenNarrowing
    smaller = narrow(network)                                    # nn.Linear(784, 23), nn.ReLU(), nn.Linear(23, 10)

A closed unit sends zeros to the next layer, so it can be removed as long as no module between the two layers turns
zeros into something else. `narrow` knows the modules for which that is certain and names any other in an error: before
the gate, modules that keep channels separate (activations, BatchNorm, dropout, pooling of maps); behind it, those that
also keep zeros zero. Certain means PyTorch's own class, not a subclass or a parametrised one, without hooks, and, if it
has weights, used in one place only. `narrow` follows `nn.Sequential`, nested to any depth; for other networks,
`narrows.networks.pruning` has the two operations it is made of.
"""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.gates.layer import LAYERS, Gate, gates_in, is_sequence
from narrows.networks.pruning import PRUNABLE, inputs, outputs, with_inputs, with_outputs

MAPS_ONLY = (nn.Dropout2d, nn.AvgPool2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.Upsample)
"""Modules that keep channels separate and zeros zero for maps, (batch, channels, height, width), but mix units."""
RECTIFIERS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish)
KEEP_ZEROS = (*RECTIFIERS, nn.Hardswish, nn.Tanh, nn.Softsign, nn.Identity, nn.Dropout, nn.Flatten, *MAPS_ONLY)
"""Modules that keep channels separate and return zeros for a channel of zeros."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
SEPARATE = (*KEEP_ZEROS, *NORMS, nn.Sigmoid, nn.Softplus, nn.Hardsigmoid, nn.LogSigmoid)
"""Modules that keep channels separate."""


def narrow(model: nn.Module) -> nn.Module:
    """Return a copy of a network without its gates and without the units they closed.

    Arguments:
        model: A network with gates (`gate`, `Gate`) inside `nn.Sequential`; it stays as it is.

    Returns:
        The smaller network. Its output is that of the gated one.

    Raises:
        NarrowsError: If it is not certain that a unit can be removed without changing the output; the text names the
            module.
    """
    if not isinstance(model, nn.Module):
        raise NarrowsError(f"narrow() takes a torch.nn.Module; it was given {brief(model)}")
    if isinstance(model, Gate):
        raise NarrowsError("a gate alone has no neighbouring layers; give narrow() the network around it")
    try:
        smaller = copy.deepcopy(model)
    except RuntimeError as error:
        reason = str(error).partition(".")[0]
        why = f"the network cannot be copied ({reason}); remove what torch.nn.utils added to it"
        raise NarrowsError(why) from error
    uses = Counter(id(module) for _, module in smaller.named_modules(remove_duplicate=False))
    for gate in gates_in(smaller):
        _remove(_remove_closed(smaller, gate, uses))
    return smaller


class Place(NamedTuple):
    """A module, and where it is in the network."""

    parent: nn.Module
    name: str
    module: nn.Module


def _chain(model: nn.Module, gate: Gate) -> tuple[list[Place], int]:
    """Return the longest flattened chain of nested Sequentials around a gate, and the gate's position in it."""
    chains = [_flat(module) for module in model.modules() if is_sequence(module)]
    around = [chain for chain in chains if any(place.module is gate for place in chain)]
    if not around:
        raise NarrowsError(
            "a gate is not in an nn.Sequential; remove its closed units with narrows.networks.pruning instead"
        )
    longest = max(around, key=len)
    return longest, next(i for i, place in enumerate(longest) if place.module is gate)


def _flat(sequence: nn.Module) -> list[Place]:
    places: list[Place] = []
    for name, child in sequence._modules.items():  # not named_children, which skips a module's second place
        assert child is not None
        plain = is_sequence(child) and not _has_hooks(child)
        places += _flat(child) if plain else [Place(sequence, name, child)]
    return places


def _remove_closed(model: nn.Module, gate: Gate, uses: Counter[int]) -> Place:
    """Remove the units that a gate closed from both neighbouring layers; return the gate's place."""
    chain, at = _chain(model, gate)
    before = _until_layer(chain[:at][::-1], SEPARATE, "before", "keeps channels separate")
    behind = _until_layer(chain[at + 1 :], KEEP_ZEROS, "behind", "keeps zeros zero; put the gate behind it")
    source, reader = before[-1].module, behind[-1].module
    assert isinstance(source, PRUNABLE)
    assert isinstance(reader, PRUNABLE)
    between = [place.module for place in (*before[:-1], *behind[:-1])]
    for module in (gate, source, reader, *between):
        if uses[id(module)] > 1 and module.state_dict():
            raise NarrowsError(
                f"the {type(module).__name__} next to a gate is used in more than one place and would change in all"
            )
    flattened = any(isinstance(module, nn.Flatten) for module in between)
    _check_axes(gate, source, between, flattened)
    n, kept = gate.gates.n, gate.gates.kept()
    map_to_rows = isinstance(reader, nn.Linear) and not isinstance(source, nn.Linear)
    columns = inputs(reader) // n if map_to_rows and flattened else 1  # per channel, once the map is flattened
    if outputs(source) != n or inputs(reader) != n * columns or map_to_rows != flattened:
        raise NarrowsError(
            f"{n} gates stand between a {type(source).__name__} with {outputs(source)} outputs and a "
            f"{type(reader).__name__} with {inputs(reader)} inputs; the outputs must be the inputs"
        )
    remaining = kept or [0]  # convolutions cannot have size 0, so one unit stays, with weights of 0 behind it
    smaller = with_inputs(reader, [columns * j + i for j in remaining for i in range(columns)])
    if not kept:
        nn.init.zeros_(smaller.weight)
    setattr(behind[-1].parent, behind[-1].name, smaller)
    setattr(before[-1].parent, before[-1].name, with_outputs(source, remaining))
    for module in between:
        _keep_channels(module, n, remaining)
    return chain[at]


def _until_layer(places: Sequence[Place], allowed: tuple[type, ...], where: str, rule: str) -> list[Place]:
    """Return the places up to the next layer with weights; raise if a module on the way is not certain."""
    for i, place in enumerate(places):
        kind = type(place.module).__name__
        if _has_hooks(place.module):
            raise NarrowsError(f"{kind} stands {where} a gate and has hooks, which can do anything; remove them first")
        if type(place.module) in PRUNABLE:
            return list(places[: i + 1])
        if type(place.module) not in (*allowed, Gate):
            raise NarrowsError(f"{kind} stands {where} a gate, and it is not certain that it {rule}")
    raise NarrowsError(f"a gate needs a {LAYERS} {where} it in its nn.Sequential")


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _check_axes(gate: Gate, source: nn.Module, between: Sequence[nn.Module], flattened: bool) -> None:
    """Raise if the gates, or a module next to them, work on another axis than the one the layer makes."""
    rows = isinstance(source, nn.Linear)
    for module in between:
        partial = isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1)
        if partial or (rows and type(module) in MAPS_ONLY):
            raise NarrowsError(f"{module} next to gates behind a {type(source).__name__} would mix its units")
    axis = -1 if rows else 1
    axes = gate.axes or (max(2, gate.dim + 1) if rows or flattened else 4)
    if gate.dim % axes != axis % axes:
        raise NarrowsError(
            f"gates stand on axis {gate.dim} of a tensor with {axes} axes, and the {type(source).__name__} before them "
            f"makes axis {axis}; leave dim out"
        )
    norm = next((module for module in between if _channels(module)), None)
    if rows and axes > 2 and norm is not None:
        raise NarrowsError(f"{norm} works on axis 1 of a tensor with {axes} axes, and the gates stand on the last one")


def _channels(module: nn.Module) -> int:
    """Return the number of channels that a BatchNorm or PReLU has weights for, 0 if there is no weight per channel."""
    if isinstance(module, nn.PReLU):
        return module.num_parameters if module.num_parameters > 1 else 0
    return module.num_features if isinstance(module, NORMS) else 0


def _keep_channels(module: nn.Module, n: int, kept: list[int]) -> None:
    """Remove the weights of all other channels from a BatchNorm or PReLU."""
    if isinstance(module, Gate):
        raise NarrowsError("two gates stand between the same two layers; use one")
    if not _channels(module):
        return
    if _channels(module) != n:
        raise NarrowsError(f"{module} stands next to {n} gates; it must have one weight per gate")
    for name, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(parameter.detach()[kept].clone(), parameter.requires_grad))
    for name, buffer in list(module.named_buffers(recurse=False)):
        if buffer.ndim == 1:
            setattr(module, name, buffer[kept].clone())
    setattr(module, "num_features" if isinstance(module, NORMS) else "num_parameters", len(kept))


def _remove(place: Place) -> None:
    """Remove a gate from its Sequential; the names that follow move up if they are numbers."""
    children = {name: child for name, child in place.parent._modules.items() if name != place.name}
    numbered = all(name.isdigit() for name in children)
    names = map(str, range(len(children))) if numbered else children
    place.parent._modules = dict(zip(names, children.values(), strict=True))
