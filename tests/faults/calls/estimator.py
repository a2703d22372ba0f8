"""The estimator, whose errors follow scikit-learn's conventions."""

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from faults.calls.frame import HUGE, INF, NAN, Case, Good, sklearn
from narrows import (
    NarrowVAE,
)


def fit(good: Good, **parameters: Any) -> object:
    """Fit an estimator with these parameters."""
    return NarrowVAE(**{"max_steps": 2, "width": 1, **parameters}).fit(good.x.numpy())


def parameter(name: str, says: str, *values: Any) -> list[Case]:
    """Return one case per bad value of one of the estimator's parameters."""
    return [
        case
        for value in values
        for case in sklearn(f"NarrowVAE({name})", says, lambda g, v=value: fit(g, **{name: v}), ValueError, TypeError)
    ]


ESTIMATOR = [
    *parameter("n_components", "n_components must be", 0, -1, 2.5, "4", True, NAN, [4]),
    *parameter("explained", "explained must be", 0, 1, 95, NAN, "most", True),
    *parameter("explained", "give a promise: explained=0.9, or tau; both are None", None),
    *parameter("tau", "tau must be a number above 0", 0, -1, NAN, INF, HUGE, "1", True, [1.0]),
    *parameter("confidence", "confidence must be", 0, 1, 95, NAN, None, "high"),
    *parameter("error", "error must be one of squared, cross-entropy, absolute, poisson", "mse", None, 3, []),
    *sklearn("fit(X)", "X: counts must be 0 or more", lambda g: NarrowVAE(error="poisson").fit(-np.ones((30, 3)))),
    *sklearn("fit(X)", "X: row 0 has no counts", lambda g: NarrowVAE(error="poisson").fit(np.zeros((30, 3)))),
    *parameter("recipe", "recipe must be one of fast, paper", "plain", "slow", None, 3, []),
    *parameter("max_steps", "max_steps must be", 0, -1, 2.5, "x", True),
    *parameter("batch_size", "batch_size must be", 0, -1, 2.5, None, "64"),
    *parameter("network", "network must be one of auto, conv, mlp", "cnn", None, 3),
    *parameter("width", "width must be", 0, -1, 2.5, None, "32"),
    *parameter("device", "device must be one of auto, cpu, cuda, mps", "tpu", None, 0),
    *parameter("random_state", ".*([Ss]eed|random_state)", "x", -1, 2.5),
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit(None)),
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit("x")),
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit(np.zeros(5))),
    *sklearn("fit(X)", "Input X contains NaN", lambda g: NarrowVAE().fit(np.full((20, 3), NAN))),
    *sklearn("fit(X)", "fitting needs at least 10 samples", lambda g: NarrowVAE().fit(np.zeros((3, 3)))),
    *sklearn("fit(X)", "X: all examples are", lambda g: NarrowVAE().fit(np.zeros((30, 3)))),
    *sklearn("fit(X)", "X must hold rows", lambda g: NarrowVAE().fit(np.zeros((30, 2, 2, 2, 2)))),
    *sklearn(
        "transform", "This NarrowVAE instance is not fitted yet", lambda g: NarrowVAE().transform(g.x), NotFittedError
    ),
    *sklearn("inverse_transform", "This NarrowVAE", lambda g: NarrowVAE().inverse_transform(g.x), NotFittedError),
    *sklearn("score", "This NarrowVAE instance is not", lambda g: NarrowVAE().score(g.x), NotFittedError),
    *sklearn("sample", "This NarrowVAE instance is not", lambda g: NarrowVAE().sample(), NotFittedError),
    *sklearn("fit_sampler", "This NarrowVAE instance is not", lambda g: NarrowVAE().fit_sampler(g.x), NotFittedError),
]
