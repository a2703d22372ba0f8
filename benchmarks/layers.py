"""Every convolution of the 64x64x1 networks alone, forward and backward, as a fraction of the sgemm rate.

python benchmarks/layers.py
"""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows._util.allocator import keep_memory
from narrows.networks import NetworkConfig
from narrows.networks.conv import ConvDecoder, ConvEncoder
from narrows.networks.upsampling import UpsampleConv

BATCH, TRIES = 64, 20


class Transposed(nn.Module):
    """An upsampling convolution as PyTorch's transposed convolution."""

    def __init__(self, conv: UpsampleConv) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        """Compute what the layer computes on other devices."""
        conv = self.conv
        return F.conv_transpose2d(x, conv._transposed(), conv.bias, stride=conv.factors, padding=1)


def milliseconds(call: Callable[[], object]) -> float:
    """Return the lower quartile of several tries."""
    times = []
    for _ in range(TRIES + 2):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[2:])[TRIES // 4]


def measure(name: str, layer: nn.Module, x: Tensor, taps: int, gemm: float) -> None:
    """Print a layer's time and fraction of sgemm; an output takes `taps` products per input channel (transposed)."""
    y = layer(x)
    gradient = torch.randn_like(y)
    forward = milliseconds(lambda: layer(x))
    both = milliseconds(lambda: layer(x).backward(gradient))
    needed = BATCH * taps * x.shape[1] * y.shape[1] * y.shape[2] * y.shape[3]
    total = needed * (3 if x.requires_grad else 2)
    print(f"| {name} | {forward:.2f} | {both:.2f} | {total / both / 1e6 / gemm:.0%} |", flush=True)


def main() -> None:
    """Measure the layers of the encoder and of the decoder, the latter also as transposed convolutions."""
    keep_memory()
    torch.manual_seed(0)
    square = torch.rand(2048, 2048)
    gemm = 2048**3 / milliseconds(lambda: torch.mm(square, square)) / 1e6
    config = NetworkConfig("conv", (1, 64, 64), n=10)
    print(f"sgemm: {gemm:.0f} G multiply-adds a second\n")
    print("| layer | forward ms | and backward ms | of sgemm |\n|---|---|---|---|")
    x = torch.rand(BATCH, 1, 64, 64)
    for conv in ConvEncoder(config).convs:
        assert isinstance(conv, nn.Conv2d)
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_(x.shape[1] > 1)
        name = f"encoder, {conv.in_channels} to {conv.out_channels}, from {x.shape[2]}x{x.shape[3]}"
        measure(name, conv, x, conv.kernel_size[0] ** 2, gemm)
        x = conv(x)
    for conv in ConvDecoder(config).convs:
        assert isinstance(conv, UpsampleConv)
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
        name = f"decoder, {conv.weight.shape[1]} to {conv.weight.shape[0]}, to {2 * x.shape[2]}x{2 * x.shape[3]}"
        measure(name, conv, x, 4, gemm)
        measure(f"{name}, transposed", Transposed(conv), x, 4, gemm)
        x = conv(x)


if __name__ == "__main__":
    main()
