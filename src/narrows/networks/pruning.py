"""Removal of dimensions from two neighbouring layers, without changing the output.

A dimension is made by one layer (a row of a Linear, an output channel of a convolution) and read by the next (a column,
an input channel). Where the next layer receives nothing but zeros, both can be removed and the output stays the same.
`with_outputs` and `with_inputs` return the smaller layers. `LatentLayer` holds the layers that make and read the latent
dimensions of a VAE: Linear layers for latent vectors, convolutions for latent maps.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from narrows._util.errors import NarrowsError

Prunable = nn.Linear | nn.Conv2d | nn.ConvTranspose2d
PRUNABLE = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
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
        NarrowsError: If the layer is a convolution with groups.
    """
    return _selected(layer, "out", kept)


def with_inputs(layer: Layer, kept: Sequence[int]) -> Layer:
    """Return a copy of a layer that reads only some of its dimensions.

    Arguments:
        layer: A Linear, Conv2d or ConvTranspose2d; it stays as it is.
        kept: The dimensions of the copy, in their new order.

    Raises:
        NarrowsError: If the layer is a convolution with groups.
    """
    return _selected(layer, "in", kept)


def _selected(layer: Layer, side: Literal["in", "out"], kept: Sequence[int]) -> Layer:
    """Return a copy of a layer with some of the dimensions on one side, which for outputs have a bias each."""
    if not isinstance(layer, nn.Linear) and layer.groups != 1:
        raise NarrowsError(f"no channel can be removed from a convolution with groups={layer.groups}; use groups=1")
    smaller = copy.deepcopy(layer)
    axis = output_axis(layer) if side == "out" else 1 - output_axis(layer)
    index = torch.tensor(list(kept), dtype=torch.long, device=layer.weight.device)
    smaller.weight = nn.Parameter(layer.weight.detach().index_select(axis, index), layer.weight.requires_grad)
    if side == "out" and layer.bias is not None:
        smaller.bias = nn.Parameter(layer.bias.detach()[index], layer.bias.requires_grad)
    setattr(smaller, f"{side}_features" if isinstance(layer, nn.Linear) else f"{side}_channels", len(kept))
    return smaller


@dataclass(frozen=True)
class LatentLayer:
    """The layers in which latent dimension j leaves the encoder and enters the decoder."""

    mean: Prunable
    """Makes the mean of dimension j in row j."""
    log_std: Prunable
    """Makes the log of its standard deviation in row `log_std_from + j`; often the same layer."""
    log_std_from: int
    """First row of the log standard deviations: n where both are one layer, otherwise 0."""
    stem: Prunable
    """Reads dimension j in column j."""

    def tensors(self, gate: int) -> dict[str, Tensor]:
        """Return views of the weights that belong to one dimension alone."""
        views = {"column": self.stem.weight.detach().select(1 - output_axis(self.stem), gate)}
        for name, layer, start in (("mean", self.mean, 0), ("log_std", self.log_std, self.log_std_from)):
            views[name] = layer.weight.detach().select(output_axis(layer), start + gate)
            if layer.bias is not None:
                views[f"{name}_bias"] = layer.bias.detach()[start + gate]
        return views

    def stored(self, gates: Sequence[int]) -> dict[int, dict[str, Tensor]]:
        """Return copies of the weights of these dimensions."""
        return {gate: {name: view.clone() for name, view in self.tensors(gate).items()} for gate in gates}

    def put_back(self, stored: dict[int, dict[str, Tensor]], gates: Sequence[int]) -> None:
        """Restore the stored weights of these dimensions."""
        for gate in gates:
            for name, view in self.tensors(gate).items():
                view.copy_(stored[gate][name])

    def shiftable(self) -> bool:
        """Return whether the stem can subtract a constant that was added to a dimension, exactly."""
        stem = self.stem
        if stem.bias is None or self.mean.bias is None:
            return False
        return isinstance(stem, nn.Linear) or (isinstance(stem, nn.Conv2d) and stem.padding in (0, (0, 0)))

    @torch.no_grad()
    def rescale(self, mean: Tensor, scale: Tensor, log_shift: Tensor) -> None:
        """Turn every dimension z into (z - mean) / scale, and undo that in the stem.

        A mean that the stem cannot undo (because of zero padding at the borders) stays.

        Arguments:
            mean: What to subtract from each dimension, (n,).
            scale: What to divide it by, (n,).
            log_shift: What to subtract from the log standard deviation that the layer makes, (n,).
        """
        n, stem = len(scale), self.stem
        columns = stem.weight.movedim(1 - output_axis(stem), -1)
        if self.shiftable():
            assert stem.bias is not None
            taps = columns @ mean  # (outputs,) of a Linear, (outputs, height, width) of a convolution
            stem.bias.add_(taps.flatten(1).sum(1) if taps.ndim > 1 else taps)
        else:
            mean = torch.zeros_like(mean)
        columns.mul_(scale)
        self.mean.weight.movedim(output_axis(self.mean), -1)[..., :n].div_(scale)
        if self.mean.bias is not None:
            self.mean.bias[:n].sub_(mean).div_(scale)
        if self.log_std.bias is not None:
            self.log_std.bias[self.log_std_from :][:n].sub_(log_shift)
