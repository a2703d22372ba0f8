"""2a. Two layers: BatchNorm that can borrow a pass's statistics, and upsampling that never writes the large map."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Statistics = list[tuple[Tensor, ...]]
"""What a first pass hands to a second, layer by layer: of BatchNorm the batch's mean and inverse standard deviation, of
UpsampleConv its kernel."""


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

    def forward(self, x: Tensor, record: Statistics | None = None, reuse: tuple[Tensor, ...] | None = None) -> Tensor:
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
FEW = 4
"""Up to this many output channels the library's transposed convolution is slower than `_few_channels` (on a CPU)."""


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
        self.few = outputs <= FEW and kernel == 3 and factors == (2, 2)
        rows, columns = (torch.tensor(DOUBLE_TAPS[kernel] if factor == 2 else SAME_TAPS) for factor in factors)
        self.taps: Tensor
        """(kernel * kernel, transposed rows, transposed columns): both axes at once."""
        self.register_buffer("taps", torch.einsum("ay,bx->yxab", rows, columns).flatten(0, 1), persistent=False)

    def kernel(self) -> Tensor:
        """Return the transposed convolution's weight, (inputs, outputs, taps, taps): linear in `self.weight`."""
        outputs, inputs = self.weight.shape[:2]
        kernel = self.weight.reshape(outputs * inputs, -1) @ self.taps.flatten(1)
        return kernel.view(outputs, inputs, *self.taps.shape[1:]).transpose(0, 1)

    def forward(self, x: Tensor, record: Statistics | None = None, reuse: tuple[Tensor, ...] | None = None) -> Tensor:
        """(batch, inputs, h, w) -> (batch, outputs, 2h, 2w), with kept axes as they are, or 2s - 1 for 2 taps."""
        assert self.bias is not None
        (kernel,) = reuse if reuse is not None else (self.kernel(),)
        if record is not None:
            record.append((kernel.detach(),))
        if self.few and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            result: Tensor = _FewChannels.apply(x, kernel, self.bias)  # type: ignore[no-untyped-call]
            return result
        return F.conv_transpose2d(x, kernel, self.bias, stride=self.factors, padding=1)


class _FewChannels(torch.autograd.Function):
    """A transposed convolution (4x4, stride 2, padding 1) with a cheap forward pass; backward is the library's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, kernel)
        return _few_channels(x, kernel).add_(bias.view(-1, 1, 1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        x, kernel = ctx.saved_tensors
        needed = list(ctx.needs_input_grad)
        sizes = [kernel.shape[1]]
        result: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            gradients[0], x, kernel, sizes, [2, 2], [1, 1], [1, 1], True, [0, 0], 1, needed
        )
        return result


def _few_channels(x: Tensor, kernel: Tensor) -> Tensor:
    """Transposed convolution in two moves: one matrix product for all taps, then each pixel sums its four.

    Along one axis, with y[i, k] the product of pixel i and tap k: out[2i] = y[i, 1] + y[i-1, 3] and
    out[2i+1] = y[i, 2] + y[i+1, 0]. First the rows, then the columns, on planes that are contiguous in memory.
    """
    (batch, inputs, height, width), outputs = x.shape, kernel.shape[1]
    pixels = x.permute(0, 2, 3, 1).reshape(batch, height * width, inputs)
    taps = kernel.permute(2, 3, 1, 0).reshape(-1, inputs)
    y = (taps @ pixels.transpose(1, 2)).view(batch, 4, 4, outputs, height, width)
    tall = x.new_empty(batch, 4, outputs, height, 2, width)
    torch.add(y[:, 1, :, :, 1:], y[:, 3, :, :, :-1], out=tall[:, :, :, 1:, 0])
    torch.add(y[:, 2, :, :, :-1], y[:, 0, :, :, 1:], out=tall[:, :, :, :-1, 1])
    tall[:, :, :, 0, 0], tall[:, :, :, -1, 1] = y[:, 1, :, :, 0], y[:, 2, :, :, -1]
    wide = tall.view(batch, 4, outputs, 2 * height, width).permute(1, 0, 3, 4, 2)
    image = torch.empty(
        (batch, outputs, 2 * height, 2 * width), dtype=y.dtype, device=x.device, memory_format=torch.channels_last
    )
    out = image.permute(0, 2, 3, 1).view(batch, 2 * height, width, 2, outputs)
    torch.add(wide[1, :, :, 1:], wide[3, :, :, :-1], out=out[:, :, 1:, 0])
    torch.add(wide[2, :, :, :-1], wide[0, :, :, 1:], out=out[:, :, :-1, 1])
    out[:, :, 0, 0], out[:, :, -1, 1] = wide[1, :, :, 0], wide[2, :, :, -1]
    return image


@contextlib.contextmanager
def keep_running_averages(module: nn.Module) -> Iterator[None]:
    """Let torch's own BatchNorms forget what they see in here: a second look at a batch is no second batch."""
    buffers = [buffer for m in module.modules() if isinstance(m, _BatchNorm) for buffer in m.buffers()]
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
