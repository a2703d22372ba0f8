"""Directions of the latent space, by what it costs to remove them: a non-linear PCA of what the decoder reads.

A trained latent space is only loosely aligned with its coordinates, so the cheapest direction costs far less to remove
than the cheapest coordinate. The latent layer can take any coordinates (networks/latent_layer.py). Which ones are
cheap? Let C be the covariance of z over the data, and G the mean of J'J, where J is the decoder's Jacobian at z. A step
d of z changes the reconstruction by d'Gd, so in

    y = U' C^-1/2 (z - m)             U the eigenvectors of C^1/2 G C^1/2, m the mean of z

the coordinates are uncorrelated, have variance 1, and removing the k-th costs about the k-th eigenvalue. That only says
where to look; what a closing costs is measured (`joint_costs`).

G needs no Jacobian: with v from N(0, 1), the gradient of v . decode(z) is J'v, and the mean of (J'v)(J'v)' is G. One
backward pass for a few hundred examples gives one vector each. Their noise is multiplicative, so that small eigenvalues
are as well known as large ones.

One thing is approximate. The posterior of y given x has correlated coordinates, which the model cannot express, so the
correlations are dropped. Each coordinate keeps its variance: the log deviations are mixed in proportion to the variance
that each old coordinate gives to the new one, and shifted so that their mean over the data is right.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows._util.processes import mean_over_processes
from narrows.model.vae import LOG_STD_BOUND, GatedVAE, Posterior
from narrows.networks.batches import in_average_batch
from narrows.networks.latent_layer import Coordinates
from narrows.objective import Error, per_example

FLAT = 1e-12
"""Smallest variance of a direction, as a share of the largest: below it, nothing can be told from rounding."""


def find_directions(model: GatedVAE, posterior: Posterior, pulled: Tensor) -> Coordinates:
    """Return coordinates of the open dimensions that are uncorrelated and sorted by cost, the most expensive first.

    Arguments:
        model: The model, in evaluation mode.
        posterior: The posterior of some examples, `(batch, *latent)`.
        pulled: J'v for each of them, `(batch, *latent)`: see `pull_back`.
    """
    rows = model.gates.hard().bool()
    mean, log_std, pulled = (_by_dimension(part).double()[rows] for part in (*posterior, pulled))
    variance = (2 * log_std).exp()
    average = mean_over_processes(variance.mean(1))
    centre = mean_over_processes(mean.mean(1))
    centred = mean - centre[:, None]
    covariance = mean_over_processes(centred @ centred.T / centred.shape[1]) + average.diag()
    curvature = mean_over_processes(pulled @ pulled.T / len(posterior.mean))

    if not (torch.isfinite(covariance).all() and torch.isfinite(curvature).all()):
        raise NarrowsError("the codes are not finite: training diverged; start again with a lower learning rate")
    values, vectors = torch.linalg.eigh(covariance)
    scale = values.clamp(min=FLAT * values.amax().item() if len(values) else 0.0).sqrt()
    root, inverse = (vectors * scale) @ vectors.T, (vectors / scale) @ vectors.T
    turn = torch.linalg.eigh(root @ curvature @ root).eigenvectors.flip(1)
    forward, backward = turn.T @ inverse, root @ turn

    shares = forward.square() * average
    mix = shares / shares.sum(1, keepdim=True)
    wanted = mean_over_processes(0.5 * (forward.square() @ variance).log().mean(1))
    shift = _unbounded(wanted) - mean_over_processes((mix @ _unbounded(log_std)).mean(1))
    if not model.latent_layer.shiftable():
        centre = torch.zeros_like(centre)
    return Coordinates.within(rows, Coordinates(forward, backward, centre, mix, shift))


def settle(model: GatedVAE, posterior: Posterior, noise: float = 1.0, codes: int | None = None) -> Coordinates:
    """Return coordinates in which the codes are uncorrelated and z has mean 0 and variance 1.

    They turn as little as possible. In order of precision, each open dimension loses what the more precise ones before
    it say about it, as in Gram and Schmidt's method. The posterior keeps its deviations: in the old coordinates a
    dimension then has some noise of the more precise ones, which is small beside its own while correlations are. With
    few examples the correlations are not well known, so they shrink: (n / examples)^2 is added to the diagonal of their
    matrix. Where the stem cannot subtract a constant (`LatentLayer.shiftable`), the means stay where they are.

    Arguments:
        model: The model, in evaluation mode.
        posterior: The posterior of some examples, `(batch, *latent)`.
        noise: A factor for the posterior's variance.
        codes: Number of codes that all processes have together; by default as many as this one has.
    """
    rows = model.gates.hard().bool()
    mean, log_std = (_by_dimension(part).double()[rows] for part in posterior)
    average = mean_over_processes(mean.mean(1))
    centred = mean - average[:, None]
    covariance = mean_over_processes(centred @ centred.T / centred.shape[1])
    variance = noise * mean_over_processes((2 * log_std).exp().mean(1))
    moves = covariance.diagonal()
    order = (variance / moves.clamp(min=1e-300)).argsort()
    unit = torch.where(moves > FLAT * variance, moves, 1.0).sqrt()[order]
    correlation = covariance[order][:, order] / (unit * unit[:, None])
    ridge = FLAT + (len(unit) / (codes or centred.shape[1])) ** 2
    lower = torch.linalg.cholesky_ex(correlation + (ridge * torch.ones_like(unit)).diag()).L
    backward = torch.zeros_like(covariance)
    backward[order[:, None], order] = unit[:, None] * (lower / lower.diagonal()) / unit
    forward = torch.linalg.inv_ex(backward).inverse

    scale = ((forward @ covariance) * forward).sum(1).add(variance)
    scale = torch.where(scale > 0, scale, 1.0).sqrt()
    shift = _shift(log_std, 0.5 * math.log(noise) - scale.log())
    centre = average if model.latent_layer.shiftable() else torch.zeros_like(average)
    unmixed = torch.eye(len(scale), dtype=scale.dtype, device=scale.device)
    return Coordinates.within(rows, Coordinates(forward / scale[:, None], backward * scale, centre, unmixed, shift))


def with_noise(posterior: Posterior, noise: float) -> Posterior:
    """Return the posterior with this factor on its variance, at the mean log deviation of each dimension."""
    if noise == 0:
        return Posterior(posterior.mean, torch.full_like(posterior.mean, -math.inf))
    log_std = _by_dimension(posterior.log_std)
    shift = _shift(log_std, torch.full_like(log_std[:, 0], 0.5 * math.log(noise)))
    raw = _unbounded(log_std) + shift[:, None]
    shape = posterior.mean.transpose(0, 1).shape
    return Posterior(posterior.mean, (LOG_STD_BOUND * torch.tanh(raw / LOG_STD_BOUND)).view(shape).transpose(0, 1))


def pull_back(model: GatedVAE, z: Tensor, x: Tensor, error: Error, normal: Callable[[Tensor], Tensor]) -> Tensor:
    """Return J'v, the shape of z; `normal` draws v from N(0, 1) in the shape of the reconstructions.

    For a decoder that returns something other than a tensor, v is the gradient of the error, whose directions are those
    that the error still reacts to.
    """
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        decoded: Any = in_average_batch(model.decode(z))  # a user's decoder may return anything that the error accepts
        if isinstance(decoded, Tensor):
            value = (normal(decoded.detach()) * decoded).sum()
        else:
            value = per_example(error(x, decoded), len(x)).sum()
        (pulled,) = torch.autograd.grad(value, z)
    return pulled


@torch.no_grad()
def joint_costs(model: GatedVAE, new: Coordinates, z: Tensor, x: Tensor, error: Error) -> Iterator[tuple[int, Tensor]]:
    """Yield open dimensions of the new coordinates, from the cheapest on, each with a cost, (bounds,).

    The cost is the rise in error, measured by decoding, when this dimension and all before it are removed.
    """

    def mean_error(z: Tensor) -> Tensor:
        return mean_over_processes(per_example(error(x, model.decode(z)), len(x)).double().mean(0))

    before, y = mean_error(z), new.apply(z)
    for gate in reversed(model.gates.kept()):
        y[:, gate] = 0
        yield gate, mean_error(new.undo(y)) - before


def _shift(log_std: Tensor, change: Tensor) -> Tensor:
    """Return what the layer must add, (n,), so that the mean log deviation of each dimension changes by `change`."""
    level, raw = (mean_over_processes(part.mean(1)) for part in (log_std, _unbounded(log_std)))
    return _unbounded(level + change) - raw


def _unbounded(log_std: Tensor) -> Tensor:
    """Return what the layer makes before its log deviation is bounded."""
    return LOG_STD_BOUND * torch.atanh((log_std / LOG_STD_BOUND).clamp(-0.9999, 0.9999))


def _by_dimension(values: Tensor) -> Tensor:
    """(batch, n, ...) -> (n, everything else); all positions of a latent map count."""
    return values.transpose(0, 1).flatten(1)
