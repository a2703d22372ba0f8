"""The layers on both sides of z, and new coordinates for z that leave the output as it is.

The encoder's last layer makes z and the decoder's first layer reads it: Linear layers for latent vectors, convolutions
for latent maps. Both are linear, so they can absorb any invertible change of coordinates

    y = A (z - m)        the encoder makes y:  mean rows W -> A W, biases b -> A (b - m)
                         the decoder reads m + A^-1 y:  columns V -> V A^-1, biases c -> c + V m

and every decoded mean stays the same. Gradients change by the inverse transpose, and so do the moments of Adam.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from narrows.networks.pruning import Prunable, output_axis


@dataclass(frozen=True)
class Coordinates:
    """New latent coordinates y = A (z - m), and the deviations that belong to them."""

    forward: Tensor
    """A, (n, n)."""
    backward: Tensor
    """The inverse of A, (n, n)."""
    centre: Tensor
    """m, (n,)."""
    log_std_mix: Tensor
    """The weight of each old log deviation in each new one, (n, n); every row sums to 1."""
    log_std_shift: Tensor
    """What is added to the log deviations after that, (n,)."""

    @classmethod
    def within(cls, rows: Tensor, new: "Coordinates") -> "Coordinates":
        """Return the change that makes `new` of the dimensions in `rows`, (n,) of bool, and leaves the others alone."""
        place = rows.nonzero().flatten()

        def whole(part: Tensor) -> Tensor:
            if part.ndim == 1:
                return part.new_zeros(len(rows)).index_copy(0, place, part)
            matrix = torch.eye(len(rows), dtype=part.dtype, device=part.device)
            matrix[place[:, None], place] = part
            return matrix

        return cls(*(whole(part) for part in vars(new).values()))

    def like(self, tensor: Tensor) -> "Coordinates":
        """Return the same with the type and device of a tensor."""
        return Coordinates(*(part.to(tensor) for part in vars(self).values()))

    def apply(self, z: Tensor) -> Tensor:
        """Return y, the shape of z: `(batch, n)`, or `(batch, n, height, width)` for a latent map."""
        here = self.like(z)
        return torch.einsum("kj,bj...->bk...", here.forward, z - _along(here.centre, z))

    def undo(self, y: Tensor) -> Tensor:
        """Return z."""
        here = self.like(y)
        return torch.einsum("kj,bj...->bk...", here.backward, y) + _along(here.centre, y)


@dataclass(frozen=True)
class LatentLayer:
    """The layers in which latent dimension j leaves the encoder and enters the decoder."""

    mean: Prunable
    """Makes the mean of dimension j in row j."""
    log_std: Prunable
    """Makes the log of its standard deviation in row `log_std_from + j`; often the same layer."""
    log_std_from: int
    """First row of the log standard deviations: n where both are one layer, otherwise 0."""
    stem: Prunable
    """Reads dimension j in column j."""

    def shiftable(self) -> bool:
        """Return whether the stem can subtract a constant that was added to a dimension, exactly."""
        stem = self.stem
        if stem.bias is None or self.mean.bias is None:
            return False
        return isinstance(stem, nn.Linear) or (isinstance(stem, nn.Conv2d) and stem.padding in (0, (0, 0)))

    @torch.no_grad()
    def change(self, new: Coordinates) -> None:
        """Make and read other coordinates. Where the layer is not `shiftable`, their centre must be 0."""
        new = new.like(self.stem.weight)
        n = len(new.centre)
        if self.shiftable():
            assert self.stem.bias is not None
            assert self.mean.bias is not None
            taps = _columns(self.stem, self.stem.weight) @ new.centre  # (outputs,), with positions for a convolution
            self.stem.bias.add_(taps.flatten(1).sum(1) if taps.ndim > 1 else taps)
            self.mean.bias[:n].sub_(new.centre)
        self._multiply(new.forward, new.log_std_mix, new.backward, lambda parameter: parameter)
        if self.log_std.bias is not None:
            self.log_std.bias[self.log_std_from :][:n].add_(new.log_std_shift)

    @torch.no_grad()
    def change_moments(self, new: Coordinates, optimiser: torch.optim.Optimizer) -> None:
        """Let the moments that Adam keeps of the gradients follow `change`; other optimisers are left alone."""
        new = new.like(self.stem.weight)
        if self.shiftable():  # the columns read z - m now, so their gradients lose m times the gradient of the bias
            assert self.stem.bias is not None
            weight, bias = (optimiser.state.get(p, {}).get("exp_avg") for p in (self.stem.weight, self.stem.bias))
            if weight is not None and bias is not None:
                columns = _columns(self.stem, weight)
                columns.sub_(bias.view(-1, *(1,) * (columns.ndim - 1)) * new.centre)
        for name, power in (("exp_avg", 1), ("exp_avg_sq", 2)):

            def moment(parameter: Tensor, name: str = name) -> Tensor | None:
                kept: Tensor | None = optimiser.state.get(parameter, {}).get(name)
                return kept

            self._multiply((new.backward**power).T, new.log_std_mix, (new.forward**power).T, moment)

    def _multiply(self, mean: Tensor, log_std: Tensor, stem: Tensor, of: Callable[[Tensor], Tensor | None]) -> None:
        """Multiply rows and columns of what `of` returns for each parameter: rows M W and biases M b, columns V M."""
        for layer, start, matrix in ((self.mean, 0, mean), (self.log_std, self.log_std_from, log_std)):
            for parameter, axis in ((layer.weight, output_axis(layer)), (layer.bias, 0)):
                found = None if parameter is None else of(parameter)
                if found is not None:
                    rows = found.movedim(axis, -1)[..., start : start + len(matrix)]
                    rows.copy_(rows @ matrix.T)
        found = of(self.stem.weight)
        if found is not None:
            columns = _columns(self.stem, found)
            columns.copy_(columns @ stem)


def _columns(stem: Prunable, weight: Tensor) -> Tensor:
    """Return a view of the weight whose last axis is the dimensions that the stem reads."""
    return weight.movedim(1 - output_axis(stem), -1)


def _along(vector: Tensor, z: Tensor) -> Tensor:
    """Return a vector, (n,), so that it can be added to z along its second axis."""
    return vector.view(-1, *(1,) * (z.ndim - 2))
