"""2b. Cutting a dimension out of two neighbouring layers, exactly.

A dimension is made by one layer (a row of a Linear, an output channel of a convolution) and read by the next (a column,
an input channel). Where the next layer gets nothing but zeros from it, both can go, and the output stays the same.
`with_outputs` and `with_inputs` return the smaller layers. `LatentLayer` says where a VAE's latent dimensions are made
and read, whatever its networks look like: Linear layers for latent vectors, convolutions for latent maps.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from narrows.errors import NarrowsError

Cuttable = nn.Linear | nn.Conv2d | nn.ConvTranspose2d
CUTTABLE = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
Layer = TypeVar("Layer", bound=Cuttable)


def outputs(layer: Cuttable) -> int:
    """Return how many dimensions a layer makes."""
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def inputs(layer: Cuttable) -> int:
    """Return how many dimensions a layer reads."""
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def output_axis(layer: Cuttable) -> int:
    """Return the axis of the weight that has one entry an output."""
    return 1 if isinstance(layer, nn.ConvTranspose2d) else 0


def with_outputs(layer: Layer, kept: Sequence[int]) -> Layer:
    """Return a copy that makes only these dimensions, in this order."""
    smaller = _cut(layer, output_axis(layer), kept)
    if layer.bias is not None:
        smaller.bias = nn.Parameter(layer.bias.detach()[list(kept)].clone(), layer.bias.requires_grad)
    setattr(smaller, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(kept))
    return smaller


def with_inputs(layer: Layer, kept: Sequence[int]) -> Layer:
    """Return a copy that reads only these dimensions, in this order."""
    smaller = _cut(layer, 1 - output_axis(layer), kept)
    setattr(smaller, "in_features" if isinstance(layer, nn.Linear) else "in_channels", len(kept))
    return smaller


def _cut(layer: Layer, axis: int, kept: Sequence[int]) -> Layer:
    if not isinstance(layer, nn.Linear) and layer.groups != 1:
        raise NarrowsError(f"a convolution with groups={layer.groups} ties its channels together and cannot be cut")
    smaller = copy.copy(layer)  # its tensors are replaced: no copy of the large ones
    smaller._parameters = dict(layer._parameters)
    index = torch.tensor(list(kept), dtype=torch.long, device=layer.weight.device)
    smaller.weight = nn.Parameter(layer.weight.detach().index_select(axis, index), layer.weight.requires_grad)
    if layer.bias is not None:
        smaller.bias = nn.Parameter(layer.bias.detach().clone(), layer.bias.requires_grad)
    return smaller


@dataclass(frozen=True)
class LatentLayer:
    """Where latent dimension j leaves the encoder and enters the decoder.

    Row `mean_from + j` of `mean` makes its mean, row `log_std_from + j` of `log_std` (often the same layer) the log of
    its standard deviation; `stem` reads it.
    """

    mean: Cuttable
    mean_from: int
    log_std: Cuttable
    log_std_from: int
    stem: Cuttable

    def tensors(self, gate: int) -> dict[str, Tensor]:
        """Return views of what belongs to one dimension alone."""
        views = {"column": self.stem.weight.detach().select(1 - output_axis(self.stem), gate)}
        for name, layer, start in (("mean", self.mean, self.mean_from), ("log_std", self.log_std, self.log_std_from)):
            views[name] = layer.weight.detach().select(output_axis(layer), start + gate)
            if layer.bias is not None:
                views[f"{name}_bias"] = layer.bias.detach()[start + gate]
        return views

    def stored(self, gates: Sequence[int]) -> dict[int, dict[str, Tensor]]:
        """Return copies of these dimensions' weights."""
        return {gate: {name: view.clone() for name, view in self.tensors(gate).items()} for gate in gates}

    def put_back(self, stored: dict[int, dict[str, Tensor]], gates: Sequence[int]) -> None:
        """Give these dimensions the weights they had."""
        for gate in gates:
            for name, view in self.tensors(gate).items():
                view.copy_(stored[gate][name])

    def shiftable(self) -> bool:
        """Tell whether a constant added to a dimension can be taken off exactly in the decoder's first layer."""
        stem = self.stem
        if stem.bias is None or self.mean.bias is None:
            return False
        return isinstance(stem, nn.Linear) or (isinstance(stem, nn.Conv2d) and stem.padding in (0, (0, 0)))

    @torch.no_grad()
    def rescale(self, mean: Tensor, scale: Tensor, log_shift: Tensor) -> None:
        """Make every dimension z into (z - mean) / scale, all (n,), and take it back in the decoder's first layer.

        Log standard deviations fall by `log_shift` before whatever bends them. A mean that cannot be taken back (zero
        padding meets it at the borders) stays.
        """
        n, stem = len(scale), self.stem
        columns = stem.weight.movedim(1 - output_axis(stem), -1)
        if self.shiftable():
            assert stem.bias is not None
            taps = columns @ mean  # a Linear's, (outputs,), or a convolution's, (outputs, height, width)
            stem.bias.add_(taps.flatten(1).sum(1) if taps.ndim > 1 else taps)
        else:
            mean = torch.zeros_like(mean)
        columns.mul_(scale)
        self.mean.weight.movedim(output_axis(self.mean), -1)[..., self.mean_from :][..., :n].div_(scale)
        if self.mean.bias is not None:
            self.mean.bias[self.mean_from :][:n].sub_(mean).div_(scale)
        if self.log_std.bias is not None:
            self.log_std.bias[self.log_std_from :][:n].sub_(log_shift)
