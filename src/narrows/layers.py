"""2a. Two layers: BatchNorm that can borrow a pass's statistics, and upsampling that never writes the large map."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Statistics = list[tuple[Tensor, Tensor]]
"""Batch means and inverse standard deviations of one pass, one pair a BatchNorm layer, in order."""


class BatchNorm(nn.Module):
    """Batch normalisation whose second pass can be the same function as its first (decision D10).

    In training the first pass uses the batch's own statistics, updates the running ones and, given a list `record`,
    appends what it used. A pass with `reuse` applies those statistics to other inputs and updates nothing.
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
            offset = self.bias - mean * gain
            return torch.addcmul(offset.view(1, -1, 1, 1), x, gain.view(1, -1, 1, 1))
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        y, mean, inverse_std = torch.native_batch_norm(
            x, self.weight, self.bias, self.running_mean, self.running_var, True, self.momentum, self.eps
        )
        if record is not None:
            record.append((mean.detach(), inverse_std.detach()))
        return y


DOUBLE_TAPS = {
    3: ((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
    2: ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)),
}
"""Along an axis that is doubled, the transposed kernel as a linear map of the plain one: see UpsampleConv."""
SAME_TAPS = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
"""Along an axis that keeps its size: a transposed convolution of stride 1 is a convolution with the kernel flipped."""


class UpsampleConv(nn.Module):
    """ "Upsample x2 by nearest neighbour, then convolve", as one transposed convolution that is exactly equal.

    Each upsampled pixel is a copy, so along one axis a 3-tap kernel (w0, w1, w2) acts on the small map as
    out[2i] = in[i-1] w0 + in[i] (w1 + w2) and out[2i+1] = in[i] (w0 + w1) + in[i+1] w2: a transposed convolution
    with kernel (w2, w1+w2, w0+w1, w0), stride 2, padding 1. That is 4/9 of the multiplications, and the large map is
    never written. The 2-tap kernel without padding (4 -> 8 -> 7) becomes (w1, w0+w1, w0) in the same way.
    `factors` says for height and width whether they are doubled (2) or kept (1; for 3 taps).
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, factors: tuple[int, int] = (2, 2)) -> None:
        super().__init__()
        plain = nn.Conv2d(inputs, outputs, kernel)  # for PyTorch's own initial values
        self.weight, self.bias = plain.weight, plain.bias
        self.factors = factors
        self.rows: Tensor
        self.columns: Tensor
        taps = [torch.tensor(DOUBLE_TAPS[kernel] if factor == 2 else SAME_TAPS) for factor in factors]
        self.register_buffer("rows", taps[0], persistent=False)
        self.register_buffer("columns", taps[1], persistent=False)

    def kernel(self) -> Tensor:
        """Return the transposed convolution's weight, (inputs, outputs, taps, taps): linear in `self.weight`."""
        return torch.einsum("ay,oiyx,bx->ioab", self.rows, self.weight, self.columns)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, h, w) -> (batch, outputs, 2h, 2w), with kept axes as they are, or 2s - 1 for 2 taps."""
        return F.conv_transpose2d(x, self.kernel(), self.bias, stride=self.factors, padding=1)
