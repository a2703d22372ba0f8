"""The test at the end of a run: which of its candidates keep the promise on data that nothing has used before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from narrows.data.counting import PLAIN, Counting
from narrows.runs import certificate
from narrows.runs.certificate import Terms
from narrows.runs.records import Certificate, HeldOut, Refused, Unit
from narrows.training.selection import Candidate

Errors = Callable[[Candidate], tuple[np.ndarray, np.ndarray]]
"""Returns a candidate's error on each test input, with a sampled z and with z = mu."""


@dataclass(frozen=True)
class Verdict:
    """The model that a run ends with, and what is claimed about it."""

    candidate: Candidate
    heldout: HeldOut
    met: bool
    certificate: Certificate


def certify(
    candidates: Sequence[Candidate],
    errors: Errors,
    rows: int,
    tau: float,
    terms: Terms,
    look: int = 1,
    more: bool = False,
    counting: Counting = PLAIN,
) -> Verdict:
    """Test candidates from the safest on, until one fails; return the best that did not.

    If already the safest fails, nothing is certified, and it is what the run ends with; where no certificate is
    possible, the best one is.

    Arguments:
        candidates: At least one, the best first, each safer than those before it.
        errors: Measures a candidate on the test split.
        rows: Number of inputs in the test split.
        tau: The promise; infinite without one.
        terms: The terms of the certificate.
        look: Which look at the test split it is, from 1.
        more: Whether there may be more looks.
        counting: How the inputs of the test split count.
    """
    now, count = terms.at_look(look, more), counting.units(rows)
    kept: tuple[Candidate, HeldOut, np.ndarray] | None = None
    for candidate in reversed(candidates if now.is_possible(count) else candidates[:1]):
        sampled, at_mean = map(counting.independent, errors(candidate))
        measured = certificate.measure(sampled, at_mean, now, candidate.validation.spread)
        if not now.is_kept(measured, tau):
            refused = [Refused(len(candidate.kept), measured.error, measured.high)]
            break
        kept, refused = (candidate, measured, sampled), []
    met = kept is not None
    if kept is None:
        kept, refused = (candidate, measured, sampled), []
    share = share_error = None
    if counting.plain:  # the share is said of a model that the same inputs have chosen, from so many
        share, share_error = certificate.share_within(kept[2], 1 - (1 - now.confidence) / len(candidates))
    unit: Unit = "input" if counting.groups is None else "group"
    weighted = counting.weights is not None
    claim = Certificate(terms.kind, terms.confidence, terms.limit, look, share, share_error, refused, unit, weighted)
    return Verdict(kept[0], kept[1], met, claim)
