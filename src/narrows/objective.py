"""5. The terms of the loss, as plain functions of tensors.

The unit of the error, everywhere: squared differences summed over all values of one input, one number an input;
averages are over inputs. The paper says "MSE" and means this sum (dSprites 20, MNIST 10).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from narrows.errors import NarrowsError

Error = Callable[[Tensor, Tensor], Tensor]
"""`(batch, *shape)` twice -> (batch,), or (batch, m) for m bounds."""


def squared_error(x: Tensor, reconstruction: Tensor) -> Tensor:
    """E (lines 12 and 13): `(batch, *shape)` twice -> (batch,)."""
    return _total(F.mse_loss(reconstruction, x, reduction="none"))


def absolute_error(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Absolute differences summed over one input's values: `(batch, *shape)` twice -> (batch,)."""
    return _total((reconstruction - x).abs())


def cross_entropy(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Bernoulli cross-entropy in nats, summed over one input's values: `(batch, *shape)` in [0, 1] twice -> (batch,).

    A value of x between 0 and 1 counts as a probability; its own entropy is then the least the error can be.
    """
    return _total(F.binary_cross_entropy(reconstruction, x, reduction="none"))


def _total(values: Tensor) -> Tensor:
    """Sum over all but the first axis, in whatever order they lie in memory: flattening would copy them."""
    axes = tuple(range(1, values.ndim))
    return values.sum(axes) if axes else values


ERRORS: dict[str, Error] = {
    "squared": squared_error,
    "cross-entropy": cross_entropy,
    "absolute": absolute_error,
}
"""The errors that have a name."""


def per_example(error: Tensor, rows: int) -> Tensor:
    """Return what an error function gave as (batch, m)."""
    if error.ndim == 0 or len(error) != rows:
        raise NarrowsError(
            f"error must return one number an example, ({rows},), or m, ({rows}, m); it gave {tuple(error.shape)}"
        )
    return error.view(rows, -1)


def kl_elements(mean: Tensor, log_std: Tensor) -> Tensor:
    """KL of N(mean, std^2) from N(0, 1), element by element: (batch, n), or (batch, n, height, width) for latent maps.

    -1/2 (1 + 2 log sigma - sigma^2 - mu^2): the paper prints it with sigma where the variance belongs (decision D2).
    """
    return 0.5 * (torch.exp(2 * log_std) + mean.square() - 1) - log_std


def gated_kl(kl: Tensor, gates: Tensor) -> Tensor:
    """Mean over the open gates of the element-wise KL (line 22): (batch, n) twice -> (batch,).

    With all gates closed it is 0: the divisor is at least 1 (decision D3). A latent map's channel counts with the sum
    over its positions.
    """
    kl = kl.flatten(2).sum(2) if kl.ndim > 2 else kl
    return (kl * gates).sum(1) / gates.sum(1).clamp(min=1)
