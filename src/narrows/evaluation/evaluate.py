"""How good is a trained model? Its error, its dimensions and its samples, on the run's test split.

    error             as in the certificate: the same inputs, the same noise
    KL                of each dimension's posterior from the prior, averaged over the test inputs
    active units      dimensions whose posterior mean varies by more than 0.01 over the data (Burda et al., 2016)
    cost of removal   how much the error rises without the dimension
    samples           the Fréchet distance between features (features.py) of new examples and of the test inputs, for
                      each sampler (inference/sampling.py)

The distance is larger than 0 even for real examples, because both sides are finite. It is therefore also measured
between equally many training examples and the test inputs: this is the floor. The distance of reconstructions of the
test inputs shows what the decoder alone loses. Distances from different features or counts must not be compared.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from narrows._util.checks import COUNT, FUNCTION, SEED, Rule, argument, path_argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.progress import Progress, silent
from narrows.data import Data, Examples, Splits, split, thinned
from narrows.data.counting import Counting
from narrows.data.dataset import DATA
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments
from narrows.evaluation.features import Features, make_features
from narrows.evaluation.frechet import frechet_distance
from narrows.inference import sampling
from narrows.inference.trained import ROWS, Trained, is_unchanged, open_trained, training_data
from narrows.objective import kl_elements
from narrows.recipes.registry import RECIPES
from narrows.runs.certificate import Terms, measure
from narrows.runs.evaluation import Evaluation, Measured, Unit
from narrows.runs.folder import RunFolder
from narrows.runs.records import HeldOut
from narrows.training import validation
from narrows.training.fingerprint import fingerprint
from narrows.training.trainer import TEST_SEED

SAMPLES = 5_000
MOST_SAMPLES = 1_000_000
"""New examples; more would change no digit that is shown."""
VARYING = Rule(
    f"a whole number from 2, so that they vary, to {MOST_SAMPLES:,}",
    lambda value: type(value) is int and 2 <= value <= MOST_SAMPLES,
)


def evaluate(
    run: str | os.PathLike[str],
    against: str | os.PathLike[str] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    components: int | None = None,
    data: Data | None = None,
    progress: Progress = silent,
    trust_data: bool = False,
) -> Evaluation:
    """Measure a run's model on its test split, and optionally the model of another run on the same inputs.

    Nothing is written except the classifier, into the cache folder; `narrows evaluate` also writes the run's
    evaluation.json.

    Arguments:
        run: The run's folder.
        against: The folder of another run on the same data and with the same split, such as a plain VAE.
        samples: New examples to draw from each sampler, at least 2.
        seed: The seed of samples, mixture and classifier.
        components: Components of the mixture; by default 10, or fewer where the training split is small.
        data: The training data, for a run that was trained on data in memory; other runs name theirs.
        progress: Called with (what, done, total) after each batch.
        trust_data: Read the data that the run names even if its model has no fingerprint of them, or if they are on
            another machine.

    Returns:
        The measurements of one or two models.

    Raises:
        NarrowsError: A run has no model, the two runs have different test inputs, the data have changed since
            training, or an argument is out of range.
    """
    run, against = path_argument("run", run), None if against is None else path_argument("against", against)
    samples, seed = argument("samples", samples, VARYING), argument("seed", seed, SEED)
    components = None if components is None else argument("components", components, COUNT)
    argument("data", data, DATA, or_none=True)
    argument("progress", progress, FUNCTION)
    needs = "evaluation needs the run's test split"
    first, second = open_trained(run, trust_data), None if against is None else open_trained(against)
    split_seed = first.run_config(needs).split_seed
    if second is not None and second.run_config(needs).split_seed != split_seed:
        raise NarrowsError(
            f"{run} and {against} have different test inputs; compare runs of one {setting('split_seed')}"
        )
    data = training_data(first, data, progress)
    if second is not None and not is_unchanged(second, data):
        raise NarrowsError(f"{run} and {against} have different data; compare runs on the same data")
    if data.missing:
        raise NarrowsError(
            f"{data.name} has missing values, and samples are compared with whole test inputs; the error with its "
            f"certificate is in `narrows show {run}`"
        )
    splits, examples = split(data, split_seed), data.exact
    codes = min(len(splits.train), sampling.MOST_CODES)
    if components is None:
        components = max(1, min(sampling.COMPONENTS, codes // 2))
    elif first.model.n or (second and second.model.n):  # without dimensions all codes are the same
        sampling.check_codes(codes, components)
    features = make_features(data, examples, splits, f"{fingerprint(data, splits)} {split_seed}", seed, progress)
    counting = data.counting.at(splits.test)
    evaluator = Evaluator(examples, splits, counting, features, samples, seed, components, progress)
    test = evaluator.moments(splits.test, "reading the test split")
    real = evaluator.moments(thinned(splits.train, samples), "reading real examples")
    return Evaluation(
        data=data.name,
        test=len(splits.test),
        count=samples,
        real_count=int(real.count),
        components=components,
        codes=codes,
        seed=seed,
        width=features.width,
        features=features.description,
        accuracy=features.accuracy,
        real=frechet_distance(real, test),
        run=evaluator.measure(first, str(run), test),
        against=None if second is None else evaluator.measure(second, str(against), test),
    )


@dataclass(frozen=True)
class Evaluator:
    """The inputs, features, counts and seeds that are the same for all models."""

    examples: Examples
    splits: Splits
    counting: Counting
    """How the test inputs count."""
    features: Features
    samples: int
    seed: int
    components: int
    progress: Progress

    @torch.no_grad()
    def measure(self, trained: Trained, run: str, test: Moments) -> Measured:
        """Measure one model; `test` holds the moments of the test inputs' features."""
        model, index = trained.model, self.splits.test
        self.progress("measuring error and dimensions", 0, 0)
        heldout = self._heldout(trained, run)
        units = self._units(trained)
        reconstructed = self.moments(index, "reconstructing", model.reconstruct)
        codes = sampling.posterior_samples(model, self.examples, self.splits.train, self.seed, self.progress)
        distances = {}
        for kind in sampling.KINDS:
            sampler = sampling.fit_sampler(kind, codes, self.components, self.seed)
            drawn = sampling.draw_examples(model, sampler, self.samples, self.seed, self.progress)
            distances[str(kind)] = frechet_distance(Moments.of(map(self.features, drawn), covariance=True), test)
        return Measured(
            run=run,
            dims=model.n,
            tau=trained.tau,
            error=trained.error_name,
            heldout=heldout,
            units=units,
            reconstructions=frechet_distance(reconstructed, test),
            samples=distances,
        )

    def _heldout(self, trained: Trained, run: str) -> HeldOut:
        """Measure the error as the run's certificate did; approximately for a run without one."""
        found = validation.per_input(trained.model, self.examples, self.splits.test, TEST_SEED, trained.error)
        errors = self.counting.independent(found[0]), self.counting.independent(found[1])
        result = RunFolder(run).read_result()
        if result is None or result.certificate is None:
            return measure(*errors, Terms())
        claim, more = result.certificate, not RECIPES[trained.run_config("").recipe].ends_by_itself
        terms = Terms(claim.confidence, claim.limit).at_look(claim.look, more)
        return measure(*errors, terms, result.validation.spread)

    @torch.no_grad()
    def moments(self, index: np.ndarray, what: str, change: Callable[[Tensor], Tensor] | None = None) -> Moments:
        """Return the moments of the features of the examples at `index`, or of what `change` makes of them."""
        batches = in_batches(self.examples, index, ROWS, what, self.progress)
        rows = (self.features(x if change is None else change(x)) for _, x in batches)
        return Moments.of(rows, covariance=True)

    def _units(self, trained: Trained) -> list[Unit]:
        """Measure each dimension: its cost of removal, its KL, and the variance of its posterior mean."""
        model, index = trained.model, self.splits.test
        weights = self.counting.weights
        described = validation.describe_dimensions(model, self.examples, index, TEST_SEED, trained.error, weights)
        kl, means = Moments(), Moments(covariance=True)
        for _, x in in_batches(self.examples, index, ROWS, "encoding the test split", self.progress):
            posterior = model.encode(x)
            kl.add(kl_elements(*posterior))
            means.add(posterior.mean)
        variances = np.diag(means.covariance).tolist()
        measured = zip(described, kl.mean.tolist(), variances, strict=True)
        return [Unit(one.kept, one.cost, nats, variance) for one, nats, variance in measured]
