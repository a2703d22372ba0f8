"""What examples are compared by when samples are judged: a few numbers an example, each with its own unit.

    labelled images    the last hidden layer of a small classifier trained on this set (classifier.py)
    other images       the same network, untrained
    vectors, tables    the columns themselves; of more than 512 columns, 512 random mixtures

Every feature is standardised by its mean and deviation over the training split, so a distance does not depend on how
large a network's numbers happen to be: with 64 features, real examples have a total variance of 64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from narrows.classifier import labels_of, trained_classifier, untrained
from narrows.data import Data, Examples, Splits, thinned
from narrows.data.progress import Progress, silent

MOST_COLUMNS = 512
"""Columns that are compared one by one."""
MEASURED = 5_000
"""Training examples from which the features' units are taken, at most."""
ROWS = 250
"""Examples at a time."""
ALMOST_CONSTANT = 1e-12
"""A deviation below this share of the mean is rounding."""

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Features:
    """A map from examples to standardised features, and what it is."""

    words: str
    """For the user."""
    accuracy: dict[str, float]
    """Of the classifier, for each label, on the validation split; empty where nothing was trained."""
    width: int
    """How many."""
    raw: Map
    shift: Tensor
    unit: Tensor

    @torch.no_grad()
    def __call__(self, x: Tensor) -> np.ndarray:
        """(batch, *shape) -> (batch, width) float64."""
        return ((self.raw(x).double() - self.shift) / self.unit).numpy()


def make_features(
    data: Data, examples: Examples, splits: Splits, mark: str, seed: int = 0, progress: Progress = silent
) -> Features:
    """Choose and make the features for this data; `examples` are as the model takes them, `mark` tells data apart."""
    if not data.is_image:
        return _columns(examples, splits, seed)
    if labels_of(data):
        network, accuracy = trained_classifier(data, splits, mark, seed, progress)
        names = ", ".join(accuracy)
        right = ", ".join(f"{name} {share:.1%}" for name, share in accuracy.items())
        words = f"of a small classifier of {names}; right on the validation split: {right}"
    else:
        network, accuracy = untrained(data, splits, seed), {}
        words = "of an untrained convolutional network, since these images have no labels"
    return _standardised(words, accuracy, network, examples, splits)


def _columns(examples: Examples, splits: Splits, seed: int) -> Features:
    plain = _standardised("the columns, standardised", {}, lambda x: x.double(), examples, splits)
    if plain.width <= MOST_COLUMNS:
        return plain
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(plain.width, MOST_COLUMNS, generator=generator, dtype=torch.float64) / plain.width**0.5
    words = f"random mixtures of the {plain.width:,} columns, standardised"
    return _standardised(words, {}, lambda x: torch.from_numpy(plain(x)) @ mixing, examples, splits)


@torch.no_grad()
def _standardised(words: str, accuracy: dict[str, float], raw: Map, examples: Examples, splits: Splits) -> Features:
    """Measure the features' means and deviations on the training split."""
    index = thinned(splits.train, MEASURED)
    origin = raw(examples.batch(index[:1]))[0].double()  # near the data, so that squares stay exact
    total, squares = torch.zeros(2, len(origin), dtype=torch.float64)
    for start in range(0, len(index), ROWS):
        rows = raw(examples.batch(index[start : start + ROWS])).double() - origin
        total += rows.sum(0)
        squares += rows.square().sum(0)
    mean = total / len(index)
    spread = (squares / len(index) - mean.square()).clamp(min=0).sqrt()
    shift = origin + mean
    unit = torch.where(spread > ALMOST_CONSTANT * shift.abs(), spread, 1.0)
    return Features(f"{len(shift)}, {words}", accuracy, len(shift), raw, shift, unit)
