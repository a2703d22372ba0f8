"""What a display takes from a fitted estimator, which is known here only by its attributes."""

import math
from typing import Any, Protocol

import numpy as np
import torch

from narrows._util.checks import COUNT, several
from narrows._util.errors import NarrowsError
from narrows._util.text import brief, printable
from narrows.data.arrays import CHANNELS
from narrows.data.mixed import Column, value_names, widths_of
from narrows.model.vae import VAE
from narrows.objective import observed
from narrows.runs.records import Result


class Fitted(Protocol):
    """A fitted `NarrowVAE`, as far as displays use it."""

    recipe: Any
    error: Any
    model_: VAE
    result_: Result
    history_: dict[str, list[Any]]
    shape_: tuple[int, ...]
    mean_: np.ndarray
    table_: tuple[Column, ...]

    def transform(self, X: Any) -> np.ndarray:
        """Return codes, (N, n)."""
        ...

    def _examples(self, X: Any) -> np.ndarray: ...
    def _codes(self, x: np.ndarray) -> np.ndarray: ...
    def _decoded(self, X: Any) -> np.ndarray: ...
    def _errors(self, x: np.ndarray, decoded: np.ndarray) -> np.ndarray: ...


def fitted(estimator: Any) -> Fitted:
    """Return the estimator; raise if it is not a fitted `NarrowVAE`.

    Raises:
        TypeError: It is something else.
        sklearn.exceptions.NotFittedError: It has not been fitted.
    """
    from sklearn.utils.validation import check_is_fitted

    known(estimator)
    check_is_fitted(estimator)
    found: Fitted = estimator
    return found


def known(estimator: Any) -> None:
    """Raise TypeError if the estimator is not a `NarrowVAE`, fitted or not."""
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in ("front", "_examples", "recipe")):
        hint = "; take the NarrowVAE out of the pipeline: pipeline[-1]" if hasattr(estimator, "steps") else ""
        raise TypeError(f"estimator must be a fitted NarrowVAE; it is {brief(estimator)}{hint}")


def columns_of(estimator: Fitted) -> list[str]:
    """Return the names of a vector's values; empty if the examples had none."""
    names = value_names(estimator.table_) if estimator.table_ else getattr(estimator, "feature_names_in_", ())
    return [printable(name) for name in names]


def unit_of(estimator: Fitted) -> np.ndarray | float:
    """Return the unit in which each value's error counts: of a table with categories, a number's deviation."""
    if not estimator.table_:
        return 1.0
    numbers = len(estimator.mean_) - sum(widths_of(estimator.table_))
    scale = estimator.model_.scaling.scale.double().numpy()
    return np.where(np.arange(len(estimator.mean_)) < numbers, scale, 1.0)


def errors_of(estimator: Fitted, x: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """Return the error of each reconstruction, (N,), counted as the promise counts it."""
    if estimator.table_:
        return estimator._errors(x, decoded)
    if not callable(estimator.error):
        each = observed(estimator.error)(torch.from_numpy(x), torch.from_numpy(decoded))
        return np.asarray(each, np.float64)
    of_channels = (torch.from_numpy(channels_first(one, estimator.shape_)) for one in (x, decoded))
    return np.asarray(estimator.error(*of_channels), np.float64)


def channels_first(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a user's images, (N, H, W[, C]), as (N, C, H, W); vectors stay as they are."""
    if len(shape) == 2:
        return rows[:, None]
    return np.ascontiguousarray(np.moveaxis(rows, -1, 1)) if len(shape) == 3 and shape[-1] in CHANNELS else rows


def as_pictures(rows: np.ndarray, image_shape: Any = None) -> np.ndarray:
    """Return examples of any layout, (N, ...), as (N, H, W) or (N, H, W, C) if they are images, else as they are.

    Arguments:
        rows: Examples.
        image_shape: What one example is to be shown as, such as (8, 8) for vectors of 64 pixels.
    """
    if image_shape is not None:
        words = "(height, width) or (height, width, channels) with as many values as an example has"
        sides = several("image_shape", image_shape, COUNT, words, lengths=(2, 3))
        if math.prod(sides) != rows[0].size or (len(sides) == 3 and sides[2] not in CHANNELS):
            raise NarrowsError(f"image_shape must be {words}, {rows[0].size:,}; it is {brief(image_shape)}")
        rows = rows.reshape(len(rows), *sides)
    if rows.ndim == 4 and rows.shape[-1] not in CHANNELS and rows.shape[1] in CHANNELS:
        rows = np.moveaxis(rows, 1, -1)
    return rows[..., 0] if rows.ndim == 4 and rows.shape[-1] == 1 else rows
