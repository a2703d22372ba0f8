"""What all built-in networks share: their configuration, and the two layers that the latent dimensions live between.

The encoder ends with a linear layer, `head`, which makes n means and n log standard deviations; the decoder begins
with a linear layer, `stem`, which reads z. So a latent dimension is two rows of the one and one column of the other,
and can be removed from both without changing the output (`narrows.networks.pruning`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from narrows._util.checks import COUNT, FLAG, MOST, SIZE, Rule, argument, one_of, several
from narrows._util.errors import NarrowsError
from narrows.networks.batchnorm import Statistics

DIMENSIONS = Rule(f"a whole number from 0 to {MOST:,}", lambda value: type(value) is int and 0 <= value <= MOST)


@dataclass(frozen=True)
class NetworkConfig:
    """Everything needed to build a pair of networks again; it is stored with every model.

    Raises:
        NarrowsError: An entry is of another kind, or out of its range.
    """

    kind: Literal["conv", "mlp"]
    """Convolutional (images with sides of 16 to 256 pixels) or fully connected (any example)."""
    shape: tuple[int, ...]
    """Shape of one example: (channels, height, width) or (values,)."""
    n: int
    """Number of latent dimensions."""
    width: int = 32
    """Scale of every layer: 32 gives channels 32, 32, 64, 64."""
    output: Literal["sigmoid", "linear", "counts"] = "sigmoid"
    """Last activation: sigmoid for images in [0, 1]; counts for counts; linear, with `Scaling`, for everything else."""
    direct: bool = False
    """Whether a linear path runs past the hidden layers between the data (convolutions: the last map) and the codes."""
    blocks: tuple[int, ...] = ()
    """Numbers of levels of a table's categories: the last values of a vector, decoded to probabilities."""
    masked: bool = False
    """Whether examples may lack values (NaN): the encoder then reads 0 there, and beside it which values it has."""
    batches: int = 0
    """How many batches rows of counts are from: as many values that follow a row's counts say which; 0 for none."""

    def __post_init__(self) -> None:
        words = "(values,) or (channels, height, width), each a whole number from 1 on"
        checked: dict[str, Any] = {
            "kind": argument("kind", self.kind, one_of(("conv", "mlp"))),
            "shape": tuple(several("shape", self.shape, COUNT, words, lengths=(1, 3))),
            "n": argument("n", self.n, DIMENSIONS),
            "width": argument("width", self.width, SIZE),
            "output": argument("output", self.output, one_of(("sigmoid", "linear", "counts"))),
            "blocks": tuple(several("blocks", self.blocks, COUNT, "the numbers of levels of categories")),
            "masked": argument("masked", self.masked, FLAG),
            "direct": argument("direct", self.direct, FLAG),
            "batches": argument("batches", self.batches, DIMENSIONS),
        }
        if checked["blocks"] and (len(checked["shape"]) > 1 or sum(checked["blocks"]) > checked["shape"][0]):
            raise NarrowsError(f"blocks must fit into a vector; they are {checked['blocks']} of {checked['shape']}")
        if checked["output"] == "counts" and (len(checked["shape"]) > 1 or checked["blocks"] or checked["masked"]):
            raise NarrowsError(f"counts must be whole vectors of numbers; the shape is {checked['shape']}")
        if checked["batches"] and checked["output"] != "counts":
            raise NarrowsError(f"batches must be 0 where the output is {checked['output']}; they are for counts")
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # numbers of numpy as Python's, a list as a tuple


def with_mask(x: Tensor) -> Tensor:
    """Return x with 0 for NaN, followed along axis 1 by a mask: 1 for values that were observed, 0 for the others."""
    seen = ~torch.isnan(x)
    return torch.cat([torch.where(seen, x, 0.0), seen.to(x.dtype)], 1)


class Encoder(nn.Module, ABC):
    """A network from a batch of examples to 2n numbers, whose last layer is the linear `head`."""

    head: nn.Linear

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map `(batch, *shape)`, after `Scaling`, to (batch, 2n): means, then log standard deviations."""


class Decoder(nn.Module, ABC):
    """A network from a batch of latent vectors to examples, whose first layer is the linear `stem`.

    `record` and `reuse` carry batch statistics, and whatever else both passes share, from one pass to the next.
    """

    stem: nn.Linear

    @abstractmethod
    def forward(self, z: Tensor, record: Statistics | None = None, reuse: Statistics | None = None) -> Tensor:
        """Map (batch, n) to `(batch, *shape)`, before `Scaling`."""

    @abstractmethod
    def start_at(self, mean: Tensor) -> None:
        """Set the last bias so that the untrained decoder returns about `mean`, one example before `Scaling`."""
