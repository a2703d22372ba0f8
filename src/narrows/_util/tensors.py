"""Rules for tensors in a file (schema.py)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from narrows._util.checks import Rule
from narrows._util.schema import Schema


def like(tensor: Tensor) -> Rule:
    """Return the rule that a value is a tensor of this shape and type, each element in its own place in memory.

    A file may hold a tensor whose elements all share one place: fused optimisers, which do not look, write past it.
    """
    shape, dtype, stride = tensor.shape, tensor.dtype, tensor.stride()
    return Rule(
        f"a tensor of shape {tuple(shape)} and type {str(dtype).removeprefix('torch.')}",
        lambda value: (
            isinstance(value, Tensor)
            and value.layout == torch.strided
            and value.shape == shape
            and value.dtype == dtype
            and (value.is_contiguous() or value.stride() == stride)
        ),
    )


def finite(rule: Rule) -> Rule:
    """Return the rule that a value is such a tensor, and all its numbers are finite."""
    return Rule(f"{rule.words}, with finite numbers", lambda v: rule.holds(v) and bool(torch.isfinite(v).all()))


def like_all(tensors: Mapping[str, Tensor]) -> dict[str, Schema]:
    """Return the description of tensors by name, such as a module's state_dict."""
    return {name: like(tensor) for name, tensor in tensors.items()}


def generator_state(generator: torch.Generator) -> Rule:
    """Return the rule that a value is a state that such a generator can take."""
    shape = like(generator.get_state())

    def holds(value: Any) -> bool:
        if not shape.holds(value):
            return False
        try:
            torch.Generator(generator.device).set_state(value)
        except RuntimeError:
            return False
        return True

    return Rule("the state of a random generator", holds)
