"""How good is a trained model? Its error, its dimensions and its samples, on the run's test split.

    error             as the certificate has it: the same inputs, the same noise
    KL                of each dimension's posterior from the prior, averaged over the test inputs
    active units      dimensions whose posterior mean varies by more than 0.01 over the data (Burda et al., 2016)
    cost of removal   how much the error rises without the dimension
    samples           the Fréchet distance between features (features.py) of new examples and of the test inputs, for
                      each sampler (sampling.py)

The distance is larger than 0 even for real examples, because both sides are finite: so it is also taken between as many
training examples and the test inputs, which is the floor. Reconstructions of the test inputs say what the decoder
alone loses. Distances made from other features, or with other counts, must not be compared.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from narrows.data import Data, Examples, Splits, split, thinned
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError
from narrows.evaluation import Evaluation, Measured, Unit
from narrows.features import Features, make_features
from narrows.model import VAE
from narrows.normals import Normal, fit_normal, frechet_distance
from narrows.objective import kl_elements
from narrows.sampling import (
    COMPONENTS,
    KINDS,
    MOST_CODES,
    Sampler,
    check_codes,
    check_sampler,
    fit_sampler,
    posterior_samples,
)
from narrows.training.config import TrainConfig
from narrows.training.evaluate import describe_dimensions
from narrows.training.evaluate import evaluate as measure_error
from narrows.training.loop import TEST_NOISE
from narrows.training.setup import fingerprint
from narrows.using import ROWS, Trained, check_unchanged, exact, of_a_run, open_data, open_trained, promised_error

SAMPLES = 5_000
READING = ("data", "source", "image_size", "skip_broken", "columns", "values")
"""Settings that say which data a run has."""


def evaluate(
    run: Path | str,
    against: Path | str | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    components: int | None = None,
    data: Data | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Measure a run's model on its test split, beside that of another run on the same data.

    The mixture has `components`; without a number, ten or as many as the training split's codes are enough for.
    `data` is for runs that were trained on data in memory; other runs know where theirs are. Nothing is written but
    the classifier in the cache folder; `write_evaluation` writes the run's evaluation.json.
    """
    if components is not None:
        check_sampler("mixture", components)
    if samples < 2:
        raise NarrowsError(f"--samples must be at least 2, so that they vary; it is {samples}")
    if not 0 <= seed < 2**63:
        raise NarrowsError(f"--seed must be between 0 and 2^63; it is {seed}")
    first, second = _open(run), None if against is None else _open(against)
    given = data is not None
    if data is None:
        data = open_data(first, progress=progress)
    else:
        check_unchanged(first, data)
    seed_of_split = _config(first).split_seed
    splits, mark = split(data, seed_of_split), fingerprint(data)
    if second is not None:
        _check_same(first, second, None if given else mark, progress)
        check_unchanged(second, data)
    examples, codes = exact(data), min(len(splits.train), MOST_CODES)
    if components is None:
        components = max(1, min(COMPONENTS, codes // 2))
    elif first.model.n or (second and second.model.n):  # codes without dimensions are all the same
        check_codes(codes, components)
    features = make_features(data, examples, splits, f"{mark} {seed_of_split}", seed, progress)
    bench = Bench(examples, splits, features, samples, seed, components, progress)
    real = bench.normal(thinned(splits.train, samples), "looking at real examples")
    return Evaluation(
        data=data.name,
        test=len(splits.test),
        count=samples,
        real_count=real.rows,
        components=bench.components,
        codes=codes,
        seed=seed,
        width=features.width,
        features=features.words,
        accuracy=features.accuracy,
        real=frechet_distance(real, bench.test),
        run=bench.measure(first, str(run)),
        against=None if second is None else bench.measure(second, str(against)),
    )


class Bench:
    """What models are measured with: the same inputs, features, counts and seeds for all."""

    def __init__(
        self,
        examples: Examples,
        splits: Splits,
        features: Features,
        samples: int,
        seed: int,
        components: int,
        progress: Progress,
    ) -> None:
        self.examples, self.splits, self.features = examples, splits, features
        self.samples, self.seed, self.components, self.progress = samples, seed, components, progress
        self.test = self.normal(splits.test, "looking at the test split")

    @torch.no_grad()
    def measure(self, trained: Trained, run: str) -> Measured:
        """Measure one model."""
        model, error, test = trained.model, promised_error(trained), self.splits.test
        self.progress("measuring error and dimensions", 0, 0)
        heldout = measure_error(model, self.examples, test, TEST_NOISE, error)
        described = describe_dimensions(model, self.examples, test, TEST_NOISE, error)
        kl, variance = self._posterior(model)
        units = zip(described, kl, variance, strict=True)
        again = self.normal(test, "reconstructing", lambda x: model.reconstruct(x))
        codes = posterior_samples(model, self.examples, self.splits.train, self.seed, self.progress)
        samplers = [fit_sampler(kind, codes, self.components, self.seed) for kind in KINDS]
        return Measured(
            run=run,
            dims=model.n,
            tau=trained.about.get("tau"),
            error=trained.about.get("error", "squared"),
            heldout=heldout,
            units=[Unit(one.kept, one.cost, nats, spread) for one, nats, spread in units],
            reconstructions=frechet_distance(again, self.test),
            samples={s.kind: frechet_distance(self._sampled(model, s), self.test) for s in samplers},
        )

    @torch.no_grad()
    def normal(self, index: np.ndarray, what: str, change: Callable[[Tensor], Tensor] = lambda x: x) -> Normal:
        """Fit a normal distribution to the features of the examples at `index`, or of what becomes of them."""
        return fit_normal(self.features(change(x)) for x in self._batches(index, what))

    def _sampled(self, model: VAE, sampler: Sampler) -> Normal:
        """Fit one to the features of new examples: those that `narrows sample` gives for the same seed."""
        generator = torch.Generator().manual_seed(self.seed)
        starts = range(0, self.samples, ROWS)
        codes = (sampler.draw(min(ROWS, self.samples - start), generator) for start in starts)
        return fit_normal(self.features(model.decode(z)) for z in codes)

    def _posterior(self, model: VAE) -> tuple[list[float], list[float]]:
        """Return each dimension's KL, averaged over the test split, and the variance of its posterior mean."""
        kl = np.zeros(model.n)
        means = []
        for x in self._batches(self.splits.test, "encoding the test split"):
            posterior = model.encode(x)
            kl += kl_elements(*posterior).double().sum(0).numpy()
            means.append(posterior.mean.double().numpy())
        return (kl / len(self.splits.test)).tolist(), np.diag(fit_normal(means).covariance).tolist()

    def _batches(self, index: np.ndarray, what: str) -> Iterator[Tensor]:
        for start in range(0, len(index), ROWS):
            yield self.examples.batch(index[start : start + ROWS])
            self.progress(what, min(start + ROWS, len(index)), len(index))


def _open(run: Path | str) -> Trained:
    trained = open_trained(run)
    of_a_run(trained, "it is evaluated on its run's test split")
    return trained


def _config(trained: Trained) -> TrainConfig:
    assert trained.config is not None
    return trained.config


def _check_same(first: Trained, second: Trained, mark: str | None, progress: Progress) -> None:
    """Refuse two runs with different test inputs. Data that were given (no `mark`) are taken to be those of both."""
    one, other = _config(first), _config(second)
    names = f"{first.path.parent} and {second.path.parent}"
    if one.split_seed != other.split_seed:
        raise NarrowsError(
            f"{names} have other test inputs (--split-seed {one.split_seed} and {other.split_seed}); compare runs with "
            f"the same --split-seed"
        )
    if first.shape != second.shape:
        raise NarrowsError(f"{names} have data of other shapes; compare runs on the same data")
    same = all(getattr(one, name) == getattr(other, name) for name in READING)
    if mark is not None and not same and fingerprint(open_data(second, progress=progress)) != mark:
        raise NarrowsError(f"{names} have other data ({one.data} and {other.data}); compare runs on the same data")
