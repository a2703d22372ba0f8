"""2. Encoders and decoders, and how a latent dimension is cut out of them.

The paper's convolutional networks (section IV), for 64x64xC and 28x28xC images, with `width` w:

    64x64  encoder  4 convolutions, stride 2, kernels 4 3 3 3, channels w w 2w 2w   (64 -> 32 -> 16 -> 8 -> 4)
    28x28  encoder  3 convolutions, stride 2, kernels 4 3 2,   channels w 2w 2w     (28 -> 14 -> 7 -> 4)
           then     linear to 128, linear to 2n: n means and n log standard deviations
           decoder  linear n -> 128, linear to the first map, then one block a convolution, mirrored

Images of any other size from 16 to 256 pixels a side, square or not, get as many stages as it takes to halve both
sides down to 3 or 4 (a side that is there already is kept), with at most two stages of w channels, then 2w.

An encoder block is convolution, leaky ReLU (0.02), BatchNorm; a decoder block is BatchNorm, nearest-neighbour
upsampling by two, convolution, leaky ReLU (decision D8). Vectors get two hidden layers of 8w units on each side, and
where rows are few a direct, linear path past them, which needs less to learn from (decision D17).

The latent layer is linear on both sides (`encoder.head`, `decoder.stem`), so removing dimension j means removing two
rows of the one and one column of the other: `narrowed(kept)` does that, and the output does not change.

Images run in channels-last memory throughout, and the networks never see the user's units: `Scaling` stands between.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.cutting import with_inputs, with_outputs
from narrows.errors import NarrowsError
from narrows.layers import BatchNorm, Statistics
from narrows.upsampling import UpsampleConv

Module = TypeVar("Module", bound=nn.Module)

LEAK = 0.02
HIDDEN = 128


@dataclass(frozen=True)
class NetworkConfig:
    """What is needed to build a pair of networks again: it is stored with every model."""

    kind: Literal["conv", "mlp"]
    """Convolutional (images of 16 to 256 pixels a side) or fully connected (anything)."""
    shape: tuple[int, ...]
    """One example: (channels, height, width) or (values,)."""
    n: int
    """Latent dimensions."""
    width: int = 32
    """Scales every layer: 32 gives channels 32, 32, 64, 64."""
    output: Literal["sigmoid", "linear"] = "sigmoid"
    """Sigmoid for images in [0, 1]; linear with `Scaling` for everything else."""
    direct: bool = False
    """Fully connected: whether codes and outputs also have a linear path past the hidden layers."""


@dataclass(frozen=True)
class ConvPlan:
    """One convolutional network, stage by stage from the image to the last map."""

    sizes: tuple[tuple[int, int], ...]
    """(height, width) before the first stage and after each."""
    kernels: tuple[int, ...]
    """Of the encoder."""
    channels: tuple[int, ...]
    """In units of width."""
    up_kernels: tuple[int, ...]
    """Of the decoder, from the last map to the image."""

    def factor(self, stage: int) -> tuple[int, int]:
        """Return by how much a stage shrinks height and width: 2, or 1 for a side that is short already."""
        (h, w), (h_after, w_after) = self.sizes[stage], self.sizes[stage + 1]
        return (2 if h_after < h else 1), (2 if w_after < w else 1)


SMALLEST_SIDE, LARGEST_SIDE = 16, 256
SHORT = 4
"""Sides are halved until they are this short."""
PAPERS_28 = ConvPlan(((28, 28), (14, 14), (7, 7), (4, 4)), (4, 3, 2), (1, 2, 2), (2, 3, 3))


def has_conv_plan(shape: tuple[int, ...]) -> bool:
    """Tell whether there is a convolutional network for examples of this shape."""
    return len(shape) == 3 and all(SMALLEST_SIDE <= side <= LARGEST_SIDE for side in shape[1:])


def conv_plan(shape: tuple[int, ...]) -> ConvPlan:
    """Return the stages for images of this shape: the paper's for 64x64 and 28x28, the same idea for all others."""
    if not has_conv_plan(shape):
        raise NarrowsError(
            f"the convolutional networks are for images with sides of {SMALLEST_SIDE} to {LARGEST_SIDE}, not {shape}; "
            f"resize the images or use kind='mlp'"
        )
    if shape[1:] == (28, 28):
        return PAPERS_28
    sizes = [(shape[1], shape[2])]
    while max(sizes[-1]) > SHORT:
        h, w = sizes[-1]
        sizes.append((_halved(h), _halved(w)))
    stages = len(sizes) - 1
    first = 4 if shape[1] % 2 == shape[2] % 2 == 0 else 3  # a kernel of 4 halves even sides only
    wide = stages - min(2, stages // 2)
    return ConvPlan(tuple(sizes), (first,) + (3,) * (stages - 1), (1,) * (stages - wide) + (2,) * wide, (3,) * stages)


def _halved(side: int) -> int:
    return side if side <= SHORT else (side + 1) // 2


class Encoder(nn.Module, ABC):
    """Anything from a batch of examples to 2n numbers, whose last layer is the linear `head`."""

    head: nn.Linear

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """`(batch, *shape)`, after `Scaling`, -> (batch, 2n)."""

    def narrowed(self, kept: Sequence[int]) -> "Encoder":
        """Return a copy that outputs only the kept dimensions' means and log standard deviations."""
        n = self.head.out_features // 2
        rows = [*kept, *(n + j for j in kept)]
        return _with_layer(self, "head", with_outputs(self.head, rows))


class Decoder(nn.Module, ABC):
    """Anything from a latent vector to an example, whose first layer is the linear `stem`.

    `record` and `reuse` carry batch statistics, and whatever else need not be made twice, from one pass to another.
    """

    stem: nn.Linear

    @abstractmethod
    def forward(self, z: Tensor, record: Statistics | None = None, reuse: Statistics | None = None) -> Tensor:
        """(batch, n) -> `(batch, *shape)`, before `Scaling`."""

    @abstractmethod
    def start_at(self, mean: Tensor) -> None:
        """Set the last layer's bias so that the untrained decoder gives about this, one example before `Scaling`."""

    def narrowed(self, kept: Sequence[int]) -> "Decoder":
        """Return a copy that takes only the kept dimensions."""
        return _with_layer(self, "stem", with_inputs(self.stem, kept))


def _with_layer(module: Module, name: str, layer: nn.Linear) -> Module:
    smaller = copy.deepcopy(module)
    setattr(smaller, name, layer)
    return smaller


class ConvEncoder(Encoder):
    """The paper's encoder."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        plan = conv_plan(config.shape)
        channels = [config.shape[0], *(c * config.width for c in plan.channels)]
        self.convs = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], kernel, stride=plan.factor(i), padding=1)
            for i, kernel in enumerate(plan.kernels)
        )
        self.norms = nn.ModuleList(BatchNorm(c) for c in channels[1:])
        height, width = plan.sizes[-1]
        self.hidden = nn.Linear(channels[-1] * height * width, HIDDEN)
        self.head = nn.Linear(HIDDEN, 2 * config.n)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, 2n)."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(F.leaky_relu_(conv(x), LEAK))
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.head(F.leaky_relu_(self.hidden(x), LEAK))


class ConvDecoder(Decoder):
    """The paper's decoder: the encoder mirrored, with upsampling in place of strides."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        plan = conv_plan(config.shape)
        channels = [*(c * config.width for c in reversed(plan.channels)), config.shape[0]]
        self.sizes = plan.sizes[::-1]
        self.stem = nn.Linear(config.n, HIDDEN)
        self.expand = nn.Linear(HIDDEN, channels[0] * self.sizes[0][0] * self.sizes[0][1])
        self.norms = nn.ModuleList(BatchNorm(c) for c in channels[:-1])
        last = len(plan.kernels) - 1
        self.convs = nn.ModuleList(
            UpsampleConv(channels[i], channels[i + 1], kernel, plan.factor(last - i))
            for i, kernel in enumerate(plan.up_kernels)
        )

    @torch.no_grad()
    def start_at(self, mean: Tensor) -> None:
        """Set the last convolution's bias to the mean of each channel."""
        last = self.convs[-1]
        assert isinstance(last, UpsampleConv)
        assert last.bias is not None
        last.bias.copy_(mean.mean((1, 2)))

    def forward(self, z: Tensor, record: Statistics | None = None, reuse: Statistics | None = None) -> Tensor:
        """(batch, n) -> (batch, channels, height, width), before the sigmoid."""
        x = F.leaky_relu_(self.expand(F.leaky_relu_(self.stem(z), LEAK)), LEAK)
        height, width = self.sizes[0]
        x = x.view(x.shape[0], height, width, x.shape[1] // (height * width)).permute(0, 3, 1, 2)
        again = iter(reuse) if reuse is not None else None
        for i, (norm, conv) in enumerate(zip(self.norms, self.convs, strict=True)):
            x = norm(x, record, next(again) if again else None)
            x = _cropped(conv(x, record, next(again) if again else None), self.sizes[i + 1])
            if i + 1 < len(self.convs):
                x = F.leaky_relu_(x, LEAK)
        return x


def _cropped(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Drop the last row or column where a side is odd and its half, doubled, is one too long."""
    if x.shape[2:] == size:
        return x
    return x[:, :, : size[0], : size[1]].contiguous(memory_format=torch.channels_last)


class MLPEncoder(Encoder):
    """Two hidden layers; images are flattened."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        hidden, values = 8 * config.width, torch.Size(config.shape).numel()
        self.direct = config.direct
        self.first = nn.Linear(values, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden + values * config.direct, 2 * config.n)

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, *shape)` -> (batch, 2n)."""
        x = x.flatten(1)
        features = F.silu(self.second(F.silu(self.first(x))))
        return self.head(torch.cat([features, x], 1) if self.direct else features)


class MLPDecoder(Decoder):
    """Two hidden layers, mirrored."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        hidden, values = 8 * config.width, torch.Size(config.shape).numel()
        self.shape = config.shape
        self.stem = nn.Linear(config.n, hidden + values * config.direct)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, values)

    @torch.no_grad()
    def start_at(self, mean: Tensor) -> None:
        """Set the last layer's bias to the mean of each value."""
        self.last.bias.copy_(mean.flatten())

    def forward(self, z: Tensor, record: Statistics | None = None, reuse: Statistics | None = None) -> Tensor:
        """(batch, n) -> `(batch, *shape)`."""
        hidden, direct = self.stem(z).tensor_split([self.second.in_features], dim=1)
        y = self.last(F.silu(self.second(F.silu(hidden))))
        return (y + direct if direct.shape[1] else y).view(z.shape[0], *self.shape)


class Scaling(nn.Module):
    """Between the user's units and the networks': part of the model, so that errors are in the user's units.

    `sigmoid`: inputs pass as they are, outputs are squashed into [0, 1] (the paper's images). `linear`: each value
    is shifted by its mean and all are divided by one common scale, so that the squared error in the user's units is
    the networks' times scale squared, and the answer does not depend on the unit. A table's columns, each with a unit
    of its own, are trained in standard deviations; `in_units` is the way back, for the model that is saved.
    """

    def __init__(self, output: Literal["sigmoid", "linear"], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.output = output
        self.shift: Tensor
        self.scale: Tensor
        columns = shape if len(shape) == 1 else ()
        self.register_buffer("shift", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def fit(self, mean: Tensor, spread: Tensor) -> None:
        """Set the shift (one a value for vectors, one in all for images) and the common scale."""
        self.shift.copy_(mean if self.shift.ndim else mean.mean())
        self.scale.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def in_units(self, shift: Tensor, unit: Tensor) -> "Scaling":
        """Return the scaling of a model that takes and gives x, in float64, instead of (x - shift) / unit."""
        scaling = copy.deepcopy(self).cpu().double()  # a shift of 1.7e9 has no room in single precision
        scaling.shift = shift + unit * scaling.shift
        scaling.scale = unit * scaling.scale
        return scaling

    def inward(self, x: Tensor) -> Tensor:
        """From the user's units to the encoder's."""
        return x if self.output == "sigmoid" else (self._precise(x) - self.shift) / self.scale

    def outward(self, y: Tensor) -> Tensor:
        """From the decoder's last layer to the user's units."""
        return torch.sigmoid(y) if self.output == "sigmoid" else self.shift + self.scale * self._precise(y)

    def _precise(self, x: Tensor) -> Tensor:
        """One number for all of an image would otherwise be rounded to the image's precision."""
        return x.to(torch.promote_types(x.dtype, self.shift.dtype))


def build(config: NetworkConfig) -> tuple[Encoder, Decoder, Scaling]:
    """Build untrained networks; their initial values come from torch's global generator."""
    scaling = Scaling(config.output, config.shape)
    if config.kind == "conv":
        return ConvEncoder(config), ConvDecoder(config), scaling
    return MLPEncoder(config), MLPDecoder(config), scaling
