"""2b. "Upsample x2 by nearest neighbour, then convolve" in one layer that never writes the large map.

Each upsampled pixel is a copy of a small map's pixel, and so is its product with any tap of the kernel. So, on a CPU,

    products    every pixel of the small map times every tap, as one convolution with kernels of 1x1: 9 for 4 outputs
    sums        every pixel of the large map sums its nine products

which is a quarter of the plain way's multiplications. The sums are torch's `embedding_bag`: rows of a table, picked
and added. Elsewhere, and where it is faster, the same function is one transposed convolution, with 4/9 of the
multiplications: along one axis a 3-tap kernel (w0, w1, w2) acts on the small map as out[2i] = in[i-1] w0 +
in[i] (w1 + w2) and out[2i+1] = in[i] (w0 + w1) + in[i+1] w2, which is the transposed kernel (w2, w1+w2, w0+w1, w0) with
stride 2 and padding 1. The 2-tap kernel without padding (4 -> 8 -> 7) becomes (w1, w0+w1, w0) in the same way.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from narrows.allocator import memory_is_kept
from narrows.layers import Statistics

DOUBLE_TAPS = {
    3: ((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
    2: ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)),
}
"""Along an axis that is doubled, the transposed kernel as a linear map of the plain one."""
SAME_TAPS = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
"""Along an axis that keeps its size: a transposed convolution of stride 1 is a convolution with the kernel flipped."""
FEW = 4
"""Up to this many output channels a pixel is too short a row to be picked: whole rows of the image are."""
WIDEST = 128
"""Numbers in a row of the small map, over few output channels: above it the sum over columns takes too long."""
CACHED = 1 << 16
"""Products of a batch for each input channel that stay in the cache."""
BROAD = 32
"""Channels, in and out, above which more products than that pay too, in training."""
MOST = 1 << 24
"""Products at a time, in numbers: a larger batch is done in parts."""
SHORT = 32
"""Numbers for which a row's place in the lists of what is summed takes about as much memory."""


class UpsampleConv(nn.Module):
    """Upsampling and convolution, exactly equal to the two of them (the module's text says how).

    `factors` says for height and width whether they are doubled (2) or kept (1; for 3 taps). The weight is a plain
    convolution's; in memory its taps come first, so that it is the products' matrix as it lies.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, factors: tuple[int, int] = (2, 2)) -> None:
        super().__init__()
        plain = nn.Conv2d(inputs, outputs, kernel)  # for PyTorch's own initial values
        assert plain.bias is not None
        self.weight = nn.Parameter(_kernel(_matrix(plain.weight.detach()), plain.weight.shape))
        self.bias = plain.bias
        self.factors = factors
        rows, columns = (torch.tensor(DOUBLE_TAPS[kernel] if factor == 2 else SAME_TAPS) for factor in factors)
        self.taps: Tensor
        """(kernel * kernel, transposed rows, transposed columns): both axes at once."""
        self.register_buffer("taps", torch.einsum("ay,bx->yxab", rows, columns).flatten(0, 1), persistent=False)

    def forward(self, x: Tensor, record: Statistics | None = None, reuse: tuple[Tensor, ...] | None = None) -> Tensor:
        """(batch, inputs, h, w) -> (batch, outputs, 2h, 2w), with kept axes as they are, or 2s - 1 for 2 taps."""
        if self._has_products(x):
            if record is not None:
                record.append(())
            summed = self._rows if self._few else self._pixels
            at_once = self._at_once(x)
            return summed(x) if len(x) <= at_once else torch.cat([summed(part) for part in torch.split(x, at_once)])
        (kernel,) = reuse or (self._transposed(),)
        if record is not None:
            record.append((kernel.detach(),))
        return F.conv_transpose2d(x, kernel, self.bias, stride=self.factors, padding=1)

    def _pixels(self, x: Tensor) -> Tensor:
        """Products and sums, pixel by pixel."""
        products = F.conv2d(x, _matrix(self.weight).view(-1, self.weight.shape[1], 1, 1))
        if not torch.is_grad_enabled():
            return _sum_pixels(products, self.bias, self.weight.shape[2], self.factors)
        y: Tensor = _SumPixels.apply(products, self.bias, self.weight.shape[2], self.factors)  # type: ignore[no-untyped-call]
        return y

    def _rows(self, x: Tensor) -> Tensor:
        """Products and sums, row by row."""
        if not torch.is_grad_enabled():
            return _sum_rows(x, self.weight, self.bias, self.factors)
        y: Tensor = _SumRows.apply(x, self.weight, self.bias, self.factors)  # type: ignore[no-untyped-call]
        return y

    @property
    def _few(self) -> bool:
        return self.weight.shape[0] <= FEW

    def _at_once(self, x: Tensor) -> int:
        """Return how many examples' products there is room for: a power of two, as the lists of what is summed are."""
        outputs, _, *taps = self.weight.shape
        row = x.shape[3] if self._few else outputs
        numbers = x.shape[2:].numel() * taps[0] * taps[1] * outputs // row * max(row, SHORT)
        return 1 << max(1, MOST // numbers).bit_length() - 1

    def _has_products(self, x: Tensor) -> bool:
        """Tell whether there are products and sums: on a CPU, where they pay, unless something is traced."""
        return (
            not torch.jit.is_tracing()  # type: ignore[no-untyped-call,attr-defined]
            and not torch.compiler.is_compiling()
            and not torch._C._are_functorch_transforms_active()
            and not torch.is_autocast_enabled("cpu")
            and x.device.type == "cpu"
            and x.dtype == self.weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and self._pays(x)
        )

    def _pays(self, x: Tensor) -> bool:
        """Tell whether products and sums are the faster way, as far as was measured.

        What leaves the cache pays in training, where oneDNN's transposed convolution is slow, between many channels, in
        single precision, and if freed memory stays with the process: otherwise the system has to find it anew.
        """
        (batch, inputs, height, width), outputs = x.shape, self.weight.shape[0]
        if self._few:
            return x.numel() > 0 and width * outputs <= WIDEST
        products = batch * height * width * self.weight.numel() // self.weight.shape[1]
        broad = min(inputs, outputs) >= BROAD and x.dtype == torch.float32
        large = broad and torch.is_grad_enabled() and memory_is_kept()
        return products > 0 and (large or products <= CACHED * inputs)

    def _transposed(self) -> Tensor:
        """Return the transposed convolution's weight, (inputs, outputs, taps, taps): linear in `self.weight`."""
        outputs, inputs = self.weight.shape[:2]
        kernel = self.weight.reshape(outputs * inputs, -1) @ self.taps.flatten(1)
        return kernel.view(outputs, inputs, *self.taps.shape[1:]).transpose(0, 1)


def _matrix(weight: Tensor) -> Tensor:
    """Return a kernel as a matrix, (rows of taps * columns of taps * outputs, inputs)."""
    return weight.permute(2, 3, 0, 1).reshape(-1, weight.shape[1])


def _kernel(matrix: Tensor, shape: torch.Size) -> Tensor:
    """Return a kernel of this shape from its matrix."""
    outputs, inputs, *taps = shape
    return matrix.view(*taps, outputs, inputs).permute(2, 3, 0, 1)


def _pixels(images: Tensor) -> Tensor:
    """(batch, channels, height, width) -> (batch * height * width, channels)."""
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])


def _images(pixels: Tensor, batch: int, height: int) -> Tensor:
    """The way back."""
    return pixels.view(batch, height, -1, pixels.shape[-1]).permute(0, 3, 1, 2)


def _sum_pixels(products: Tensor, bias: Tensor, taps: int, factors: tuple[int, int]) -> Tensor:
    """Sums of (batch, taps * taps * outputs, height, width): a row of the table is a pixel's product with one tap."""
    batch, _, height, width = products.shape
    routes = _pixel_routes(_at_least(batch), height, width, taps, factors)
    table = products.permute(0, 2, 3, 1).reshape(-1, len(bias))
    return _images(_sums(table, routes.there(batch)).add_(bias), batch, routes.height)


def _sum_rows(x: Tensor, weight: Tensor, bias: Tensor, factors: tuple[int, int]) -> Tensor:
    """The same for few outputs: a row of the table is a row of small pixels times one tap, one output channel.

    That sums over the taps' rows; the sum over their columns is a product with a fixed matrix of ones and zeros.
    """
    (batch, inputs, height, width), (outputs, _, taps, _) = x.shape, weight.shape
    routes = _row_routes(_at_least(batch), height, taps, factors[0], outputs)
    matrix = _matrix(weight).expand(batch, -1, -1)
    products = torch.bmm(matrix, _pixels(x).view(batch, -1, inputs).transpose(1, 2))
    y = _sums(products.view(-1, width), routes.there(batch)).view(-1, taps * width)
    y = (y @ _columns(width, taps, factors[1], x.dtype)).view(batch, routes.height, outputs, -1).permute(0, 2, 1, 3)
    return y.contiguous(memory_format=torch.channels_last).add_(bias.view(-1, 1, 1))


class _SumPixels(torch.autograd.Function):
    """`_sum_pixels` with its gradient.

    The result is no view for autograd, so an activation may work on it in place, and gradients keep the channels last
    in memory.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, bias: Tensor, taps: int, factors: tuple[int, int]) -> Tensor:
        ctx.shape, ctx.taps, ctx.factors = products.shape, taps, factors
        return _sum_pixels(products, bias, taps, factors).data

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        batch, _, height, width = ctx.shape
        routes = _pixel_routes(_at_least(batch), height, width, ctx.taps, ctx.factors)
        gradient = _pixels(gradients[0]).contiguous()  # of a sum it is one number, seen from everywhere
        products = _sums(gradient, routes.back(batch)).view(batch * height * width, -1)
        return _images(products, batch, height), gradient.sum(0) if ctx.needs_input_grad[1] else None, None, None


class _SumRows(torch.autograd.Function):
    """`_sum_rows` with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, factors: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.factors = factors
        return _sum_rows(x, weight, bias, factors).data

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (batch, inputs, height, width), (outputs, _, taps, _) = x.shape, weight.shape
        routes = _row_routes(_at_least(batch), height, taps, ctx.factors[0], outputs)
        columns = _columns(width, taps, ctx.factors[1], x.dtype)
        gradient = gradients[0].permute(0, 2, 1, 3).reshape(-1, columns.shape[1]) @ columns.t()
        products = _sums(gradient.view(-1, width), routes.back(batch)).view(batch, -1, height * width)
        matrix, pixels = _matrix(weight).expand(batch, -1, -1), _pixels(x).view(batch, -1, inputs)
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            _images(torch.bmm(products.transpose(1, 2), matrix), batch, height) if for_x else None,
            _kernel(torch.bmm(products, pixels).sum(0), weight.shape) if for_weight else None,
            gradients[0].sum((0, 2, 3)) if for_bias else None,
            None,
        )


class Bags(NamedTuple):
    """What is summed: bag k holds `members[starts[k] : starts[k + 1]]`, rows of a table.

    In numpy, since they are remembered: a tensor would remember the mode it was made in.
    """

    members: np.ndarray
    starts: np.ndarray


class Routes(NamedTuple):
    """From products to sums and, for the gradient, back: example by example, so that a smaller batch has a part."""

    sums: Bags
    products: Bags
    batch: int
    height: int
    """Of the large map."""

    def there(self, batch: int) -> Bags:
        """Return which products each sum has."""
        return self._part(self.sums, batch)

    def back(self, batch: int) -> Bags:
        """Return in which sums each product is."""
        return self._part(self.products, batch)

    def _part(self, bags: Bags, batch: int) -> Bags:
        return Bags(*(numbers[: batch * (len(numbers) // self.batch)] for numbers in bags))


def _sums(table: Tensor, bags: Bags) -> Tensor:
    """Return the sum of every bag's members, rows of the table."""
    return torch.embedding_bag(table, torch.from_numpy(bags.members), torch.from_numpy(bags.starts))[0]


def _at_least(batch: int) -> int:
    """Return the next power of two: so there are few routes to remember."""
    return 1 << (batch - 1).bit_length()


class Axis(NamedTuple):
    """Along one axis, the output's size, and every (output, tap, input) of which its sums consist."""

    size: int
    out: np.ndarray
    tap: np.ndarray
    source: np.ndarray


def _axis(size: int, taps: int, factor: int) -> Axis:
    before = 1 if taps == 3 else 0
    large = factor * size + 2 * before - taps + 1
    out, tap = np.divmod(np.arange(large * taps), taps)
    place = out + tap - before
    inside = (place >= 0) & (place < factor * size)
    return Axis(large, out[inside], tap[inside], place[inside] // factor)


def _bags(bag: np.ndarray, member: np.ndarray, bags: int, members: int, batch: int) -> Bags:
    """Return one example's pairs (bag, member) as lists for a batch."""
    counts = np.bincount(bag, minlength=bags)
    example = np.arange(batch)[:, None]
    everyone = member[np.argsort(bag, kind="stable")] + members * example
    starts = counts.cumsum() - counts + len(bag) * example
    return Bags(everyone.ravel().astype(np.int32), starts.ravel().astype(np.int32))


def _routes(out: np.ndarray, product: np.ndarray, outs: int, products: int, batch: int, height: int) -> Routes:
    out, product = out.ravel(), product.ravel()
    sums, back = _bags(out, product, outs, products, batch), _bags(product, out, products, outs, batch)
    return Routes(sums, back, batch, height)


@functools.lru_cache(maxsize=24)
def _pixel_routes(batch: int, height: int, width: int, taps: int, factors: tuple[int, int]) -> Routes:
    """Route the table (batch, height, width, taps, taps) to (batch, large height, large width)."""
    rows, columns = _axis(height, taps, factors[0]), _axis(width, taps, factors[1])
    product = (rows.source[:, None] * width + columns.source) * taps**2 + rows.tap[:, None] * taps + columns.tap
    out = rows.out[:, None] * columns.size + columns.out
    return _routes(out, product, rows.size * columns.size, height * width * taps**2, batch, rows.size)


@functools.lru_cache(maxsize=24)
def _row_routes(batch: int, height: int, taps: int, factor: int, outputs: int) -> Routes:
    """Route (batch, row taps, column taps, outputs, height) to (batch, large height, outputs, column taps)."""
    rows = _axis(height, taps, factor)
    channel, column_tap = np.divmod(np.arange(outputs * taps), taps)
    product = ((rows.tap[:, None] * taps + column_tap) * outputs + channel) * height + rows.source[:, None]
    out = rows.out[:, None] * outputs * taps + np.arange(outputs * taps)
    return _routes(out, product, rows.size * outputs * taps, taps**2 * outputs * height, batch, rows.size)


def _columns(width: int, taps: int, factor: int, dtype: torch.dtype) -> Tensor:
    """Return (taps * width, large width): which products of a row each output of it sums."""
    return torch.from_numpy(_column_matrix(width, taps, factor, dtype == torch.float64))


@functools.lru_cache(maxsize=24)
def _column_matrix(width: int, taps: int, factor: int, double: bool) -> np.ndarray:
    columns = _axis(width, taps, factor)
    matrix = np.zeros((taps * width, columns.size), np.float64 if double else np.float32)
    matrix[columns.tap * width + columns.source, columns.out] = 1
    return matrix
