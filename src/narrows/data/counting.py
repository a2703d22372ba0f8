"""How rows count: their weights, and which of them belong together.

Weights say that some rows stand for more of the population than others. Then the mean error is the weighted mean,

    mu = sum of w e / sum of w,

and what the certificate promises is the mean over the population that the weights describe.

Groups say that some rows are not independent: those of one subject, one plate, one video. A group stands as a whole on
one side of every split, or else the model has seen near-copies of what tests it. And the test split then holds as many
independent things as it has groups, not rows.

Both are one calculation. With W_g the sum of the weights of group g (every row is a group of its own where there are no
groups), the errors count as if each group had the one error

    e_g = mu + (sum over the group of w (e - mu)) / mean of W.

Their mean is mu, and their spread is that of the ratio estimator, by the delta method, with groups as its units
(Cochran, 1977, chapters 6 and 9). So an upper end for the mean of independent errors, computed from these, is one for
mu. Where all weights are equal and every row stands alone, they are the errors themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.text import brief

FEWEST_GROUPS = 5


@dataclass(frozen=True, eq=False)
class Counting:
    """How the rows of a set count, all of them or those of a split.

    Raises:
        NarrowsError: The weights are not numbers from 0 on, or the groups are not enough.
    """

    weights: np.ndarray | None = None
    """Float64, (rows,); None where all rows count the same."""
    groups: np.ndarray | None = None
    """The number of each row's group, int64, (rows,); None where every row stands alone."""

    @classmethod
    def of(
        cls,
        rows: int,
        weights: Any = None,
        groups: Any = None,
        names: tuple[str, str] = ("weights", "groups"),
        first: int = 0,
        least: int = FEWEST_GROUPS,
    ) -> "Counting":
        """Check what a user gave for `rows` rows.

        Arguments:
            rows: Number of rows.
            weights: Numbers from 0 on, (rows,).
            groups: Numbers or texts, (rows,).
            names: What the two are called in errors.
            first: The number of the first row in errors: 0 for arrays, 1 for the rows of files.
            least: How many weights must be above 0, at least.
        """
        return cls(
            None if weights is None else _checked_weights(weights, rows, names[0], first, least),
            None if groups is None else _numbered(groups, rows, names[1], first),
        )

    @property
    def plain(self) -> bool:
        """Whether all rows count the same and stand alone."""
        return self.weights is None and self.groups is None

    def at(self, index: np.ndarray) -> "Counting":
        """Return how the rows at `index` count."""
        return Counting(*(None if part is None else part[index] for part in (self.weights, self.groups)))

    def units(self, rows: int) -> int:
        """Return how many independent things these rows are: groups, or else rows; those of weight 0 do not count."""
        if self.groups is None:
            return rows if self.weights is None else int(np.count_nonzero(self.weights))
        return len(np.unique(self.groups if self.weights is None else self.groups[self.weights > 0]))

    def independent(self, errors: np.ndarray) -> np.ndarray:
        """Return the errors as if each group had one and all counted the same, see above: one for each of the `units`.

        The weights must not all be 0.
        """
        if self.plain:
            return errors
        weights, groups = self.weights, self.groups
        if weights is None:
            weights = np.ones(len(errors))
        elif not weights.all():
            counts = weights > 0
            weights, errors, groups = weights[counts], errors[counts], None if groups is None else groups[counts]
        mean = float((weights * errors).sum() / weights.sum())
        parts = weights * (errors - mean)
        if groups is None:
            return mean + parts / weights.mean()
        group = np.unique(groups, return_inverse=True)[1]
        return mean + np.bincount(group, parts) / np.bincount(group, weights).mean()

    def effective(self, errors: np.ndarray) -> float:
        """Return how many independent rows would know the mean of such errors as well as these rows do."""
        alike = self.independent(errors)
        spread = float(alike.var())
        if self.plain or spread == 0:
            return float(len(alike))
        weights = np.ones(len(errors)) if self.weights is None else self.weights
        of_one = float((weights * np.square(errors - alike.mean())).sum() / weights.sum())
        return min(max(len(alike) * of_one / spread, 1.0), float(len(errors)))


PLAIN = Counting()
"""All rows count the same and stand alone."""


def _checked_weights(weights: Any, rows: int, name: str, first: int, least: int) -> np.ndarray:
    try:
        found = np.asarray(weights, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise NarrowsError(f"{name} must be numbers, one per row; {_first_word(weights, first)}") from None
    if found.shape != (rows,):
        raise NarrowsError(f"{name} must have one number per row, ({rows},); it has the shape {found.shape}")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise NarrowsError(f"{name} must be finite numbers from 0 on; it is {found[at]:g} in row {first + at}")
    if (positive := np.count_nonzero(found)) < least:
        many = "one row" if least == 1 else f"{least} rows"
        raise NarrowsError(f"{name} must be above zero for {many} or more; {positive} are")
    return found


def _first_word(weights: Any, first: int) -> str:
    """Return which of the weights is no number."""
    for row, one in enumerate(weights if isinstance(weights, Sequence | np.ndarray) else ()):
        try:
            float(one)
        except (TypeError, ValueError, OverflowError):
            return f"it is {brief(one)} in row {first + row}"
    return f"they are {brief(weights)}"


def _numbered(groups: Any, rows: int, name: str, first: int) -> np.ndarray:
    """Return groups of any kind, numbers or texts, as numbers."""
    try:
        given = np.asarray(groups)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.shape != (rows,):
        raise NarrowsError(f"{name} must have one entry per row, ({rows},); it has the shape {given.shape}")
    absent = np.array([one is None or str(one) in ("nan", "NaT", "<NA>") for one in given.tolist()])
    if absent.any():
        raise NarrowsError(f"{name} must name a group for every row; row {first + int(absent.argmax())} has none")
    found, numbers = np.unique(given.astype(str) if given.dtype.kind == "O" else given, return_inverse=True)
    if len(found) < FEWEST_GROUPS:
        raise NarrowsError(
            f"{name} must name {FEWEST_GROUPS} groups or more, to train, validate and test on different ones; it names "
            f"{len(found)}"
        )
    return numbers.astype(np.int64)
