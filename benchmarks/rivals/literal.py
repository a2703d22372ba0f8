"""Algorithm 1, transcribed line by line with nothing done for speed.

Default memory format, nearest-neighbour upsampling followed by a convolution, two full decoder passes for every batch,
torch's own BatchNorm, Adam and a DataLoader over a Dataset of single examples: what one writes first.
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

LEAK = 0.02


class PerItem(Dataset[Tensor]):
    """One image at a time, as most datasets are written."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images  # (N, H, W, C) uint8

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> Tensor:
        return torch.from_numpy(self.images[i]).permute(2, 0, 1).float() / 255


def encoder_of(shape: tuple[int, int, int], outputs: int) -> nn.Sequential:
    """The paper's encoder for 64x64 or 28x28 images."""
    channels = [shape[0], 32, 32, 64, 64] if shape[1] == 64 else [shape[0], 32, 64, 64]
    kernels = [4, 3, 3, 3] if shape[1] == 64 else [4, 3, 2]
    layers: list[nn.Module] = []
    for i, kernel in enumerate(kernels):
        layers += [nn.Conv2d(channels[i], channels[i + 1], kernel, stride=2, padding=1), nn.LeakyReLU(LEAK)]
        layers += [nn.BatchNorm2d(channels[i + 1], momentum=0.2)]
    layers += [nn.Flatten(), nn.Linear(64 * 16, 128), nn.LeakyReLU(LEAK), nn.Linear(128, outputs)]
    return nn.Sequential(*layers)


def decoder_of(shape: tuple[int, int, int], inputs: int) -> nn.Sequential:
    """The paper's decoder, mirrored: BatchNorm, upsample by two, convolve, leaky ReLU."""
    channels = [64, 64, 32, 32, shape[0]] if shape[1] == 64 else [64, 64, 32, shape[0]]
    kernels = [3, 3, 3, 3] if shape[1] == 64 else [2, 3, 3]
    layers: list[nn.Module] = [nn.Linear(inputs, 128), nn.LeakyReLU(LEAK), nn.Linear(128, 64 * 16), nn.LeakyReLU(LEAK)]
    layers += [nn.Unflatten(1, (64, 4, 4))]
    for i, kernel in enumerate(kernels):
        layers += [nn.BatchNorm2d(channels[i], momentum=0.2), nn.Upsample(scale_factor=2)]
        layers += [nn.Conv2d(channels[i], channels[i + 1], kernel, padding=kernel // 2 if kernel == 3 else 0)]
        layers += [nn.LeakyReLU(LEAK) if i + 1 < len(kernels) else nn.Sigmoid()]
    return nn.Sequential(*layers)


class Literal:
    """Everything Algorithm 1 needs, and its step."""

    def __init__(self, images: np.ndarray, n: int, logits: Tensor, batch: int) -> None:
        shape = (images.shape[3], images.shape[1], images.shape[2])
        self.encoder, self.decoder = encoder_of(shape, 2 * n), decoder_of(shape, n)
        self.start, self.logits = logits, nn.Parameter(logits.clone())
        self.raw = nn.Parameter(torch.tensor(1.1))  # lambda = softplus(raw)^2
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.descent = torch.optim.Adam([*weights, self.logits], lr=1e-3)
        self.ascent = torch.optim.Adam([self.raw], lr=1e-3, maximize=True)
        self.batches = self._endless(DataLoader(PerItem(images), batch, shuffle=True, drop_last=True))
        self.average = torch.zeros(())

    def _endless(self, loader: "DataLoader[Tensor]") -> Iterator[Tensor]:
        while True:
            yield from loader

    def step(self) -> None:
        """One batch."""
        with torch.no_grad():
            self.logits.copy_(self.start)  # so that every step is measured with the same gates
        x = next(self.batches)
        mean, raw = self.encoder(x).chunk(2, dim=1)
        log_std = 8 * torch.tanh(raw / 8)
        z = mean + torch.exp(log_std) * torch.randn_like(mean)
        u = torch.rand_like(mean)
        k = 7.0
        first = (u > torch.sigmoid(-k * self.logits)).float()
        second = (u < torch.sigmoid(k * self.logits)).float()
        error = F.mse_loss(self.decoder(z * second), x, reduction="none").sum((1, 2, 3))
        with torch.no_grad():
            error_first = F.mse_loss(self.decoder(z * first), x, reduction="none").sum((1, 2, 3))
        multiplier = F.softplus(self.raw).square()
        violation = error - 20
        self.average = 0.99 * self.average + 0.01 * violation.detach().mean()
        constraint = violation.mean() + (self.average - violation.mean()).detach()
        kl = 0.5 * (mean.square() + torch.exp(2 * log_std) - 1) - log_std
        kl = ((kl * second).sum(1) / second.sum(1).clamp(min=1)).mean()
        hits = (violation.detach() <= 0).float().mean()
        loss = multiplier * constraint + kl + hits * torch.sigmoid(k * self.logits).sum()
        difference = multiplier.detach() * (error_first - error.detach())
        arm = k * (difference[:, None] * (u - 0.5)).mean(0)
        loss.backward()
        assert self.logits.grad is not None
        self.logits.grad += arm
        self.descent.step()
        self.ascent.step()
        self.descent.zero_grad()
        self.ascent.zero_grad()
