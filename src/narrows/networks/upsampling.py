"""Nearest-neighbour upsampling by two and a convolution, in one layer that never writes the large map.

Each upsampled pixel is a copy of a pixel of the small map, and so is its product with any tap of the kernel. So, on a
CPU,

    products    every pixel of the small map times every tap, as one 1x1 convolution: 9 products for 4 outputs
    sums        every pixel of the large map is the sum of its nine products

This takes a quarter of the multiplications of the two separate layers. PyTorch's `embedding_bag` computes the sums: it
picks rows of a table and adds them. On other devices, and where it is faster, the same function is one transposed
convolution, with 4/9 of the multiplications. Along one axis a 3-tap kernel (w0, w1, w2) acts on the small map as

    out[2i] = in[i-1] w0 + in[i] (w1 + w2)          out[2i+1] = in[i] (w0 + w1) + in[i+1] w2

which is the transposed kernel (w2, w1+w2, w0+w1, w0) with stride 2 and padding 1. The 2-tap kernel without padding
(4 -> 8 -> 7) becomes (w1, w0+w1, w0) in the same way.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

DOUBLE_TAPS = {
    3: ((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
    2: ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)),
}
"""The transposed kernel as a linear map of the plain one, along an axis that is doubled."""
SAME_TAPS = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
"""The same along an axis that keeps its size: a transposed convolution of stride 1 flips the kernel."""
FEW = 4
"""Most output channels for which whole rows of the image are picked: single pixels would be too short."""
WIDEST = 128
"""Most numbers in a row of the small map, for few output channels: above it the sum over columns is too slow."""
CACHED = 1 << 16
"""Products of a batch per input channel that fit into the cache."""
BROAD = 32
"""Input and output channels from which more products than that are still faster, in training."""
MOST = 1 << 24
"""Most products at a time; a larger batch is split."""
SHORT = 32
"""Numbers in a row that take about as much memory as the row's entries in the lists of summands."""


class UpsampleConv(nn.Module):
    """Upsampling and convolution in one layer, exactly equal to the two (see the top of this module).

    The weight is that of a plain convolution. In memory its taps come first, so that no copy is needed to multiply.

    Arguments:
        inputs: Number of input channels.
        outputs: Number of output channels.
        kernel: Size of the kernel, 2 or 3; with 3, maps are padded by 1.
        factors: For height and width, whether they are doubled (2) or kept (1, with a kernel of 3).
        memory_kept: Whether freed memory stays in the process (narrows._util.allocator): then products that do not fit
            into the cache are faster too.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, factors: tuple[int, int] = (2, 2), memory_kept: bool = False
    ) -> None:
        super().__init__()
        self.memory_kept = memory_kept
        plain = nn.Conv2d(inputs, outputs, kernel)  # for PyTorch's initial values
        assert plain.bias is not None
        self.weight = nn.Parameter(_kernel(_matrix(plain.weight.detach()), plain.weight.shape))
        self.bias = plain.bias
        self.factors = factors
        rows, columns = (torch.tensor(DOUBLE_TAPS[kernel] if factor == 2 else SAME_TAPS) for factor in factors)
        self.taps: Tensor
        """Both axes at once: (kernel * kernel, transposed rows, transposed columns)."""
        self.register_buffer("taps", torch.einsum("ay,bx->yxab", rows, columns).flatten(0, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs, h, w) to (batch, outputs, 2h, 2w); kept axes stay, and 2 taps give 2h - 1 and 2w - 1."""
        if self._has_products(x):
            summed = self._rows if self._few else self._pixels
            at_once = self._at_once(x)
            return summed(x) if len(x) <= at_once else torch.cat([summed(part) for part in torch.split(x, at_once)])
        return F.conv_transpose2d(x, self._transposed(), self.bias, stride=self.factors, padding=1)

    def _pixels(self, x: Tensor) -> Tensor:
        """Return the sums pixel by pixel."""
        products = F.conv2d(x, _matrix(self.weight).view(-1, self.weight.shape[1], 1, 1))
        return _SumPixels.apply(products, self.bias, self.weight.shape[2], self.factors)  # type: ignore[no-untyped-call]

    def _rows(self, x: Tensor) -> Tensor:
        """Return the sums row by row."""
        return _SumRows.apply(x, self.weight, self.bias, self.factors)  # type: ignore[no-untyped-call]

    @property
    def _few(self) -> bool:
        return self.weight.shape[0] <= FEW

    def _at_once(self, x: Tensor) -> int:
        """Return for how many examples there is room at a time: a power of two, as for the lists of summands."""
        outputs, _, *taps = self.weight.shape
        row = x.shape[3] if self._few else outputs
        numbers = x.shape[2:].numel() * taps[0] * taps[1] * outputs // row * max(row, SHORT)
        return 1 << max(1, MOST // numbers).bit_length() - 1

    def _has_products(self, x: Tensor) -> bool:
        """Return whether to compute products and sums: on a CPU, where they are faster, unless the layer is traced."""
        return (
            not torch.jit.is_tracing()  # type: ignore[no-untyped-call,attr-defined]
            and not torch.compiler.is_compiling()
            and not torch._C._are_functorch_transforms_active()
            and not torch.is_autocast_enabled("cpu")
            and x.device.type == "cpu"
            and x.dtype == self.weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and self._is_faster(x)
        )

    def _is_faster(self, x: Tensor) -> bool:
        """Return whether products and sums are faster, as far as was measured.

        Products that do not fit into the cache are faster in training (where oneDNN's transposed convolution is slow)
        between many channels in single precision, if freed memory stays in the process.
        """
        (batch, inputs, height, width), outputs = x.shape, self.weight.shape[0]
        if self._few:
            return x.numel() > 0 and width * outputs <= WIDEST
        products = batch * height * width * self.weight.numel() // self.weight.shape[1]
        broad = min(inputs, outputs) >= BROAD and x.dtype == torch.float32
        large = broad and torch.is_grad_enabled() and self.memory_kept
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
    """Return (batch, channels, height, width) as (batch * height * width, channels)."""
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])


def _images(pixels: Tensor, batch: int, height: int) -> Tensor:
    """Undo `_pixels`."""
    return pixels.view(batch, height, -1, pixels.shape[-1]).permute(0, 3, 1, 2)


class _SumPixels(torch.autograd.Function):
    """Sums products, (batch, taps * taps * outputs, height, width): a row of the table is a pixel times one tap.

    The result is not a view for autograd, so an activation may work on it in place, and gradients stay channels-last.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, bias: Tensor, taps: int, factors: tuple[int, int]) -> Tensor:
        ctx.shape, ctx.taps, ctx.factors = products.shape, taps, factors
        batch, _, height, width = products.shape
        routes = _pixel_routes(_at_least(batch), height, width, taps, factors)
        table = products.permute(0, 2, 3, 1).reshape(-1, len(bias))
        return _images(_sums(table, routes.sums, batch).add_(bias), batch, routes.height).data

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        batch, _, height, width = ctx.shape
        routes = _pixel_routes(_at_least(batch), height, width, ctx.taps, ctx.factors)
        gradient = _pixels(gradients[0]).contiguous()  # the gradient of a sum is one expanded number
        products = _sums(gradient, routes.products, batch).view(batch * height * width, -1)
        return _images(products, batch, height), gradient.sum(0) if ctx.needs_input_grad[1] else None, None, None


class _SumRows(torch.autograd.Function):
    """Does the same for few outputs: a row of the table is a row of small pixels times one tap, for one output channel.

    That sums over the rows of the kernel; the sum over its columns is a product with a fixed matrix of ones and zeros.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, factors: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.factors = factors
        (batch, inputs, height, width), (outputs, _, taps, _) = x.shape, weight.shape
        routes = _row_routes(_at_least(batch), height, taps, factors[0], outputs)
        matrix, columns = _matrix(weight).expand(batch, -1, -1), _columns(width, taps, factors[1], x.dtype)
        products = torch.bmm(matrix, _pixels(x).view(batch, -1, inputs).transpose(1, 2))
        y = _sums(products.view(-1, width), routes.sums, batch).view(-1, taps * width) @ columns
        y = y.view(batch, routes.height, outputs, -1).permute(0, 2, 1, 3)
        return y.contiguous(memory_format=torch.channels_last).add_(bias.view(-1, 1, 1)).data

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (batch, inputs, height, width), (outputs, _, taps, _) = x.shape, weight.shape
        routes = _row_routes(_at_least(batch), height, taps, ctx.factors[0], outputs)
        columns = _columns(width, taps, ctx.factors[1], x.dtype)
        gradient = gradients[0].permute(0, 2, 1, 3).reshape(-1, columns.shape[1]) @ columns.t()
        products = _sums(gradient.view(-1, width), routes.products, batch).view(batch, -1, height * width)
        matrix, pixels = _matrix(weight).expand(batch, -1, -1), _pixels(x).view(batch, -1, inputs)
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            _images(torch.bmm(products.transpose(1, 2), matrix), batch, height) if for_x else None,
            _kernel(torch.bmm(products, pixels).sum(0), weight.shape) if for_weight else None,
            gradients[0].sum((0, 2, 3)) if for_bias else None,
            None,
        )


class Bags(NamedTuple):
    """Lists of summands: bag k holds `members[starts[k] : starts[k + 1]]`, rows of a table.

    They are numpy arrays, because a cached tensor would keep the inference mode it was made in.
    """

    members: np.ndarray
    starts: np.ndarray
    batch: int
    """Number of examples that the lists are for; a smaller batch uses their first part."""


class Routes(NamedTuple):
    """The lists from products to sums and, for the gradient, back."""

    sums: Bags
    """The products of each sum."""
    products: Bags
    """The sums of each product."""
    height: int
    """Height of the large map."""


def _sums(table: Tensor, bags: Bags, batch: int) -> Tensor:
    """Return the sum of the members of every bag of `batch` examples, rows of the table."""
    lists = (bags.members, bags.starts)
    members, starts = (torch.from_numpy(numbers[: batch * (len(numbers) // bags.batch)]) for numbers in lists)
    return torch.embedding_bag(table, members, starts)[0]


def _at_least(batch: int) -> int:
    """Return the next power of two, so that few lists are cached."""
    return 1 << (batch - 1).bit_length()


class Axis(NamedTuple):
    """The size of the output along one axis, and every (output, tap, input) that its sums consist of."""

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
    """Return the pairs (bag, member) of one example as lists for a batch."""
    counts = np.bincount(bag, minlength=bags)
    example = np.arange(batch)[:, None]
    everyone = member[np.argsort(bag, kind="stable")] + members * example
    starts = counts.cumsum() - counts + len(bag) * example
    return Bags(everyone.ravel().astype(np.int32), starts.ravel().astype(np.int32), batch)


def _routes(out: np.ndarray, product: np.ndarray, outs: int, products: int, batch: int, height: int) -> Routes:
    out, product = out.ravel(), product.ravel()
    sums, back = _bags(out, product, outs, products, batch), _bags(product, out, products, outs, batch)
    return Routes(sums, back, height)


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
    """Return the matrix, (taps * width, large width), that sums the products of a row."""
    return torch.from_numpy(_column_matrix(width, taps, factor, dtype == torch.float64))


@functools.lru_cache(maxsize=24)
def _column_matrix(width: int, taps: int, factor: int, double: bool) -> np.ndarray:
    columns = _axis(width, taps, factor)
    matrix = np.zeros((taps * width, columns.size), np.float64 if double else np.float32)
    matrix[columns.tap * width + columns.source, columns.out] = 1
    return matrix
