"""Small fitted estimators for the displays, and no figure that outlives its test."""

import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

SMALL: dict[str, Any] = {"max_steps": 30, "width": 2, "device": "cpu", "random_state": 0}


@pytest.fixture(autouse=True)
def no_figure_is_left():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def fit(x: Any, **parameters: Any) -> Any:
    from narrows import NarrowVAE

    with warnings.catch_warnings(action="ignore"):
        return NarrowVAE(**{**SMALL, **parameters}).fit(x)


@pytest.fixture(scope="session")
def pictures(images) -> np.ndarray:
    """The squares of the shared images, 14 x 14 and in shades from 0 to 7."""
    return np.load(images)[:, ::2, ::2] / 255.0 * 7


@pytest.fixture(scope="session")
def of_pictures(pictures) -> Any:
    return fit(pictures, n_components=3)


@pytest.fixture(scope="session")
def frame() -> Any:
    """A data frame with names that matplotlib would take for formulas, or leave out of a legend."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 7)) + 0.1 * rng.standard_normal((300, 7))
    return pandas.DataFrame(x, columns=["price in $", "tax in $", "_hidden", "height", "width", "depth", "age"])


@pytest.fixture(scope="session")
def of_frame(frame) -> Any:
    return fit(frame, n_components=3)


@pytest.fixture(scope="session")
def mixed() -> Any:
    """A data frame with a category between its numbers."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 300)
    numbers = kind[:, None] * [1.0, -2.0, 300.0] + rng.standard_normal((300, 3))
    columns = {"height": numbers[:, 0], "kind": pandas.Categorical(np.array(["oak", "elm", "ash"])[kind])}
    return pandas.DataFrame({**columns, "width": numbers[:, 1], "mass": numbers[:, 2]})


@pytest.fixture(scope="session")
def of_mixed(mixed) -> Any:
    return fit(mixed, n_components=3)
