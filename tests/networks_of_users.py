"""Networks as a user may write them, for tests of GatedVAE and of its latent layer."""

from collections.abc import Callable

import torch
from torch import nn


class TwoHeads(nn.Module):
    """Means and deviations have a layer each; `layer` builds one from its inputs and outputs."""

    def __init__(self, layer: Callable[[int, int], nn.Module], n: int) -> None:
        super().__init__()
        self.body = nn.Sequential(layer(3, 8), nn.SiLU())
        self.mean, self.log_std = layer(8, n), layer(8, n)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(x)
        return self.mean(features), self.log_std(features)
