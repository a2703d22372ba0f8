"""The estimator, whose errors follow scikit-learn's conventions."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

from faults.calls.frame import HUGE, INF, NAN, Case, Good, sklearn
from narrows import (
    NarrowVAE,
)


def fit(good: Good, x: Any = None, *, sample_weight: Any = None, groups: Any = None, **parameters: Any) -> NarrowVAE:
    """Fit an estimator with these parameters."""
    model = NarrowVAE(**{"max_steps": 2, "width": 1, "device": "cpu", **parameters})
    with warnings.catch_warnings(action="ignore"):
        return model.fit(good.x.numpy() if x is None else x, sample_weight=sample_weight, groups=groups)


def gaps(good: Good) -> np.ndarray:
    """Return examples of which column 1 was never observed."""
    x = good.x.numpy().copy()
    x[:, 1] = NAN
    return x


def counts(batch: Any) -> NarrowVAE:
    """Return what is fitted to counts with these batches."""
    return NarrowVAE(error="poisson", max_steps=2, width=1).fit(np.ones((30, 3)), batch=batch)


def table(good: Good) -> pd.DataFrame:
    """Return a table with two columns of numbers and one of categories."""
    x = good.x.numpy()
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": np.where(x[:, 2] > 0.5, "u", "v")})


def weights(says: str, *values: Any) -> list[Case]:
    """Return one case per bad value of fit's sample_weight."""
    return [
        case
        for value in values
        for case in sklearn("fit(sample_weight)", f"sample_weight {says}", lambda g, v=value: fit(g, sample_weight=v))
    ]


def groups(says: str, *values: Any) -> list[Case]:
    """Return one case per bad value of fit's groups."""
    return [
        case
        for value in values
        for case in sklearn("fit(groups)", f"groups {says}", lambda g, v=value: fit(g, groups=v))
    ]


def frame(says: str, change: Callable[[pd.DataFrame], Any]) -> list[Case]:
    """Return one case of a table with categories that is changed after the fit."""
    return sklearn("transform(frame)", says, lambda g: fit(g, table(g), categories="auto").transform(change(table(g))))


def numbers(says: str, change: Callable[[pd.DataFrame], Any]) -> list[Case]:
    """Return one case of a table of numbers that is changed after the fit."""

    def call(good: Good) -> object:
        x = table(good)[["a", "b"]]
        return fit(good, x).transform(change(x))

    return sklearn("transform(frame)", says, call)


def weigh(good: Good, **counting: Any) -> object:
    """Fit an estimator to rows that count in this way."""
    return NarrowVAE(max_steps=2, width=1).fit(good.x.numpy(), **counting)


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
    *parameter("explained", "give a promise: explained=0.9, or one of tau, tau_per_value, as_good_as; all are", None),
    *parameter("tau_per_value", "tau_per_value must be a number above 0", 0, -1, NAN, INF, "1", True, [1.0]),
    *parameter("as_good_as", "as_good_as must be a whole number", 0, -1, 2.5, "4", True),
    *parameter("missing", "missing must be one of refuse, mask", "drop", None, True),
    *parameter("categories", "categories must be one of refuse, auto", "onehot", None, True),
    *parameter("verbose", "verbose must be True or False", "yes", None, 0.5),
    *parameter("warm_start", "warm_start must be True or False", "yes", None, 0.5),
    *parameter("tau", "tau must be a number above 0", 0, -1, NAN, INF, HUGE, "1", True, [1.0]),
    *parameter("confidence", "confidence must be", 0, 1, 95, NAN, None, "high"),
    *parameter(
        "error",
        "error must be one of squared, cross-entropy, absolute, poisson, negative-binomial, or a function",
        "l3",
        None,
        2,
        [],
    ),
    *sklearn("fit(X)", "X: counts must be 0 or more", lambda g: NarrowVAE(error="poisson").fit(-np.ones((30, 3)))),
    *sklearn("fit(X)", "X: row 0 has no counts", lambda g: NarrowVAE(error="poisson").fit(np.zeros((30, 3)))),
    *sklearn("fit(batch)", "batch must name from 2 to 50 batches; it names 1", lambda g: counts(["a"] * 30)),
    *sklearn("fit(batch)", "batch must name a batch for every row; row 0 has none", lambda g: counts([None] * 30)),
    *sklearn("fit(batch)", r"batch must have one entry per row, \(30,\)", lambda g: counts("a")),
    *sklearn("fit(batch)", "batch is for counts", lambda g: NarrowVAE().fit(np.ones((30, 3)), batch=[0, 1] * 15)),
    *parameter("recipe", "recipe must be one of fast, paper", "plain", "slow", None, 3, []),
    *parameter("max_steps", "max_steps must be", 0, -1, 2.5, "x", True),
    *parameter("batch_size", "batch_size must be", 0, -1, 2.5, None, "64"),
    *parameter("network", "network must be one of auto, conv, mlp", "cnn", None, 3),
    *parameter("width", "width must be", 0, -1, 2.5, None, "32"),
    *parameter("device", "device must be one of auto, cpu, cuda, mps", "tpu", None, 0),
    *parameter("random_state", ".*([Ss]eed|random_state)", "x", -1, 2.5),
    *parameter("missing", "missing must be one of refuse, mask", "drop", None, True, NAN),
    *parameter("categories", "categories must be one of refuse, auto", "all", None, True),
    *[
        case
        for bad, says in (
            (np.ones(59), r"sample_weight must have one number per row, \(60,\); it has the shape \(59,\)"),
            (np.ones((60, 1)), r"sample_weight must have one number per row, \(60,\); it has the shape \(60, 1\)"),
            (np.full(60, -1.0), "sample_weight must be finite numbers from 0 on; it is -1 in row 0"),
            (np.full(60, NAN), "sample_weight must be finite numbers from 0 on; it is nan in row 0"),
            (np.full(60, INF), "sample_weight must be finite numbers from 0 on; it is inf in row 0"),
            (np.zeros(60), "sample_weight must be above zero for 5 rows or more; 0 are"),
            (["heavy"] * 60, "sample_weight must be numbers, one per row; it is 'heavy' in row 0"),
            (3, "sample_weight must have one number per row"),
        )
        for case in sklearn("sample_weight", says, lambda g, v=bad: weigh(g, sample_weight=v))
    ],
    *[
        case
        for bad, says in (
            (range(59), r"groups must have one entry per row, \(60,\); it has the shape \(59,\)"),
            ([1] * 60, "groups must name 5 groups or more, to train, validate and test on different ones; it names 1"),
            ([None] * 60, "groups must name a group for every row; row 0 has none"),
            ([1.0] * 59 + [NAN], "groups must name a group for every row; row 59 has none"),
            ("subject", "groups must have one entry per row"),
        )
        for case in sklearn("groups", says, lambda g, v=bad: weigh(g, groups=v))
    ],
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit(None)),
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit("x")),
    *sklearn("fit(X)", ".*", lambda g: NarrowVAE().fit(np.zeros(5))),
    *sklearn("fit(X)", "Input X contains NaN", lambda g: NarrowVAE().fit(np.full((20, 3), NAN))),
    *sklearn("fit(X)", "fitting needs at least 10 samples", lambda g: NarrowVAE().fit(np.zeros((3, 3)))),
    *sklearn("fit(X)", "X: all examples are", lambda g: NarrowVAE().fit(np.zeros((30, 3)))),
    *sklearn("fit(X)", "X must hold rows", lambda g: NarrowVAE().fit(np.zeros((30, 2, 2, 2, 2)))),
    *sklearn("fit(X)", "X: column 1 has no value in any of 60 rows", lambda g: fit(g, gaps(g), missing="mask")),
    *sklearn("fit(X)", "Input X contains NaN.*\nNaN can stand for values", lambda g: fit(g, gaps(g))),
    *sklearn("fit(X)", "X: column 'kind' holds text, not numbers", lambda g: fit(g, table(g))),
    *weights("must have one number per row, \\(60,\\); it has", np.ones(5), np.ones((60, 2)), 1.0, []),
    *weights("must be numbers, one per row", ["a"] * 60),
    *weights("must be finite numbers from 0 on; it is .* in row 0", -np.ones(60), np.full(60, NAN), np.full(60, INF)),
    *weights("must be above zero for 5 rows or more; 0 are", np.zeros(60)),
    *sklearn(
        "fit(sample_weight)",
        "X: all rows of the .* split have weight 0; use more rows",
        lambda g: fit(g, sample_weight=np.arange(60) < 6),
    ),
    *groups("must have one entry per row, \\(60,\\); it has", [1, 2], "subject", np.ones((60, 2))),
    *groups("must name 5 groups or more, .*; it names 1", np.zeros(60), ["only"] * 60),
    *groups("must name 5 groups or more, .*; it names 2", np.arange(60) % 2),
    *groups("must name a group for every row; row 0 has none", [None] * 60, np.full(60, NAN)),
    *sklearn(
        "transform(X)",
        "Input X contains NaN.*\nthe model was fitted to data without gaps",
        lambda g: fit(g).transform(gaps(g)),
    ),
    *sklearn("transform(X)", "X has 2 features, but NarrowVAE is expecting 6", lambda g: fit(g).transform(g.x[:, :2])),
    *frame("X has no column 'kind'; its columns: a, b", lambda x: x[["a", "b"]]),
    *frame("X: column 'kind' has 'w' in row 1, which is none of the categories", lambda x: x.assign(kind="w")),
    *frame("X must be a data frame with the columns that the estimator was fitted to", lambda x: np.zeros((60, 3))),
    *numbers("(?s)The feature names should match those.*yet now missing:\n- b", lambda x: x[["a"]]),
    *numbers("(?s)The feature names should match those.*must be in the same order", lambda x: x[["b", "a"]]),
    *numbers(
        "(?s)The feature names should match those.*unseen at fit time:\n- z", lambda x: x.rename(columns={"a": "z"})
    ),
    *sklearn("score", "sample_weight must be above zero for one row", lambda g: fit(g).score(g.x, None, np.zeros(60))),
    *sklearn("set_callbacks", "callbacks must be instances", lambda g: NarrowVAE().set_callbacks(3), TypeError),
    *sklearn("set_callbacks", "callbacks must be instances", lambda g: NarrowVAE().set_callbacks(print), TypeError),
    *sklearn("report", "This NarrowVAE instance is not fitted yet", lambda g: NarrowVAE().report(), NotFittedError),
    *sklearn("report(path)", "path must be the path of a file or folder", lambda g: fit(g).report(5)),
    *sklearn("report(path)", "path must be the path of a file or folder", lambda g: fit(g).report(np.zeros((9, 6)))),
    *sklearn("report(path)", "path: the folder .* does not exist", lambda g: fit(g).report(g.missing / "x.html")),
    *sklearn("report(path)", "path must be a file, and .* is a folder", lambda g: fit(g).report(g.folder)),
    *sklearn("report(X)", "X has 2 features, but NarrowVAE is expecting 6", lambda g: fit(g).report(X=g.x[:, :2])),
    *sklearn("report(X)", "Found array with 0 sample", lambda g: fit(g).report(X=g.x[:0])),
    *sklearn("front(taus)", "taus must be one or more numbers above 0", lambda g: NarrowVAE().front(g.x, [])),
    *sklearn("front", "warm_start is for fit", lambda g: NarrowVAE(warm_start=True).front(g.x, [1.0])),
    *sklearn(
        "transform", "This NarrowVAE instance is not fitted yet", lambda g: NarrowVAE().transform(g.x), NotFittedError
    ),
    *sklearn("impute", "This NarrowVAE instance is not fitted yet", lambda g: NarrowVAE().impute(g.x), NotFittedError),
    *sklearn("inverse_transform", "This NarrowVAE", lambda g: NarrowVAE().inverse_transform(g.x), NotFittedError),
    *sklearn("score", "This NarrowVAE instance is not", lambda g: NarrowVAE().score(g.x), NotFittedError),
    *sklearn("sample", "This NarrowVAE instance is not", lambda g: NarrowVAE().sample(), NotFittedError),
    *sklearn("fit_sampler", "This NarrowVAE instance is not", lambda g: NarrowVAE().fit_sampler(g.x), NotFittedError),
]
