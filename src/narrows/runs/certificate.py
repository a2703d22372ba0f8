"""The certificate: what is promised, how it is measured, and when it counts as kept.

The promise is about the mean error over all inputs of the kind that the data are a sample of: it is at most tau. Only
some inputs can be measured. From the errors on the test split, which neither trained nor chose anything, an upper end
is computed that lies below the true mean with a probability of at most 1 - confidence. The promise is kept when the
upper end is at most tau. It is one-sided: nothing is claimed about how small the error might be.

Exact, where no error can be larger than a limit B (pixels and outputs in [0, 1]: the number of values). Bet against the
claim that the mean is m: start with 1, and let each test input multiply it by

    1 + b (m - x)                x the input's error, b the stake, at most 1 / (B - m), so that nothing falls below 0

If the mean is m or more, the product's expected value is at most 1, so it reaches 1 / (1 - confidence) with a
probability of at most 1 - confidence (Markov). The upper end is the m at which it does. The stake is fixed before the
test split is seen, from the spread of the errors on the validation split. (Waudby-Smith and Ramdas, 2024, bet with
stakes that learn from the inputs before. A fixed stake is as good where the limit decides, and the order of the inputs
does not matter.)

Approximate, where errors have no limit: a bound that holds for every distribution does not exist. Student's t is too
small for errors with a long tail, so it is transformed by their skewness (Hall, 1992):

    mean - w s / sqrt(n),        w + a w^2 / 3 + a^2 w^3 / 27 + a / 6 = -t,        a = skewness / sqrt(n)

With fewer than `FEWEST` inputs even that is too far from the truth, and nothing counts as kept.

Several models of one run may be tested, from the safest to the smallest, in an order that is fixed before the test
split is seen, until the first that fails. None of them needs a correction for the others: for a false certificate the
first model that breaks the promise must pass, which has a probability of at most 1 - confidence (fixed-sequence
testing; Angelopoulos et al., 2021). That protects what is certified, "at most tau"; the upper end itself is that of one
model, as if no other had been tested.

Both bounds say something about the mean. About single inputs: with the same confidence, a share of at least `SHARE` of
all inputs has an error of at most the k-th smallest of the test split, with k by the binomial distribution (Clopper and
Pearson).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from narrows._util.checks import ABOVE_ZERO, FROM_ZERO, NUMBER, Rule, argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.text import brief
from narrows.runs.records import Certificate, HeldOut

Kind = Literal["exact", "approximate"]
CONFIDENCE = 0.95
"""The confidence of a certificate by default."""
FEWEST = 30
"""Fewest test inputs with which an approximate bound counts."""
AFFORDABLE = 0.1
"""What exactness may cost, as a share of tau, to be chosen by itself."""
BOLDEST = 0.99
"""Largest stake, as a share of what could be lost: an error at the limit does not end the bet."""
SHARE = 0.9
"""Share of inputs in the statement about single inputs."""
TYPICAL = 0.7
"""Spread of single errors, as a share of their mean, that the outlook assumes."""
SMALLEST = 1e-12
"""Smallest probability of being wrong that is worth telling from 0."""
ROUNDING = 1e-5
"""How far above its limit an error may be, as a share of it, for rounding."""

CERTAINTY = Rule("at least 0.5 and below 1 (0.95 for 95%)", lambda value: NUMBER.holds(value) and 0.5 <= value < 1)


@dataclass(frozen=True)
class Terms:
    """The terms of a certificate: how certain it is, and what is known about the errors beforehand.

    Raises:
        NarrowsError: A term is not a number, or out of its range.
    """

    confidence: float = CONFIDENCE
    limit: float | None = None
    """The largest error that an input can have, by the type of the data; None for an approximate certificate."""
    unused: float | None = None
    """Such a limit that an approximate certificate leaves unused."""

    def __post_init__(self) -> None:
        argument("confidence", self.confidence, CERTAINTY)
        argument("limit", self.limit, ABOVE_ZERO, or_none=True)
        argument("unused", self.unused, ABOVE_ZERO, or_none=True)

    @property
    def kind(self) -> Kind:
        """Whether the bound is exact."""
        return "approximate" if self.limit is None else "exact"

    def at_look(self, look: int, more: bool) -> "Terms":
        """Return the terms of one of several looks at the test split.

        Where a run may continue after its end, look k has half of what is left of 1 - confidence, so that all looks
        together are wrong with a probability of at most 1 - confidence. A run that cannot has one look, and all of it.
        """
        wrong = max((1 - self.confidence) / 2**look, SMALLEST)
        return replace(self, confidence=1 - wrong) if more else self

    def room(self, spread: float, count: int, skewness: float = 0.0) -> float:
        """Return how far above the mean of `count` errors the upper end will be, for errors with this spread."""
        if self.limit is None:
            return _hall(spread, skewness, self.confidence, count)
        wealth = -math.log1p(-self.confidence)
        stake = min(_stake(self.confidence, spread, count), BOLDEST / self.limit)
        return min(wealth / (count * stake) + stake * spread**2 / 2, self.limit)

    def margin(self, spread: float, validation: int, test: int, errors: float = 1.0, skewness: float = 0.0) -> float:
        """Return how far below tau the error on the validation split should be, so that the test split keeps tau too.

        Arguments:
            spread: Standard deviation of one input's error.
            validation: Number of inputs in the validation split.
            test: Number of inputs in the test split.
            errors: Allowance for the difference of the two splits' means, in standard errors.
            skewness: Of one input's error.
        """
        return self.room(spread, test, skewness) + errors * spread * math.sqrt(1 / validation + 1 / test)

    def upper(self, errors: np.ndarray, spread: float | None = None) -> float:
        """Return the upper end of the mean error.

        Arguments:
            errors: The test inputs' errors, (inputs,).
            spread: Standard deviation of one input's error on other inputs, such as the validation split; it sets the
                stake of an exact bound, which must be fixed before these errors are seen.

        Raises:
            NarrowsError: The errors are not finite numbers; or the bound is exact, and an error is above the limit, or
                there is no spread.
        """
        errors, spread = _as_errors(errors), argument("spread", spread, FROM_ZERO, or_none=True)
        if self.limit is None:
            return float(errors.mean()) + _hall(_spread(errors), _skewness(errors), self.confidence, len(errors))
        if spread is None:
            raise NarrowsError("an exact upper end needs the spread of errors on other inputs, to fix its stake")
        if errors.max() > self.limit * (1 + ROUNDING):
            raise NarrowsError(
                f"an error of {errors.max():g} is above {self.limit:g}, which should be the largest possible; use "
                f"{setting('certificate', 'approximate')}"
            )
        return _bet(errors, self.limit, self.confidence, _stake(self.confidence, spread, len(errors)))

    def outlook(self, tau: float, count: int, unit: str = "input") -> str:
        """Return what can be expected before training: how far below tau the error on the test split must be."""
        if not self.is_possible(count):
            return f"none is possible with {count} test {unit}s; at least {FEWEST} are needed, a tenth of the data"
        if self.limit is not None:
            why = f"exact, as no error can be above {self.limit:g}"
        elif self.unused is None:
            why = "approximate, as errors have no limit"
        else:
            cost = Terms(self.confidence, self.unused).room(0.0, count) / tau
            why = f"approximate; an exact one would take {100 * cost:.2g}% of tau"
        share = self.room(TYPICAL * tau, count) / tau
        below = f"the error must be about {100 * share:.2g}% below tau" if share < 1 else "tau is out of reach"
        return f"{why}; with {count:,} test {unit}s and {certainty(self)} confidence, {below}"

    def is_possible(self, count: int) -> bool:
        """Return whether so many test inputs can keep a promise at all."""
        return self.limit is not None or count >= FEWEST

    def is_kept(self, measured: HeldOut, tau: float) -> bool:
        """Return whether the promise is kept on the inputs that were measured."""
        return measured.high <= tau and (self.is_possible(measured.count) or math.isinf(tau))


def certainty(claim: Terms | Certificate | None) -> str:
    """Return the confidence as texts write it: 95%, or about 95% where it is approximate."""
    if claim is None:
        return f"about {CONFIDENCE:.0%}"
    return f"{'about ' if claim.kind == 'approximate' else ''}{100 * claim.confidence:.6g}%"


def with_bound(held: HeldOut, claim: Certificate | None) -> str:
    """Format an error with its upper end and how certain that is."""
    return f"{held.error:.4g}, at most {held.high:.4g} with {certainty(claim)} confidence"


def choose_terms(
    wanted: Literal["auto", "exact", "approximate"], confidence: float, limit: float | None, tau: float, count: int
) -> Terms:
    """Return the terms: exact where that is wanted, or possible at a small cost.

    Arguments:
        wanted: The user's setting.
        confidence: The user's setting.
        limit: The largest error that an input can have; None without one.
        tau: The promise.
        count: Number of test inputs.

    Raises:
        NarrowsError: An exact certificate is wanted, and errors have no limit, or there are too few test inputs.
    """
    exact = Terms(confidence, limit)
    approximate = Terms(confidence, unused=limit)
    if wanted == "approximate" or (limit is None and wanted == "auto"):
        return approximate
    if limit is None:
        raise NarrowsError(
            f"{setting('certificate', 'exact')} needs errors with a limit: images of bytes or values in [0, 1], and "
            f"squared or absolute errors; use {setting('certificate', 'approximate')}"
        )
    cost = exact.room(0.0, count)
    if wanted == "auto":
        return exact if cost <= AFFORDABLE * tau else approximate
    if cost >= tau:
        raise NarrowsError(
            f"{setting('certificate', 'exact')} cannot be had: with {count:,} test inputs, whose errors can be as "
            f"large as {limit:g}, the upper end is at least {cost:.4g}, and tau is {tau:g}; use more data, or "
            f"{setting('certificate', 'approximate')}"
        )
    return exact


def forecast(errors: np.ndarray, errors_at_mean: np.ndarray, terms: Terms, test: int) -> HeldOut:
    """Return the mean error on the validation split, with the upper end that `test` other such inputs will have."""
    mean, spread = float(errors.mean()), _spread(errors)
    return HeldOut(
        mean, mean + terms.room(spread, test, _skewness(errors)), float(errors_at_mean.mean()), len(errors), spread
    )


def measure(errors: np.ndarray, errors_at_mean: np.ndarray, terms: Terms, spread: float | None = None) -> HeldOut:
    """Return the mean error and its upper end.

    Arguments:
        errors: Each input's error with a sampled z, (inputs,).
        errors_at_mean: Each input's error with z = mu, (inputs,).
        terms: How certain the upper end is.
        spread: The errors' standard deviation on other inputs; an exact bound needs it.
    """
    high = terms.upper(errors, spread)
    return HeldOut(float(errors.mean()), high, float(errors_at_mean.mean()), len(errors), _spread(errors))


def share_within(errors: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return a share of all inputs and an error that at least this share is within, with this confidence.

    The share is `SHARE`, or with too few inputs the largest for which the largest error says so.
    """
    from scipy.special import bdtr

    count = len(errors)
    enough = bdtr(np.arange(count), count, SHARE) >= confidence
    if not enough[-1]:
        return float((1 - confidence) ** (1 / count)), float(errors.max())
    return SHARE, float(np.partition(errors, place := int(enough.argmax()))[place])


def _as_errors(errors: Any) -> np.ndarray:
    """Return errors, an array, a tensor or a list, as an array; raise if they are not one or more finite numbers."""
    try:
        found = np.asarray(errors.detach().cpu() if hasattr(errors, "detach") else errors)
        usable = found.ndim == 1 and len(found) > 0 and found.dtype.kind in "fiub" and bool(np.isfinite(found).all())
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise NarrowsError(f"errors must be finite numbers, one or more, (inputs,); they are {brief(errors)}")
    return found


def _spread(errors: np.ndarray) -> float:
    return float(errors.std(ddof=1)) if len(errors) > 1 else 0.0


def _skewness(errors: np.ndarray) -> float:
    spread = float(errors.std())
    return float((((errors - errors.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0


def _student(confidence: float, count: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, confidence))


def _hall(spread: float, skewness: float, confidence: float, count: int) -> float:
    """Return how far above the mean the upper end is: Student's t, transformed by the skewness if it is positive."""
    if count < 2:
        return math.inf
    t, a = _student(confidence, count), max(0.0, skewness) / math.sqrt(count)
    w = 3 / a * (float(np.cbrt(1 - a * (t + a / 6))) - 1) if a > 1e-9 else -t
    return max(-w, t) * spread / math.sqrt(count)


def _stake(confidence: float, spread: float, count: int) -> float:
    """Return the stake at which the upper end is expected to be lowest: infinite for errors that do not vary."""
    return math.sqrt(-2 * math.log1p(-confidence) / count) / spread if spread > 0 else math.inf


def _bet(errors: np.ndarray, limit: float, confidence: float, stake: float) -> float:
    """Return the smallest mean against which the bet is won, by halving; the limit if it never is."""
    goal = -math.log1p(-confidence)

    def wins(m: float) -> bool:
        at_most = min(stake, BOLDEST / (limit - m))
        return float(np.log1p(at_most * (m - errors)).sum()) >= goal

    low, high = float(errors.mean()), limit
    for _ in range(100):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if wins(middle) else (middle, high)
    return high
