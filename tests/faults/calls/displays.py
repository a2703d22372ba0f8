"""Displays: of estimators, of runs, and axes."""

import copy
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import narrows
from faults.calls.frame import NAN, NOT_PATHS, PATH, Case, Good, N, each, one, sklearn
from narrows import (
    CodesDisplay,
    DimensionDisplay,
    FrontDisplay,
    NarrowingDisplay,
    NarrowVAE,
    ReconstructionDisplay,
    TraversalDisplay,
)

OF_X = (TraversalDisplay, ReconstructionDisplay, CodesDisplay)
OF_RUN = (NarrowingDisplay, DimensionDisplay, *OF_X)


def draw(display: Any, estimator: Any, good: Good, **options: Any) -> object:
    """Draw a display of an estimator, with examples if it needs them."""
    return display.from_estimator(estimator, *([good.x.numpy()] if display in OF_X else []), **options)


def narrowed(good: Good, count: int) -> NarrowVAE:
    """Return the fitted estimator with this many dimensions."""
    less = copy.copy(good.fitted)
    less.model_ = good.fitted.model_.narrow(range(count))
    return less


def of_run(display: Any, good: Good, **options: Any) -> object:
    """Draw a display of the run, with its data."""
    return display.from_run(good.run, data=narrows.from_array(good.x, "any"), **options)


def estimators(display: Any) -> list[Case]:
    """Return the cases of what is no fitted estimator."""
    name = f"{display.__name__}(estimator)"
    wrong = (None, "model", NarrowVAE, PCA(), 3)
    unfitted = (
        "this NarrowVAE has no front_ yet" if display is FrontDisplay else "This NarrowVAE instance is not fitted"
    )
    return [
        *[
            case._replace(lines=1)
            for value in wrong
            for case in sklearn(
                name, "estimator must be a fitted NarrowVAE; it is", lambda g, v=value: draw(display, v, g), TypeError
            )
        ],
        *sklearn(name, r".*; take the NarrowVAE out of the pipeline: pipeline\[-1\]",
                 lambda g: draw(display, make_pipeline(NarrowVAE()), g), TypeError),
        *[
            case._replace(lines=1)
            for case in sklearn(name, unfitted, lambda g: draw(display, NarrowVAE(), g), NotFittedError)
        ],
    ]  # fmt: skip


def folders(display: Any) -> list[Case]:
    """Return the cases of what is no run's folder."""
    name = f"{display.__name__}(folder)"
    return [
        *each(name, f"folder {PATH}", lambda g, v: display.from_run(v), NOT_PATHS),
        *one(name, "nowhere is not a run folder", lambda g: display.from_run("nowhere")),
        *one(name, ".* is not a run folder", lambda g: display.from_run(g.file)),
        *one(name, ".* is not a run folder: it is empty", lambda g: display.from_run(g.folder / "empty")),
    ]


DISPLAYS = [
    *[case for display in (*OF_RUN, FrontDisplay) for case in estimators(display)],
    *[case for display in OF_RUN for case in folders(display)],
    *each("FrontDisplay(folder)", f"folder {PATH}", lambda g, v: FrontDisplay.from_front(v), NOT_PATHS),
    *one("FrontDisplay(folder)", ".* is not a front", lambda g: FrontDisplay.from_front(g.run)),
    *[
        case
        for display in OF_X
        for case in (
            *each(f"{display.__name__}(data)", "data must be Data",
                  lambda g, v, d=display: d.from_run(g.run, data=v), ("x", 3, np.zeros((3, 2)))),
            *one(f"{display.__name__}(data)", ".*is not what .* was trained on",
                 lambda g, d=display: d.from_run(g.run, data=narrows.from_array(g.x[:50]))),
        )
    ],
    *[
        case
        for display in (ReconstructionDisplay, CodesDisplay)
        for case in one(f"{display.__name__}(data)", ".*does not say where its data are; name the data, or give data=",
                        lambda g, d=display: d.from_run(g.run))
    ],
    *[
        case
        for display in OF_RUN
        for case in each(f"{display.__name__}(ax)", "ax must be matplotlib Axes",
                         lambda g, v, d=display: draw(d, g.fitted, g, ax=v), ("x", 3, [], [None] * 3))
    ],
    *each("FrontDisplay(ax)", "ax must be matplotlib Axes",
          lambda g, v: FrontDisplay(taus=[1.0], dims=[2], errors=[0.5], met=[True]).plot(ax=v), ("x", 3, [])),
    *one("TraversalDisplay", "the model has 0 dimensions", lambda g: draw(TraversalDisplay, narrowed(g, 0), g)),
    *each("TraversalDisplay(dimensions)", "dimensions must be a list of different whole numbers below",
          lambda g, v: draw(TraversalDisplay, g.fitted, g, dimensions=v), ([9], [-1], [0, 0], "0", 0, [0.5], [])),
    *each("TraversalDisplay(dimensions)", f"dimensions must be a list of different whole numbers below {N}",
          lambda g, v: of_run(TraversalDisplay, g, dimensions=v), ([N], [0, 0])),
    *[
        case
        for display in (TraversalDisplay, ReconstructionDisplay)
        for case in each(f"{display.__name__}(image_shape)", "image_shape must be",
                         lambda g, v, d=display: draw(d, g.fitted, g, image_shape=v),
                         (3, "2x3", (6,), (2, 2), (0, 6), (2, -3), (NAN, 2), (1, 2, 3, 1)))
    ],
    *each("ReconstructionDisplay(which)", "which must be one of best, median, worst",
          lambda g, v: draw(ReconstructionDisplay, g.fitted, g, which=v), (None, "middle", 3, [])),
    *each("ReconstructionDisplay(which)", "which must be one of best, median, worst",
          lambda g, v: of_run(ReconstructionDisplay, g, which=v), ("all",)),
    *one("CodesDisplay", "codes are drawn in two dimensions, and the model has 1",
         lambda g: draw(CodesDisplay, narrowed(g, 1), g)),
    *each("CodesDisplay(dimensions)", "dimensions must be two different whole numbers below",
          lambda g, v: draw(CodesDisplay, g.fitted, g, dimensions=v),
          ((0,), (0, 1, 2), (1, 1), (0, 9), (-1, 0), 3, "01", None)),
    *one("CodesDisplay(y)", "y must have one label per example of X, 60; its shape is",
         lambda g: draw(CodesDisplay, g.fitted, g, y=np.zeros(59))),
    *one("CodesDisplay(y)", "y must have one label per example of X, 60; its shape is",
         lambda g: draw(CodesDisplay, g.fitted, g, y=np.zeros((60, 2)))),
    *one("CodesDisplay(y)", "y must have one label per example of X, 60; its shape is",
         lambda g: draw(CodesDisplay, g.fitted, g, y="label")),
    *one("CodesDisplay(y)", "y must be labels, or the name of a factor or column of",
         lambda g: of_run(CodesDisplay, g, y="label")),
    *one("CodesDisplay(y)", "y must have one label per example of", lambda g: of_run(CodesDisplay, g, y=[1, 2])),
]  # fmt: skip
