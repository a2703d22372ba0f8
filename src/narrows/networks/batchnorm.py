"""BatchNorm whose second pass over a batch reuses the statistics of the first (decision D10)."""

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from narrows._util.processes import process_count
from narrows.networks.joined_batch import joined_batch_norm

Statistics = list[tuple[Tensor, Tensor]]
"""Mean and inverse standard deviation that each BatchNorm used in a first pass, (channels,) each, in order."""


class BatchNorm(nn.Module):
    """Batch normalisation whose second pass can be the same function as its first (decision D10).

    In training, the first pass uses the batch's statistics, updates the running ones and appends those it used to
    `record`, if that is given. A pass with `reuse` applies these statistics to other inputs and updates nothing. With
    several training processes the batch is the joined one of all of them (joined_batch.py).

    Arguments:
        channels: Number of channels.
        momentum: Weight of the new batch in the running statistics (decision D6).
        eps: Added to the variance.
    """

    def __init__(self, channels: int, momentum: float = 0.2, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(
        self, x: Tensor, record: Statistics | None = None, reuse: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Normalise x, (batch, channels, height, width)."""
        if reuse is not None:
            mean, inverse_std = reuse
            gain = self.weight * inverse_std
            offset = torch.addcmul(self.bias, mean, gain, value=-1)
            return torch.addcmul(offset.view(-1, 1, 1), x, gain.view(-1, 1, 1))
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        parts = (x, self.weight, self.bias, self.running_mean, self.running_var)
        if process_count() > 1:
            y, mean, inverse_std = joined_batch_norm(*parts, self.momentum, self.eps)
        else:
            y, mean, inverse_std = torch.native_batch_norm(*parts, True, self.momentum, self.eps)
        if record is not None:
            record.append((mean.detach(), inverse_std.detach()))
        return y


@contextlib.contextmanager
def keep_running_averages(module: nn.Module) -> Iterator[None]:
    """Let PyTorch's BatchNorms move copies of their running averages: a second pass is not a second batch.

    The averages themselves stay untouched, because the gradient of the first pass may need them.
    """
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]
    buffers = [(norm, name, buffer) for norm in norms for name, buffer in norm.named_buffers(recurse=False)]
    try:
        for norm, name, buffer in buffers:
            setattr(norm, name, buffer.clone())
        yield
    finally:
        for norm, name, buffer in buffers:
            setattr(norm, name, buffer)
