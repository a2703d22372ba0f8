"""Where new examples come from: codes drawn from the prior, or from what the codes of the training data are like.

The decoder has learned from codes of the aggregate posterior q(z), the mean of q(z|x) over the data: posterior means
plus noise. The KL term pulls q(z) towards the prior N(0, 1) and never gets it there, so some draws from the prior are
codes that the decoder has not met. A distribution fitted to q(z) after training draws fewer of those (Ghosh et al.,
"From variational to deterministic autoencoders", 2020):

    prior      N(0, 1); knows nothing of the data
    gaussian   one normal distribution with the mean and full covariance of q(z)
    mixture    several, by scikit-learn's GaussianMixture, with full covariances

All three are mixtures of normals, so they are one class. The fitted ones see posterior samples, not means: the means
alone are narrower than q(z). They see at most 20,000, evenly spaced in the training split.
"""

import dataclasses
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from narrows.data import Examples, thinned
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError
from narrows.model import VAE, standard_normal
from narrows.normals import fit_normal, symmetric_root

Kind = Literal["prior", "gaussian", "mixture"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COMPONENTS = 10
"""Of a mixture."""
MOST_CODES = 20_000
"""Training examples that a sampler is fitted to, at most."""
ROWS = 256
"""Examples that go through the encoder at a time."""


@dataclass(frozen=True, eq=False)
class Sampler:
    """A mixture of normal distributions of codes."""

    kind: Kind
    weights: Tensor
    """(components,), with sum 1."""
    means: Tensor
    """(components, n)."""
    roots: Tensor
    """(components, n, n): the covariances' symmetric roots. All in double precision."""

    @property
    def n(self) -> int:
        """Latent dimensions."""
        return self.means.shape[1]

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Return codes, (count, n) float32; the same for a generator in the same state."""
        noise = torch.randn(count, self.n, generator=generator).double()
        if len(self.weights) == 1:
            return (self.means[0] + noise @ self.roots[0]).float()
        chosen = torch.multinomial(self.weights, count, replacement=True, generator=generator)
        codes = torch.empty_like(noise)
        for i in set(chosen.tolist()):
            rows = chosen == i
            codes[rows] = self.means[i] + noise[rows] @ self.roots[i]
        return codes.float()


def prior(n: int) -> Sampler:
    """Return N(0, 1): what a VAE's codes are meant to be like."""
    one, zeros, eye = torch.ones(1), torch.zeros(1, n), torch.eye(n)[None]
    return Sampler("prior", one.double(), zeros.double(), eye.double())


def fit_sampler(kind: Kind, codes: np.ndarray, components: int = COMPONENTS, seed: int = 0) -> Sampler:
    """Fit a sampler to codes, (N, n): samples of the posterior (`posterior_samples`), not its means."""
    check_sampler(kind, components)
    count, n = codes.shape
    if kind == "prior" or n == 0:
        return dataclasses.replace(prior(n), kind=kind)
    if kind == "gaussian":
        fitted = fit_normal([codes])
        return _sampler(kind, np.ones(1), fitted.mean[None], fitted.covariance[None])
    check_codes(count, components)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    state = np.random.RandomState(np.random.MT19937(seed))
    mixture = GaussianMixture(components, covariance_type="full", max_iter=200, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one that could still improve is a mixture all the same
        mixture.fit(codes)
    return _sampler(kind, mixture.weights_, mixture.means_, mixture.covariances_)


def check_sampler(kind: str, components: int) -> None:
    """Refuse what cannot be fitted."""
    if kind not in KINDS:
        raise NarrowsError(f"a sampler is one of {', '.join(KINDS)}; it is {kind!r}")
    if components < 1:
        raise NarrowsError(f"--components must be at least 1; it is {components}")


def check_codes(count: int, components: int) -> None:
    """Refuse a mixture of more components than there are pairs of codes."""
    if count < 2 * components:
        raise NarrowsError(
            f"a mixture of {components} needs {2 * components} codes or more; there are {count}; take fewer components"
        )


def posterior_samples(
    model: VAE, examples: Examples, index: np.ndarray, seed: int = 0, progress: Progress = silent
) -> np.ndarray:
    """Return samples of q(z), (N, n) float64: one of the posterior of each of at most 20,000 examples of `index`."""
    index = thinned(index, MOST_CODES)
    return np.concatenate(list(_codes(model, examples, index, seed, progress)))


@torch.no_grad()
def _codes(model: VAE, examples: Examples, index: np.ndarray, seed: int, progress: Progress) -> Iterator[np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, len(index), ROWS):
        posterior = model.encode(examples.batch(index[start : start + ROWS]))
        yield posterior.draw(standard_normal(posterior.mean, generator)).double().numpy()
        progress("encoding the training split", min(start + ROWS, len(index)), len(index))


def _sampler(kind: Kind, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> Sampler:
    roots = np.stack([symmetric_root(covariance) for covariance in covariances])
    return Sampler(kind, *(torch.from_numpy(np.asarray(part, np.float64)) for part in (weights, means, roots)))
