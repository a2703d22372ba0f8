"""Principal components: Pearson (1901), Hotelling (1933).

Choices of ours
1. The components are those of the training split: of at most 20,000 evenly spaced examples, or of 5,000 where an
   example has more than 4,096 values (by the eigenvectors of the matrix of their inner products).
2. The size is the smallest number of components whose error on the validation split is within the target; PCA has no
   other knob here, and no batches.
"""

import numpy as np
import torch
from torch import Tensor, nn

from methods.latent import SILENT
from methods.problem import Answer, Method, Problem
from narrows.data import thinned
from narrows.data.examples import Examples, in_batches
from narrows.model.vae import VAE

MOST_ROWS, MOST_VALUES, FEW_ROWS = 20_000, 4_096, 5_000
MOST_COMPONENTS = 1_024
"""Components that are looked at, at most."""


class Encoder(nn.Module):
    """x -> the scores of its components, and no noise."""

    def __init__(self, directions: Tensor, mean: Tensor) -> None:
        super().__init__()
        values, k = directions.shape
        self.head = nn.Linear(values, 2 * k)
        with torch.no_grad():
            self.head.weight.copy_(torch.cat([directions.T, torch.zeros(k, values)]))
            self.head.bias.copy_(torch.cat([-directions.T @ mean, torch.full((k,), SILENT)]))

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, *shape)` -> (batch, 2k)."""
        return self.head(x.flatten(1))


class Decoder(nn.Module):
    """Scores -> x."""

    def __init__(self, directions: Tensor, mean: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Linear(directions.shape[1], directions.shape[0])
        with torch.no_grad():
            self.stem.weight.copy_(directions)
            self.stem.bias.copy_(mean)

    def forward(self, z: Tensor) -> Tensor:
        """(batch, k) -> `(batch, *shape)`."""
        return self.stem(z).view(len(z), *self.shape)


def components(examples: Examples, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean, (values,), and the directions, (values, k), the largest variance first."""
    x = _rows(examples, thinned(index, MOST_ROWS if np.prod(examples.shape) <= MOST_VALUES else FEW_ROWS))
    mean = x.mean(0)
    x -= mean
    if len(x) >= x.shape[1]:
        vectors = np.linalg.eigh(x.T @ x)[1][:, ::-1]
        return mean, vectors[:, :MOST_COMPONENTS]
    variances, vectors = np.linalg.eigh(x @ x.T)
    some = variances[::-1] > 1e-10 * variances[-1]
    directions = x.T @ vectors[:, ::-1][:, some][:, :MOST_COMPONENTS]
    return mean, directions / np.linalg.norm(directions, axis=0)


def errors_of_first(x: np.ndarray, mean: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the squared error of each row of x with the first k components, k from 0 on, (rows, k + 1)."""
    squares = np.square((x - mean) @ directions)
    total = np.square(x - mean).sum(1, keepdims=True)
    return np.concatenate([total, (total - squares.cumsum(1)).clip(min=0)], 1)


def run(problem: Problem, setting: str) -> Answer:
    """Take as many components as tau needs."""
    splits, shape = problem.plan.splits, problem.examples.shape
    mean, directions = components(problem.examples, splits.train)
    errors = errors_of_first(_rows(problem.examples, splits.validation), mean, directions)
    enough = [errors[:, k].mean() <= problem.target(errors[:, k]) for k in range(1, errors.shape[1])]
    k = enough.index(True) + 1 if any(enough) else len(enough)
    chosen, centre = torch.from_numpy(directions[:, :k].copy()).float(), torch.from_numpy(mean).float()
    return Answer(VAE(Encoder(chosen, centre), Decoder(chosen, centre, shape), k, ["head"], "stem"), 0)


def _rows(examples: Examples, index: np.ndarray) -> np.ndarray:
    rows = np.empty((len(index), int(np.prod(examples.shape))))
    for here, x in in_batches(examples, index, 250):
        rows[here] = x.flatten(1).numpy()
    return rows


METHOD = Method(run)
