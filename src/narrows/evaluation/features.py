"""The features by which examples are compared when samples are judged: a few numbers per example, each in its own unit.

    labelled images    the last hidden layer of a small classifier trained on this set (classifier.py)
    other images       the same network, untrained
    vectors, tables    the columns themselves; for more than 512 columns, 512 random mixtures of them

Every feature is standardised by its mean and standard deviation over the training split, so that a distance does not
depend on the scale of a network's outputs: with 64 features, real examples have a total variance of 64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from narrows._util.progress import Progress, silent
from narrows.data import Data, Examples, Splits, thinned
from narrows.data.examples import in_batches
from narrows.data.statistics import Moments
from narrows.evaluation.classifier import labels_of, trained_classifier, untrained

MOST_COLUMNS = 512
"""Columns that are compared one by one, at most."""
MEASURED = 5_000
"""Training examples from which the features' units are measured, at most."""
ALMOST_CONSTANT = 1e-12
"""A standard deviation below this share of the mean is rounding."""

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Features:
    """A map from examples to standardised features."""

    description: str
    """What the features are, for the user."""
    accuracy: dict[str, float]
    """The classifier's accuracy on the validation split, for each label; empty where nothing was trained."""
    width: int
    """The number of features."""
    raw: Map
    shift: Tensor
    unit: Tensor

    @torch.no_grad()
    def __call__(self, x: Tensor) -> np.ndarray:
        """`(batch, *shape)` -> (batch, width) float64."""
        return ((self.raw(x).double() - self.shift) / self.unit).numpy()


def make_features(
    data: Data, examples: Examples, splits: Splits, key: str, seed: int = 0, progress: Progress = silent
) -> Features:
    """Choose and build the features for this data.

    `examples` are the data's examples as the model takes them; `key` identifies the data and their split in the cache.
    """
    if not data.is_image:
        return _columns(examples, splits, seed)
    if labels_of(data):
        network, accuracy = trained_classifier(data, splits, key, seed, progress)
        shares = ", ".join(f"{name} {share:.1%}" for name, share in accuracy.items())
        description = f"of a small classifier of {', '.join(accuracy)}; accuracy on the validation split: {shares}"
    else:
        network, accuracy = untrained(data, splits, seed), {}
        description = "of an untrained convolutional network, because these images have no labels"
    return _standardised(description, accuracy, network, examples, splits)


def _columns(examples: Examples, splits: Splits, seed: int) -> Features:
    plain = _standardised("the columns, standardised", {}, lambda x: x.double(), examples, splits)
    if plain.width <= MOST_COLUMNS:
        return plain
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(plain.width, MOST_COLUMNS, generator=generator, dtype=torch.float64) / plain.width**0.5
    description = f"random mixtures of the {plain.width:,} columns, standardised"
    return _standardised(description, {}, lambda x: torch.from_numpy(plain(x)) @ mixing, examples, splits)


@torch.no_grad()
def _standardised(
    description: str, accuracy: dict[str, float], raw: Map, examples: Examples, splits: Splits
) -> Features:
    """Return the features with their means and standard deviations on the training split."""
    moments = Moments.of(raw(x) for _, x in in_batches(examples, thinned(splits.train, MEASURED)))
    shift, spread = torch.from_numpy(moments.mean), torch.from_numpy(moments.std)
    unit = torch.where(spread > ALMOST_CONSTANT * shift.abs(), spread, 1.0)
    return Features(f"{len(shift)}, {description}", accuracy, len(shift), raw, shift, unit)
