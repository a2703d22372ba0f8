"""The certificate: what is promised, how it is measured, and when it counts as kept.

The promise is about the mean error over all inputs: it is at most tau. Only some inputs can be measured, so a mean
comes with a 95% interval, by Student's t:

    mean +- t s / sqrt(n)           s the standard deviation of one input's error, n the number of inputs

and the promise is kept on a split when the upper end of that interval is at most tau. A run chooses its model on the
validation split and measures it once on the test split, which chose nothing. The promise is certified when it is kept
on both.

A run that aimed exactly at tau would miss half of the time, so a recipe that can measure the spread s while it trains
aims below tau by `margin`: one half width for what the validation split can tell, and one for the test split's own
interval.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from narrows.runs.records import HeldOut

if TYPE_CHECKING:
    from torch import Tensor

CONFIDENCE = 0.95
"""The confidence of every interval: the one place to change it."""
LEVEL = f"{CONFIDENCE:.0%}"
"""The same as texts write it."""
QUANTILE = 0.5 + CONFIDENCE / 2
"""The upper end of a two-sided interval of that confidence."""
STANDARD_ERRORS = round(NormalDist().inv_cdf(QUANTILE), 2)
"""Half the width of such an interval for many inputs, in standard errors: 1.96."""

Spread = TypeVar("Spread", float, "Tensor")


def half_width(std: float, count: int) -> float:
    """Return half of the interval of a mean of `count` numbers with this deviation; infinite for one number."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, QUANTILE)) * std / math.sqrt(count) if count > 1 else math.inf


def measure(errors: np.ndarray, errors_at_mean: np.ndarray) -> HeldOut:
    """Return the mean error and its interval.

    Arguments:
        errors: Each input's error with a sampled z, (inputs,).
        errors_at_mean: Each input's error with z = mu, (inputs,).
    """
    mean = float(errors.mean())
    half = half_width(float(errors.std(ddof=1)) if len(errors) > 1 else 0.0, len(errors))
    return HeldOut(mean, mean - half, mean + half, float(errors_at_mean.mean()), len(errors))


def is_kept(measured: HeldOut, tau: float) -> bool:
    """Return whether the promise is kept on the split that was measured."""
    return measured.high <= tau


def is_certified(validation: HeldOut, test: HeldOut, tau: float) -> bool:
    """Return whether the promise is kept on both splits."""
    return is_kept(validation, tau) and is_kept(test, tau)


def margin(spread: Spread, validation: int, test: int) -> Spread:
    """Return how far below tau training must aim so that both splits are expected to keep the promise.

    Arguments:
        spread: Standard deviation of one input's error.
        validation: Number of inputs in the validation split.
        test: Number of inputs in the test split.
    """
    return STANDARD_ERRORS * spread * (validation**-0.5 + test**-0.5)
