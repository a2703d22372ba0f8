"""Where new examples come from: codes drawn from the prior, or from a distribution fitted to the training codes.

The decoder has learned from codes of the aggregate posterior q(z), the mean of q(z|x) over the data: posterior means
plus noise. The KL term pulls q(z) towards the prior N(0, 1) but does not reach it, so some draws from the prior are
codes unlike any that the decoder was trained on. A distribution fitted to q(z) after training draws fewer of those
(Ghosh et al., "From variational to deterministic autoencoders", 2020):

    prior      N(0, 1); independent of the data
    gaussian   one normal distribution with the mean and full covariance of q(z)
    mixture    several, by scikit-learn's GaussianMixture, with full covariances

All three are mixtures of normal distributions, so one class holds them. The fitted ones use posterior samples, not
means, because the means alone are narrower than q(z). They use at most 20,000, evenly spaced in the training split.
"""

import dataclasses
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from narrows._util.checks import COUNT, SEED, Rule, argument, one_of
from narrows._util.errors import NarrowsError, setting
from narrows._util.memory import within_memory
from narrows._util.progress import Progress, silent, steps
from narrows._util.text import brief
from narrows.data import Examples, split, thinned
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments, symmetric_root
from narrows.gates.l0 import GENERATOR
from narrows.inference.trained import ROWS, Trained, open_data
from narrows.model.vae import VAE, standard_normal

Kind = Literal["prior", "gaussian", "mixture"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COMPONENTS = 10
"""Components of a mixture, by default."""
MOST_CODES = 20_000
"""Training examples that a sampler is fitted to, at most."""
FINITE = Rule("a tensor of finite numbers", lambda v: isinstance(v, Tensor) and bool(torch.isfinite(v).all()))


@dataclass(frozen=True, eq=False)
class Sampler:
    """A distribution of codes: a mixture of normal distributions.

    `NarrowVAE.fit_sampler` returns one; `narrows sample` and `narrows evaluate` fit their own.
    """

    kind: Kind
    """"prior", "gaussian" or "mixture"."""
    weights: Tensor
    """The weight of each component, (components,) float64, summing to 1."""
    means: Tensor
    """The means, (components, n) float64."""
    roots: Tensor
    """The symmetric roots of the covariances, (components, n, n) float64."""

    def __post_init__(self) -> None:
        argument("kind", self.kind, one_of(KINDS))
        for name in ("weights", "means", "roots"):
            object.__setattr__(self, name, argument(name, getattr(self, name), FINITE).double())
        shapes = [tuple(part.shape) for part in (self.weights, self.means, self.roots)]
        components, n = shapes[1] if len(shapes[1]) == 2 else (0, 0)
        if shapes != [(components,), (components, n), (components, n, n)] or not components:
            raise NarrowsError(
                f"weights, means and roots must be (components,), (components, n) and (components, n, n); they are "
                f"{', '.join(map(str, shapes))}"
            )
        if (self.weights < 0).any() or not self.weights.sum() > 0:
            raise NarrowsError(f"weights must be at least 0 and not all 0; they are {brief(self.weights)}")

    @property
    def n(self) -> int:
        """The number of latent dimensions."""
        return self.means.shape[1]

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw codes.

        Arguments:
            count: How many codes.
            generator: The source of randomness; by default torch's global one.

        Returns:
            The codes, (count, n) float32; the same for a generator in the same state.

        Raises:
            NarrowsError: `count` is not a number from 1 on, or too large.
        """
        count = argument("count", count, COUNT)
        argument("generator", generator, GENERATOR, or_none=True)
        with within_memory(f"{count} codes", "draw fewer at a time"):
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
    """Return the prior N(0, 1) of n latent dimensions."""
    return Sampler("prior", torch.ones(1).double(), torch.zeros(1, n).double(), torch.eye(n).double()[None])


def fit_sampler(kind: Kind, codes: np.ndarray, components: int = COMPONENTS, seed: int = 0) -> Sampler:
    """Fit a sampler to codes.

    Arguments:
        kind: "prior" (nothing is fitted), "gaussian" or "mixture".
        codes: Samples of the posterior (`posterior_samples`), (N, n); not its means.
        components: Components of the mixture.
        seed: The seed of the mixture's initialisation.

    Returns:
        The fitted sampler.

    Raises:
        NarrowsError: `kind` is unknown, or the codes are too few for the mixture.
    """
    check_sampler(kind, components)
    count, n = codes.shape
    if kind == "prior" or n == 0:
        return dataclasses.replace(prior(n), kind=kind)
    if kind == "gaussian":
        moments = Moments.of([codes], covariance=True)
        return _sampler(kind, np.ones(1), moments.mean[None], moments.covariance[None])
    check_codes(count, components)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    state = np.random.RandomState(np.random.MT19937(seed))
    mixture = GaussianMixture(components, covariance_type="full", max_iter=200, random_state=state)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        mixture.fit(codes)  # a mixture that could still improve is usable
    return _sampler(kind, mixture.weights_, mixture.means_, mixture.covariances_)


def check_sampler(kind: str, components: int) -> None:
    """Raise if `kind` is unknown or `components` is not positive."""
    argument("sampler", kind, one_of(KINDS))
    argument("components", components, COUNT)


def check_codes(count: int, components: int) -> None:
    """Raise if a mixture has fewer than two codes per component."""
    if count < 2 * components:
        needed = f"a mixture of {components} needs {2 * components} codes or more"
        raise NarrowsError(f"{needed}; there are {count}; use fewer {setting('components')}")


def check_seed(seed: int) -> None:
    """Raise if torch's generators do not take this seed."""
    argument("seed", seed, SEED)


@torch.no_grad()
def posterior_samples(
    model: VAE, examples: Examples, index: np.ndarray, seed: int = 0, progress: Progress = silent
) -> np.ndarray:
    """Return samples of q(z), (N, n) float64: one from the posterior of each of at most 20,000 examples of `index`."""
    index, generator = thinned(index, MOST_CODES), torch.Generator().manual_seed(seed)
    codes = np.empty((len(index), model.n))
    for here, x in in_batches(examples, index, ROWS, "encoding the training split", progress):
        posterior = model.encode(x)
        codes[here] = posterior.draw(standard_normal(posterior.mean, generator)).numpy()
    return codes


def make_sampler(
    trained: Trained, kind: Kind, components: int = COMPONENTS, seed: int = 0, progress: Progress = silent
) -> Sampler:
    """Return a sampler for a run's model; a gaussian or a mixture is fitted to the run's training split."""
    check_sampler(kind, components)
    if kind == "prior":
        return prior(trained.model.n)
    config = trained.run_config(f"a {kind} is fitted to the training split")
    data = open_data(trained, progress=progress)
    train = split(data, config.split_seed).train
    return fit_sampler(kind, posterior_samples(trained.model, data.exact, train, seed, progress), components, seed)


@torch.no_grad()
def draw_examples(
    model: VAE, sampler: Sampler, count: int, seed: int = 0, progress: Progress = silent
) -> Iterator[Tensor]:
    """Yield new examples, `(rows, *shape)`, decoded from codes of the sampler; the seed determines them."""
    generator = torch.Generator().manual_seed(seed)
    for rows in steps(count, ROWS, "sampling", progress):
        yield model.decode(sampler.draw(rows.stop - rows.start, generator))


def _sampler(kind: Kind, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> Sampler:
    roots = np.stack([symmetric_root(covariance) for covariance in covariances])
    return Sampler(kind, *(torch.from_numpy(np.asarray(part, np.float64)) for part in (weights, means, roots)))
