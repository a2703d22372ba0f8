"""How the error recovers after a closing, and which curve forecasts it: a line in log t, a power law or an exponential.

python studies/recoveries.py runs/thorough/* ...      folders of finished runs of the fast recipe; trains nothing

Every wait of at least 300 batches counts. The errors up to a half of it, without their first quarter, are fitted, and
the curve is compared with the error at its end. `missed` are waits that paid off although the forecast for the end of
the patience, two standard errors included, missed the target at some time after batch 200: a run that decides by this
curve would have given them up. `saved` are the batches that giving up failing waits at that time would have saved.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import RESULTS, Row, Table

from narrows.recipes.controller import EFFORTS, ControllerConfig
from narrows.runs.folder import RunFolder

SHORTEST, JUDGE_FROM, EVERY = 300, 200, 50


class Wait(NamedTuple):
    """One wait: errors as shares of the target by batches since the closing."""

    times: np.ndarray
    errors: np.ndarray
    paid_off: bool
    patience: float


Form = Callable[[np.ndarray], Iterator[np.ndarray]]
"""Yields the shapes of a curve, as functions of time up to a factor and a constant, for every parameter to be tried."""


def line(times: np.ndarray) -> Iterator[np.ndarray]:
    """a + b log t."""
    yield np.log(times)


def power(times: np.ndarray) -> Iterator[np.ndarray]:
    """a + b t^-p."""
    yield from (times**-p for p in np.linspace(0.1, 2, 20))


def exponential(times: np.ndarray) -> Iterator[np.ndarray]:
    """a + b exp(-t / T)."""
    yield from (np.exp(-times / scale) for scale in np.geomspace(50, 20_000, 25))


FORMS: dict[str, Form] = {"line in log t": line, "power law": power, "exponential": exponential}


def forecast(form: Form, times: np.ndarray, errors: np.ndarray, at: float) -> tuple[float, float]:
    """Fit by least squares over every shape of the form; return the value at a time and its standard error."""
    best = (math.inf, 0.0, 0.0)
    for shape in form(np.append(times, at)):
        design = np.stack([np.ones_like(times), shape[:-1]], 1)
        solution, *_ = np.linalg.lstsq(design, errors, rcond=None)
        rest = float(np.square(errors - design @ solution).sum())
        row = np.array([1.0, shape[-1]])
        leverage = float(row @ np.linalg.pinv(design.T @ design) @ row)
        deviation = math.sqrt(rest / max(1, len(times) - 2) * leverage)
        best = min(best, (rest, float(row @ solution), deviation))
    return best[1:]


def waits(folder: RunFolder) -> Iterator[Wait]:
    """Yield a run's waits; the target is the error at the closing over its share of the target."""
    config = folder.read_config()
    patience = EFFORTS[config["effort"]]
    rows = [row for row in folder.read_rows() if math.isfinite(row.watched)]
    decisions = folder.read_decisions()
    for closing, following in itertools.pairwise(decisions):
        before = [row.watched for row in rows if closing.step - EVERY < row.step <= closing.step]
        here = [row for row in rows if closing.step < row.step <= following.step]
        if closing.action != "close" or not before or following.step - closing.step < SHORTEST:
            continue
        times = np.array([row.step - closing.step for row in here], dtype=float)
        errors = np.array([row.watched for row in here]) * closing.error / before[-1]
        limit = patience * max(ControllerConfig.least_patience, closing.step)
        yield Wait(times, errors, following.action == "close", limit)


def fitted(form: Form, wait: Wait, now: float, at: float) -> tuple[float, float] | None:
    """Forecast from what is known at a time, or None if that is too little."""
    use = (wait.times <= now) & (wait.times >= now / 4)
    return forecast(form, wait.times[use], wait.errors[use], at) if use.sum() >= 4 else None


def judge(form: Form, found: list[Wait]) -> Row:
    """Return the row of one form."""
    misses, given_up, saved = [], 0, 0.0
    for wait in found:
        half = fitted(form, wait, wait.times[-1] / 2, wait.times[-1])
        if half is not None:
            misses.append(half[0] - wait.errors[-1])
        for now in wait.times[(wait.times >= JUDGE_FROM) & (wait.times < wait.times[-1])]:
            later = fitted(form, wait, now, wait.patience)
            if later is not None and later[0] - 2 * later[1] > 1:
                given_up += wait.paid_off
                saved += 0 if wait.paid_off else wait.times[-1] - now
                break
    return {
        "waits": len(found),
        "paid_off": sum(wait.paid_off for wait in found),
        "bias": f"{np.mean(misses):+.4f}",
        "rms": f"{np.sqrt(np.mean(np.square(misses))):.4f}",
        "missed": given_up,
        "saved": round(saved),
    }


def main() -> None:
    """Read the runs and write the table."""
    folders = [RunFolder(path) for path in sys.argv[1:] if (Path(path) / "decisions.csv").exists()]
    found = [wait for folder in folders for wait in waits(folder)]
    if not found:
        sys.exit("usage: python studies/recoveries.py RUN ... (folders of finished runs of the fast recipe)")
    (RESULTS / "recoveries.csv").unlink(missing_ok=True)
    table = Table("recoveries")
    for name, form in FORMS.items():
        table.run(lambda form=form: judge(form, found), form=name)  # type: ignore[misc]


if __name__ == "__main__":
    main()
