"""The terms of the loss, as plain functions of tensors.

The unit of the error, everywhere: squared differences summed over all values of one input, one number per input;
averages are over inputs. The paper says "MSE" and means this sum (dSprites 20, MNIST 10). The errors that `observed`
returns leave out values that were not observed, NaN.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows._util.text import brief
from narrows.networks.batches import InBatches

Error = Callable[[Tensor, Tensor], Tensor]
"""A function (x, reconstruction), `(batch, *shape)` each, -> (batch,), or (batch, m) for m bounds."""


def squared_error(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Return E (lines 12 and 13), the squared differences summed over each input, (batch,).

    Arguments:
        x: Inputs, `(batch, *shape)`.
        reconstruction: Their reconstructions, `(batch, *shape)`.
    """
    _check_same_shape(x=x, reconstruction=reconstruction)
    return _total(_squares(x, reconstruction))


def absolute_error(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Return the absolute differences summed over each input, (batch,).

    Arguments:
        x: Inputs, `(batch, *shape)`.
        reconstruction: Their reconstructions, `(batch, *shape)`.
    """
    _check_same_shape(x=x, reconstruction=reconstruction)
    return _total(_distances(x, reconstruction))


def cross_entropy(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Return the Bernoulli cross-entropy in nats, summed over each input, (batch,).

    A value of x between 0 and 1 counts as a probability; its entropy is then the least the error can be.

    Arguments:
        x: Inputs in [0, 1], `(batch, *shape)`.
        reconstruction: Their reconstructions in [0, 1], `(batch, *shape)`.
    """
    _check_same_shape(x=x, reconstruction=reconstruction)
    return _total(_nats(x, reconstruction))


def _squares(x: Tensor, reconstruction: Tensor) -> Tensor:
    return F.mse_loss(reconstruction, x, reduction="none")


def _distances(x: Tensor, reconstruction: Tensor) -> Tensor:
    return (reconstruction - x).abs()


def _nats(x: Tensor, reconstruction: Tensor) -> Tensor:
    try:
        return F.binary_cross_entropy(reconstruction, x, reduction="none")
    except RuntimeError:
        for name, values in (("x", x), ("reconstruction", reconstruction)):
            if not ((values >= 0) & (values <= 1)).all():
                raise NarrowsError(
                    f"cross-entropy needs values in [0, 1]; {name} has values from {values.min():g} to {values.max():g}"
                ) from None
        raise


def _check_same_shape(**tensors: Tensor) -> None:
    """Raise unless both are tensors of one shape: torch would repeat the smaller one to fit, without a word."""
    (first, one), (second, other) = tensors.items()
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        found = " and ".join(str(tuple(t.shape)) if isinstance(t, Tensor) else brief(t) for t in (one, other))
        raise NarrowsError(f"{first} and {second} must be tensors of the same shape; they are {found}")


def _total(values: Tensor) -> Tensor:
    """Sum over all but the first axis; flattening first would copy channels-last images."""
    axes = tuple(range(1, values.ndim))
    return values.sum(axes) if axes else values


SMALLEST_RATE = 1e-8
"""Expected counts are at least this, so that the error of a count that the model excludes is finite."""


def poisson_deviance(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Return the Poisson deviance 2 sum(x log(x / m) - (x - m)) of each input, (batch,); it is 0 where m = x.

    Arguments:
        x: Counts, `(batch, *shape)`; they need not be whole numbers.
        reconstruction: The expected counts m, `(batch, *shape)`.
    """
    _check_same_shape(x=x, reconstruction=reconstruction)
    return _total(_deviances(x, reconstruction, None))


def negative_binomial_deviance(dispersion: Tensor) -> Error:
    """Return the deviance of counts with mean m and variance m + a m^2, for a fixed dispersion a of each value.

    It is 2 sum(x log(x / m) - (x + 1/a) log((1 + a x) / (1 + a m))), and the Poisson deviance where a = 0.

    Arguments:
        dispersion: a, from 0 on, `shape`.
    """
    return total(lambda x, reconstruction: _deviances(x, reconstruction, dispersion))


def count_values(dispersion: Tensor | None = None) -> Error:
    """Return the deviance of each value of x, in its shape, against a reconstruction that only says proportions.

    The rows of a reconstruction are first multiplied so that they have the totals of the rows of x, their library
    sizes (decision D24). If it differs by batch, the row's own batch counts.

    Arguments:
        dispersion: Of each column, (values,), for the negative-binomial deviance; None for the Poisson deviance.
    """

    def errors(x: Tensor, reconstruction: Tensor | InBatches) -> Tensor:
        if isinstance(reconstruction, InBatches):
            x, reconstruction = reconstruction.matched(x)
        _check_same_shape(x=x, reconstruction=reconstruction)
        return _deviances(x, at_library_size(reconstruction, x), dispersion)

    return errors


def at_library_size(reconstruction: Tensor, x: Tensor) -> Tensor:
    """Return a reconstruction of counts, (batch, values), with the total of each row of x."""
    return reconstruction * (x.sum(1, keepdim=True) / reconstruction.sum(1, keepdim=True))


def _deviances(x: Tensor, mean: Tensor, dispersion: Tensor | None) -> Tensor:
    m = mean.clamp(min=SMALLEST_RATE)
    of_counts = x * torch.where(x > 0, x / m, 1.0).log()
    if dispersion is None:
        return 2 * (of_counts - x + m)
    a = dispersion.to(x.device, x.dtype)
    tiny = a < SMALLEST_DISPERSION
    safe = torch.where(tiny, 1.0, a)
    rest = (x + 1 / safe) * (torch.log1p(safe * x) - torch.log1p(safe * m))
    return 2 * (of_counts - torch.where(tiny, x - m, rest))


SMALLEST_DISPERSION = 1e-6
"""Below it, rounding is larger than the difference from the Poisson deviance."""
COUNT_ERRORS = ("poisson", "negative-binomial")
"""The errors of counts, whose rows have library sizes."""
ERRORS: dict[str, Error] = {"squared": squared_error, "cross-entropy": cross_entropy, "absolute": absolute_error}
"""The errors that `TrainConfig.error` can name, with those of counts, which `count_values` makes."""
_VALUE_BY_VALUE: dict[str, Error] = {"squared": _squares, "cross-entropy": _nats, "absolute": _distances}


def observed(name: str) -> Error:
    """Return one of `ERRORS` for examples with missing values: it counts the values of x that are not NaN."""
    return total(value_by_value(name))


def value_by_value(name: str) -> Error:
    """Return one of `ERRORS` before it is summed: the error of each value, in the shape of x; 0 where x is NaN."""

    def errors(x: Tensor, reconstruction: Tensor) -> Tensor:
        _check_same_shape(x=x, reconstruction=reconstruction)
        seen = ~torch.isnan(x)
        found = _VALUE_BY_VALUE[name](torch.where(seen, x, reconstruction.detach()), reconstruction)
        return torch.where(seen, found, 0.0)

    return errors


SMALLEST_PROBABILITY = 1e-7
"""Probabilities count as at least this, so that the error of a level that the model excludes is finite."""
SMALLEST_ENTROPY = 1e-3
"""Nats; a category whose frequencies say more is constant: there is nothing to explain, and its errors are in nats."""


def entropies(frequencies: Tensor, widths: Sequence[int]) -> Tensor:
    """Return the entropy of each category in nats, float64: the mean error of guessing by the levels' frequencies."""
    share = frequencies.double().clamp(min=SMALLEST_PROBABILITY)
    return torch.stack([-(part * part.log()).sum() for part in torch.split(share, list(widths))])


def mixed_values(widths: Sequence[int], frequencies: Tensor) -> Error:
    """Return the error of each value of a table with categories, before it is summed.

    A number has its squared difference. A category has its cross-entropy, as a share of what guessing by the levels'
    frequencies costs. So each column costs 1 if nothing but its mean, or its frequencies, is known: numbers because
    they are standardised, categories by this division. A column that is constant costs nothing.

    Arguments:
        widths: The number of levels of each category; their blocks are the last values of x.
        frequencies: How often each level occurs, in the order of the blocks, (values,).
    """
    entropy = entropies(frequencies, widths)
    weight = (1 / torch.where(entropy > SMALLEST_ENTROPY, entropy, 1.0)).repeat_interleave(torch.tensor(tuple(widths)))
    squares = value_by_value("squared")

    def errors(x: Tensor, reconstruction: Tensor) -> Tensor:
        _check_same_shape(x=x, reconstruction=reconstruction)
        first = x.shape[1] - len(weight)
        probable = reconstruction[:, first:].clamp(min=SMALLEST_PROBABILITY)
        nats = -torch.nan_to_num(x[:, first:]) * probable.log() * weight.to(x.device, x.dtype)
        return torch.cat([squares(x[:, :first], reconstruction[:, :first]), nats], 1)

    return errors


def total(values: Error) -> Error:
    """Return the sum over each input of errors by value."""
    return lambda x, reconstruction: _total(values(x, reconstruction))


def per_example(error: Tensor, rows: int) -> Tensor:
    """Return the output of an error function as (batch, m); raise if it has another number of rows."""
    if not isinstance(error, Tensor) or error.ndim == 0 or len(error) != rows:
        found = tuple(error.shape) if isinstance(error, Tensor) else brief(error)
        raise NarrowsError(
            f"error must return one number per example, ({rows},), or m of them, ({rows}, m); it returned {found}"
        )
    return error.reshape(rows, -1)


def kl_elements(mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the KL of N(mean, std^2) from N(0, 1), element by element.

    -1/2 (1 + 2 log sigma - sigma^2 - mu^2): the paper prints sigma where the variance belongs (decision D2).

    Arguments:
        mean: mu, (batch, n), or (batch, n, height, width) for latent maps.
        log_std: log sigma, in the same shape.
    """
    _check_same_shape(mean=mean, log_std=log_std)
    return 0.5 * (torch.exp(2 * log_std) + mean.square() - 1) - log_std


def gated_kl(kl: Tensor, gates: Tensor) -> Tensor:
    """Return the mean over the open gates of the element-wise KL (line 22), (batch,).

    With all gates closed it is 0, because the divisor is at least 1 (decision D3). A channel of a latent map counts
    with the sum over its positions.

    Arguments:
        kl: The element-wise KL, (batch, n), or (batch, n, height, width).
        gates: Gates as 0. and 1., (batch, n).
    """
    kl = kl.flatten(2).sum(2) if isinstance(kl, Tensor) and kl.ndim > 2 else kl
    _check_same_shape(kl=kl, gates=gates)
    return (kl * gates).sum(1) / gates.sum(1).clamp(min=1)
