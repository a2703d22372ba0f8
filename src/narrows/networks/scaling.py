"""The layer between the user's units and the networks'."""

import copy
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from narrows._util.checks import COUNT, argument, one_of, several
from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.networks.batches import InBatches

Output = Literal["none", "sigmoid", "linear", "counts"]

_SMALLEST_TOTAL = 1e-12


class Scaling(nn.Module):
    """The map between the user's units and the networks': part of the model, so that errors are in the user's units.

    `none`: values pass as they are in both directions; errors and units are the user's affair. `sigmoid`: inputs pass
    as they are, outputs are squashed into [0, 1] (the paper's images). `linear`: each value is shifted by its mean and
    all are divided by one common scale, so that the squared error in the user's units is the networks' times scale
    squared, and the answer does not depend on the unit. A table's columns, each with a unit of its own, are trained in
    standard deviations; `in_units` restores their units for the model that is saved. A table's categories, the last
    values of a vector, are decoded to probabilities; where the decoder says 0, those are the frequencies in the data.
    `counts` (decision D24): the encoder reads log(1 + x) of rows that are first multiplied to one library size (total),
    and the decoder's output becomes the expected counts of a row of that size: proportions, by a softmax, times the
    size. Where the decoder says 0, they are the proportions in the data. With `batches`, the last values of a row say
    which batch it is from: the encoder reads the row less the mean of its batch, and beside it the batch, and decoded
    counts are multiplied by a learned factor per batch and column. Where the decoder says 0, they are at first the
    proportions in each batch.

    Arguments:
        output: Which of the four maps.
        shape: Shape of one example. Vectors get one shift per value, everything else one shift in all.
        blocks: For `linear`, the number of levels of each category.
        batches: For `counts`, the number of batches; 0 if the decoder is not told the batch.

    Raises:
        NarrowsError: There is no such map, or the shape is not one.
    """

    def __init__(
        self, output: Output = "none", shape: tuple[int, ...] = (), blocks: tuple[int, ...] = (), batches: int = 0
    ) -> None:
        super().__init__()
        self.batches = batches
        self.blocks = tuple(several("blocks", blocks, COUNT, "the numbers of levels of categories"))
        self.output: Output = argument("output", output, one_of(get_args(Output)))
        shape = tuple(several("shape", shape, COUNT, "the shape of one example, such as (20,) or (3, 64, 64)"))
        if output == "none":
            return
        self.shift: Tensor
        self.scale: Tensor
        columns = shape if len(shape) == 1 else ()
        by_batch = (batches, *shape) if batches else shape
        self.register_buffer("shift", torch.zeros(by_batch if batches else columns))
        self.register_buffer("scale", torch.ones(columns))
        if output == "counts":
            self.size: Tensor
            self.proportion: Tensor
            self.dispersion: Tensor
            self.register_buffer("size", torch.ones(()))
            self.register_buffer("proportion", torch.full(by_batch, 1 / max(torch.Size(shape).numel(), 1)))
            self.register_buffer("dispersion", torch.zeros(shape))
        if batches:
            self.offset = nn.Parameter(torch.zeros(by_batch))

    def fit(self, mean: Tensor, spread: Tensor) -> None:
        """Set the shift and the common scale.

        Arguments:
            mean: Mean of each value, in the shape of one example.
            spread: Standard deviation over all values, a scalar; 0 counts as 1.

        Raises:
            NarrowsError: They are not finite tensors of these shapes, or there is no scale to set.
        """
        if self.output == "none":
            raise NarrowsError("Scaling('none') has no shift and no scale to fit; use Scaling('linear', shape)")
        for name, value in (("mean", mean), ("spread", spread)):
            if not isinstance(value, Tensor) or not torch.isfinite(value).all():
                raise NarrowsError(f"{name} must be a tensor of finite numbers; it is {brief(value)}")
        if self.shift.ndim and mean.shape != self.shift.shape:
            raise NarrowsError(
                f"mean must have the shape of one example, {tuple(self.shift.shape)}; it has {tuple(mean.shape)}"
            )
        if spread.numel() != 1 or spread.item() < 0:
            raise NarrowsError(f"spread must be one number of at least 0; it is {brief(spread)}")
        self.shift.copy_(mean if self.shift.ndim else mean.mean())
        self.scale.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def fit_counts(self, size: float, proportion: Tensor, dispersion: Tensor) -> None:
        """Set what `counts` needs besides the shift and the scale of log(1 + x).

        Arguments:
            size: The library size that rows are brought to, above 0.
            proportion: Of each column, (values,), above 0 and 1 together; with batches, (batches, values).
            dispersion: Of each column, (values,), 0 for Poisson counts.
        """
        self.size.fill_(size)
        self.proportion.copy_(proportion)
        self.dispersion.copy_(dispersion)

    @torch.no_grad()
    def continue_from(self, other: "Scaling") -> None:
        """Begin with what another scaling has learned of the same batches, whatever their proportions are here."""
        if self.batches:
            self.offset.copy_(other.proportion.log() + other.offset - self.proportion.log())

    def in_units(self, shift: Tensor, unit: Tensor) -> "Scaling":
        """Return the scaling of a model that takes and returns x, in float64, instead of (x - shift) / unit."""
        scaling = copy.deepcopy(self).cpu().double()  # single precision cannot hold a shift of 1.7e9
        scaling.shift = shift + unit * scaling.shift
        scaling.scale = unit * scaling.scale
        return scaling

    def inward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Map x from the user's units to the encoder's, in the encoder's precision `dtype`."""
        if self.output == "none":
            return x
        if self.batches:
            return self._inward_by_batch(x, dtype)
        if self.output == "counts":
            x = torch.log1p(x * (self.size / x.sum(1, keepdim=True).clamp(min=_SMALLEST_TOTAL)))
        return (x if self.output == "sigmoid" else (self._precise(x) - self.shift) / self.scale).to(dtype)

    def _inward_by_batch(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        x, batch = self._precise(x).tensor_split([x.shape[1] - self.batches], dim=1)
        x = torch.log1p(x * (self.size / x.sum(1, keepdim=True).clamp(min=_SMALLEST_TOTAL)))
        return torch.cat([(x - batch @ self.shift.to(x.dtype)) / self.scale, batch - 1 / self.batches], 1).to(dtype)

    def outward(self, y: Tensor) -> Any:
        """Map the decoder's output to the user's units: a tensor, or with batches an `InBatches`."""
        if self.output == "none":
            return y
        if self.batches:
            level = self.proportion.log() + self.offset
            average = level.mean(0)
            return InBatches(self.size * (y + average.to(y.dtype)).softmax(1), level - average)
        if self.output == "sigmoid":
            return torch.sigmoid(y)
        if self.output == "counts":
            return self.size * (y + self.proportion.log().to(y.dtype)).softmax(1)
        if not self.blocks:
            return self.shift + self.scale * self._precise(y)
        return self._with_probabilities(y)

    def as_large_as(self, y: Tensor | InBatches, x: Tensor) -> Tensor:
        """Return reconstructions y in the library sizes of the rows of x, and in their batches; others than counts stay
        as they are."""
        if isinstance(y, InBatches):
            x, y = y.matched(x)
        return y * (x.sum(1, keepdim=True) / self.size) if self.output == "counts" else y

    def _with_probabilities(self, y: Tensor) -> Tensor:
        first = y.shape[1] - sum(self.blocks)
        numbers = (self.shift + self.scale * self._precise(y))[:, :first]
        level = y[:, first:] + self.shift[first:].clamp(min=1e-6).log().to(y.dtype)
        blocks = [part.softmax(1) for part in torch.split(level, list(self.blocks), 1)]
        return torch.cat([numbers, *(part.to(numbers.dtype) for part in blocks)], 1)

    def _precise(self, x: Tensor) -> Tensor:
        """Return x in the precision of the shift: a shift without axes would be rounded to the precision of x."""
        return x.to(torch.promote_types(x.dtype, self.shift.dtype))
