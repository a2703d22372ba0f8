"""Removal of dimensions from two neighbouring layers, without changing the output.

A dimension is made by one layer (a row of a Linear, an output channel of a convolution) and read by the next (a column,
an input channel). Where the next layer receives nothing but zeros, both can be removed and the output stays the same.
`with_outputs` and `with_inputs` return the smaller layers.
"""

import copy
from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from torch import nn

from narrows._util.checks import Rule, argument, instance_of, several
from narrows._util.errors import NarrowsError

Prunable = nn.Linear | nn.Conv2d | nn.ConvTranspose2d
PRUNABLE = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
LAYER = instance_of(PRUNABLE, "a Linear, Conv2d or ConvTranspose2d")
Layer = TypeVar("Layer", bound=Prunable)


def outputs(layer: Prunable) -> int:
    """Return the number of dimensions that a layer makes."""
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def inputs(layer: Prunable) -> int:
    """Return the number of dimensions that a layer reads."""
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def output_axis(layer: Prunable) -> int:
    """Return the axis of the weight that has one entry per output."""
    return 1 if isinstance(layer, nn.ConvTranspose2d) else 0


def with_outputs(layer: Layer, kept: Sequence[int]) -> Layer:
    """Return a copy of a layer that makes only some of its dimensions.

    Arguments:
        layer: A Linear, Conv2d or ConvTranspose2d; it stays as it is.
        kept: The dimensions of the copy, in their new order.

    Raises:
        NarrowsError: If the layer is of another kind, or a convolution with groups, or it has no such dimension.
    """
    return _selected(layer, "out", kept)


def with_inputs(layer: Layer, kept: Sequence[int]) -> Layer:
    """Return a copy of a layer that reads only some of its dimensions.

    Arguments:
        layer: A Linear, Conv2d or ConvTranspose2d; it stays as it is.
        kept: The dimensions of the copy, in their new order.

    Raises:
        NarrowsError: If the layer is of another kind, or a convolution with groups, or it has no such dimension.
    """
    return _selected(layer, "in", kept)


def _selected(layer: Layer, side: Literal["in", "out"], kept: Sequence[int]) -> Layer:
    """Return a copy of a layer with some of the dimensions on one side, which for outputs have a bias each."""
    layer = argument("layer", layer, LAYER)
    size = outputs(layer) if side == "out" else inputs(layer)
    here = Rule("", lambda one: type(one) is int and 0 <= one < size)
    kept = several("kept", kept, here, f"a list of dimensions, numbers from 0 to {size - 1}")
    if not isinstance(layer, nn.Linear) and layer.groups != 1:
        raise NarrowsError(f"no channel can be removed from a convolution with groups={layer.groups}; use groups=1")
    smaller = copy.deepcopy(layer)
    axis = output_axis(layer) if side == "out" else 1 - output_axis(layer)
    index = torch.tensor(kept, dtype=torch.long, device=layer.weight.device)
    smaller.weight = nn.Parameter(layer.weight.detach().index_select(axis, index), layer.weight.requires_grad)
    if side == "out" and layer.bias is not None:
        smaller.bias = nn.Parameter(layer.bias.detach()[index], layer.bias.requires_grad)
    setattr(smaller, f"{side}_features" if isinstance(layer, nn.Linear) else f"{side}_channels", len(kept))
    return smaller
