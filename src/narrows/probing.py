"""Trying something out on a network: a copy that may be changed, and whether two outputs are the same.

Copies are in evaluation mode and full precision, and both sides of a comparison draw the same random numbers, so that
what differs is the function. Outputs may be tensors, collections of them, or objects that hold them, such as
distributions.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


@contextlib.contextmanager
def alone(module: Module) -> Iterator[Module]:
    """Give a copy to try things out on."""
    device = next((p.device.type for p in module.parameters()), "cpu")
    with torch.autocast(device, enabled=False):
        yield copy.deepcopy(module).eval()


def alike(one: Callable[[], Any], other: Callable[[], Any]) -> bool:
    """Tell whether two functions return the same numbers, up to rounding; one that fails is another."""
    outputs = []
    for make in (one, other):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                outputs.append(list(tensors(make())))
            except RuntimeError:
                return False
    a, b = outputs
    return len(a) == len(b) and all(map(_close, a, b))


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    if not a.numel():
        return True
    rounding = torch.finfo(a.dtype).eps ** 0.5
    a, b = a.double(), b.double()
    return bool((a - b).abs().max() <= rounding * a.abs().max())


def tensors(output: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors in what a network returned."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from tensors(value)
    elif hasattr(output, "__dict__"):
        for value in vars(output).values():
            if isinstance(value, Tensor | list | tuple | Mapping):
                yield from tensors(value)
