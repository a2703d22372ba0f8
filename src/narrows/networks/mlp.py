"""Fully connected networks: two hidden layers of 8 `width` units on each side, for tables and any other example.

Where rows are few, a direct linear path runs past the hidden layers, because it needs less data to learn
(decision D17).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.networks.base import Decoder, Encoder, NetworkConfig, with_mask
from narrows.networks.batchnorm import Statistics


class MLPEncoder(Encoder):
    """An encoder with two hidden layers; images are flattened."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        hidden, values = 8 * config.width, torch.Size(config.shape).numel() * (1 + config.masked) + config.batches
        self.direct, self.masked = config.direct, config.masked
        self.first = nn.Linear(values, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden + values * config.direct, 2 * config.n)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(batch, *shape)` to (batch, 2n)."""
        x = (with_mask(x) if self.masked else x).flatten(1)
        features = F.silu(self.second(F.silu(self.first(x))))
        return self.head(torch.cat([features, x], 1) if self.direct else features)


class MLPDecoder(Decoder):
    """A decoder with two hidden layers."""

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
        """Map (batch, n) to `(batch, *shape)`."""
        hidden, direct = self.stem(z).tensor_split([self.second.in_features], dim=1)
        y = self.last(F.silu(self.second(F.silu(hidden))))
        return (y + direct if direct.shape[1] else y).view(z.shape[0], *self.shape)
