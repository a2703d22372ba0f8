"""From an estimator's parameters to the settings of a run, and from a run's errors to scikit-learn's."""

import contextlib
from collections.abc import Iterator
from typing import Any

from sklearn.utils import check_random_state

from narrows._util.checks import ABOVE_ZERO, argument
from narrows._util.errors import NarrowsError, as_argument, setting
from narrows.recipes.registry import RECIPES
from narrows.training.config import TrainConfig

LOG_EVERY = 50
"""Batches per row of `history_`."""


def settings_of(estimator: Any) -> TrainConfig:
    """Return the parameters as the checked settings of a run; tau follows once the unit of `X` is known."""
    with as_value_error():
        if estimator.tau is not None:
            argument("tau", estimator.tau, ABOVE_ZERO)
        elif estimator.explained is None:
            raise NarrowsError(f"give a promise: {setting('explained', 0.9)}, or {setting('tau')}; both are None")
        narrowing = [name for name, recipe in RECIPES.items() if recipe.closes_gates]
        if estimator.recipe not in narrowing:
            raise NarrowsError(f"{setting('recipe')} must be one of {', '.join(narrowing)}; it is {estimator.recipe!r}")
        return TrainConfig(
            data="X",
            tau=None if estimator.tau is None else 1.0,
            explained=estimator.explained if estimator.tau is None else None,
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
    names = {"batch": "batch_size", "steps": "max_steps", "n": "n_components", "sampler": "kind"}
    try:
        yield
    except NarrowsError as error:
        text = error.spelled(lambda name, value: as_argument(names.get(name, name), value))
        raise ValueError(text) from error
