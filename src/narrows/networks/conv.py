"""The paper's convolutional networks (section IV), and the same idea for images of any size.

For 64x64xC and 28x28xC images, with `width` w:

    64x64  encoder  4 convolutions, stride 2, kernels 4 3 3 3, channels w w 2w 2w   (64 -> 32 -> 16 -> 8 -> 4)
    28x28  encoder  3 convolutions, stride 2, kernels 4 3 2,   channels w 2w 2w     (28 -> 14 -> 7 -> 4)
           then     linear to 128, linear to 2n: n means and n log standard deviations
           decoder  linear n -> 128, linear to the first map, then one block per convolution, mirrored

Images with other sides from 16 to 256 pixels, square or not, get as many stages as it takes to halve both sides down to
3 or 4 (a side that has arrived is kept), with at most two stages of w channels and 2w after that.

With many latent dimensions, 128 leaky units on each side are too few to pass them on: a leaky unit passes half of the
line, so a linear code of n dimensions takes 2n of them. With `direct`, 128 linear units stand beside them.

An encoder block is convolution, leaky ReLU (0.02), BatchNorm; a decoder block is BatchNorm, nearest-neighbour
upsampling by two, convolution, leaky ReLU (decision D8). Images are in channels-last memory throughout.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows._util.allocator import keeps_memory
from narrows._util.errors import NarrowsError
from narrows.networks.base import Decoder, Encoder, NetworkConfig, with_mask
from narrows.networks.batchnorm import BatchNorm, Statistics
from narrows.networks.upsampling import UpsampleConv

LEAK = 0.02
HIDDEN = 128
"""Units between the last map and the latent layer."""


@dataclass(frozen=True)
class ConvPlan:
    """The stages of a convolutional network, from the image to the last map."""

    sizes: tuple[tuple[int, int], ...]
    """(height, width) before the first stage and after each stage."""
    kernels: tuple[int, ...]
    """Kernel sizes of the encoder."""
    channels: tuple[int, ...]
    """Channels after each stage, in multiples of width."""
    up_kernels: tuple[int, ...]
    """Kernel sizes of the decoder, from the last map to the image."""

    def factor(self, stage: int) -> tuple[int, int]:
        """Return the factors by which a stage shrinks height and width: 2, or 1 for a side that is already short."""
        (h, w), (h_after, w_after) = self.sizes[stage], self.sizes[stage + 1]
        return (2 if h_after < h else 1), (2 if w_after < w else 1)


SMALLEST_SIDE, LARGEST_SIDE = 16, 256
SHORT = 4
"""Length down to which sides are halved."""
PAPERS_28 = ConvPlan(((28, 28), (14, 14), (7, 7), (4, 4)), (4, 3, 2), (1, 2, 2), (2, 3, 3))


def has_conv_plan(shape: tuple[int, ...]) -> bool:
    """Return whether examples of this shape can have a convolutional network."""
    return len(shape) == 3 and all(SMALLEST_SIDE <= side <= LARGEST_SIDE for side in shape[1:])


def conv_plan(shape: tuple[int, ...]) -> ConvPlan:
    """Return the stages for images of this shape: the paper's for 64x64 and 28x28, the same idea for all others."""
    if not has_conv_plan(shape):
        raise NarrowsError(
            f"convolutional networks take images with sides of {SMALLEST_SIDE} to {LARGEST_SIDE}, not {shape}; "
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


class ConvEncoder(Encoder):
    """The paper's encoder."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        plan = conv_plan(config.shape)
        channels = [config.shape[0] * (1 + config.masked), *(c * config.width for c in plan.channels)]
        self.masked = config.masked
        self.convs = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], kernel, stride=plan.factor(i), padding=1)
            for i, kernel in enumerate(plan.kernels)
        )
        self.norms = nn.ModuleList(BatchNorm(c) for c in channels[1:])
        height, width = plan.sizes[-1]
        features = channels[-1] * height * width
        self.hidden = nn.Linear(features, HIDDEN)
        self.direct = nn.Linear(features, HIDDEN) if config.direct else None
        self.head = nn.Linear(HIDDEN * (1 + config.direct), 2 * config.n)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, 2n)."""
        x = with_mask(x) if self.masked else x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(F.leaky_relu_(conv(x), LEAK))
        x = x.permute(0, 2, 3, 1).flatten(1)
        hidden = F.leaky_relu_(self.hidden(x), LEAK)
        return self.head(hidden if self.direct is None else torch.cat([hidden, self.direct(x)], 1))


class ConvDecoder(Decoder):
    """The paper's decoder: the encoder mirrored, with upsampling in place of strides."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        plan = conv_plan(config.shape)
        channels = [*(c * config.width for c in reversed(plan.channels)), config.shape[0]]
        self.sizes = plan.sizes[::-1]
        features = channels[0] * self.sizes[0][0] * self.sizes[0][1]
        self.stem = nn.Linear(config.n, HIDDEN * (1 + config.direct))
        self.expand = nn.Linear(HIDDEN, features)
        self.direct = nn.Linear(HIDDEN, features, bias=False) if config.direct else None
        self.norms = nn.ModuleList(BatchNorm(c) for c in channels[:-1])
        last, memory_kept = len(plan.kernels) - 1, keeps_memory()
        self.convs = nn.ModuleList(
            UpsampleConv(channels[i], channels[i + 1], kernel, plan.factor(last - i), memory_kept)
            for i, kernel in enumerate(plan.up_kernels)
        )

    @torch.no_grad()
    def start_at(self, mean: Tensor) -> None:
        """Set the last convolution's bias to the mean of each channel."""
        last = self.convs[-1]
        assert isinstance(last, UpsampleConv)
        last.bias.copy_(mean.mean((1, 2)))

    def forward(self, z: Tensor, record: Statistics | None = None, reuse: Statistics | None = None) -> Tensor:
        """Map (batch, n) to (batch, channels, height, width), before the sigmoid."""
        hidden, direct = self.stem(z).tensor_split([HIDDEN], dim=1)
        x = self.expand(F.leaky_relu(hidden, LEAK))
        x = F.leaky_relu_(x if self.direct is None else x + self.direct(direct), LEAK)
        height, width = self.sizes[0]
        x = x.view(x.shape[0], height, width, x.shape[1] // (height * width)).permute(0, 3, 1, 2)
        for i, (norm, conv) in enumerate(zip(self.norms, self.convs, strict=True)):
            x = norm(x, record, reuse[i] if reuse else None)
            x = _cropped(conv(x), self.sizes[i + 1])
            if i + 1 < len(self.convs):
                x = F.leaky_relu_(x, LEAK)
        return x


def _cropped(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Drop the last row or column where twice the half of an odd side is one too long."""
    if x.shape[2:] == size:
        return x
    return x[:, :, : size[0], : size[1]].contiguous(memory_format=torch.channels_last)
