"""From an estimator's parameters to the settings of a run, and from a run's errors to scikit-learn's."""

import contextlib
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from narrows._util.checks import ABOVE_ZERO, COUNT, argument, one_of
from narrows._util.errors import NarrowsError, as_argument, setting
from narrows._util.text import brief
from narrows.data.arrays import check_missing
from narrows.data.dataset import Categories
from narrows.data.sparse import SparseRows
from narrows.objective import COUNT_ERRORS, ERRORS
from narrows.recipes.registry import RECIPES
from narrows.training.config import TrainConfig

LOG_EVERY = 50
"""Batches per row of `history_`."""
PROMISES = ("tau", "tau_per_value", "as_good_as")
"""The promises that count instead of `explained`."""


def missing_of(estimator: Any) -> bool | Literal["allow-nan"]:
    """Return what scikit-learn's `check_array` shall do with values that are not finite."""
    with as_value_error():
        check_missing(estimator.missing)
    return "allow-nan" if estimator.missing == "mask" else True


def checked_array(estimator: Any, X: ArrayLike, finite: Any, hint: str, **rules: Any) -> np.ndarray:
    """Return `X` as an array of floats; where NaN is refused, `hint` says what to do about it."""
    try:
        x: np.ndarray = check_array(
            X,
            dtype=[np.float64, np.float32],
            allow_nd=True,
            ensure_all_finite=finite,
            estimator=estimator,
            input_name="X",
            **rules,
        )
    except ValueError as error:
        if "contains NaN" not in str(error):
            raise
        raise ValueError(f"{str(error).splitlines()[0]}\n{hint}") from None
    return x


def sparse_rows(X: Any) -> SparseRows:
    """Return a sparse matrix, which scikit-learn has checked, as rows."""
    with as_value_error():
        return SparseRows(X, "X")


def settings_of(estimator: Any) -> TrainConfig:
    """Return the parameters as the checked settings of a run; tau follows once the unit of `X` is known."""
    with as_value_error():
        argument("categories", estimator.categories, one_of(get_args(Categories)))
        for name in ("verbose", "warm_start"):
            if not isinstance(value := getattr(estimator, name), Integral | np.bool_):
                raise NarrowsError(f"{setting(name)} must be True or False; it is {brief(value)}")
        given = {name: getattr(estimator, name) for name in PROMISES}
        given = {name: value for name, value in given.items() if value is not None}
        for name, value in given.items():
            argument(name, value, COUNT if name == "as_good_as" else ABOVE_ZERO)
        if len(given) > 1:
            raise NarrowsError(f"give only one of {', '.join(map(setting, given))}: each of them sets tau")
        if not given and estimator.explained is None:
            every = ", ".join(map(setting, PROMISES))
            raise NarrowsError(f"give a promise: {setting('explained', 0.9)}, or one of {every}; all are None")
        narrowing = [name for name, recipe in RECIPES.items() if recipe.closes_gates]
        if estimator.recipe not in narrowing:
            raise NarrowsError(f"{setting('recipe')} must be one of {', '.join(narrowing)}; it is {estimator.recipe!r}")
        argument("categories", estimator.categories, one_of(get_args(Categories)))
        named = (*ERRORS, *COUNT_ERRORS)
        if not callable(estimator.error) and estimator.error not in named:
            raise NarrowsError(
                f"{setting('error')} must be one of {', '.join(named)}, or a function of x and its reconstruction; it "
                f"is {estimator.error!r}"
            )
        if callable(estimator.error) and "tau" not in given and "as_good_as" not in given:
            raise NarrowsError(
                f"{setting('error')} is a function, so the promise must be in its unit: give {setting('tau')}"
            )
        return TrainConfig(
            data="X",
            tau=1.0 if "tau" in given else None,
            tau_per_value=1.0 if "tau_per_value" in given else None,
            as_good_as=given.get("as_good_as"),
            explained=None if given else estimator.explained,
            error="squared" if callable(estimator.error) else estimator.error,
            confidence=estimator.confidence,
            n="auto" if estimator.n_components is None else estimator.n_components,
            steps="auto" if estimator.max_steps is None else estimator.max_steps,
            batch=estimator.batch_size,
            recipe=estimator.recipe,
            network="mlp" if callable(estimator.network) else estimator.network,
            width=estimator.width,
            values="any",
            device=estimator.device,
            seed=int(check_random_state(estimator.random_state).randint(2**31 - 1)),
            log_every=LOG_EVERY,
        ).checked()


@contextlib.contextmanager
def as_value_error() -> Iterator[None]:
    """Raise an error of training as scikit-learn does, with settings under the names that the estimator gives them."""
    names = {
        "batch": "batch_size",
        "steps": "max_steps",
        "n": "n_components",
        "sampler": "kind",
        "weights": "sample_weight",
    }
    try:
        yield
    except NarrowsError as error:
        raise ValueError(error.spelled(lambda name, value: _as_parameter(names.get(name, name), value))) from error


def _as_parameter(name: str, value: str | None) -> str:
    """Write a setting as a parameter of the estimator; columns are chosen from the table itself."""
    if name == "columns":
        return "X[[...]]" if value is None else f"X[{value.split(',')}]"
    return as_argument(name, value)
