"""7b. The fast recipe's decisions: when gates close and open again, when lambda is let go, when training ends.

The paper lets L0 and KL compete for the slack under tau, and KL, which needs no luck, takes it first. Here they
take turns: the smallest number of gates first, the smallest KL second, under the same bound.

    fit      all gates open, lambda held                        until the error is within the target
    close    the cheapest gates, the error jumps                wait for it to come back; then the next
    reopen   the error does not come back within the patience   the gates as they were; then try the next cheapest
    restore  not even then: training itself has spoilt it       all weights as before the closing; then release
    release  nothing more closes: lambda sinks, KL takes what is left of the slack, the learning rate runs out
    end

The error here is the held-out error of the averaged weights as a share of its target (the largest, if there are
several bounds): within means at most 1. Costs of removal are in the same unit. So nothing here knows a unit, a network
or a set.

How sure one must be. Waiting ends early when it is hopeless: the errors of the wait, without its first quarter, are
fitted by a straight line in log(batches) and extrapolated by the patience; real recoveries level off, so this is a
hopeful guess. If even two standard errors below it the target is not reached, the attempt is given up. So a closing
that is about to pay is waited for, and one that is not costs little.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, Literal, NamedTuple

from narrows.errors import NarrowsError

Phase = Literal["fit", "closed", "steady", "restored", "release", "ended"]


@dataclass(frozen=True)
class ClosingConfig:
    """How patient the fast recipe is. No value depends on the data."""

    pause: int = 50
    """Batches before a decision about what the last one did."""
    patience: float = 0.5
    """How far ahead the error must be seen to come back after a closing, as a share of the batches so far."""
    least_patience: int = 1_000
    """The same, at least, in batches."""
    tries: int = 2
    """Closings that may fail in a row before the size counts as found; 0: close none."""
    at_once: float = 0.5
    """Several gates close at once while their costs together are within this share of the slack."""
    judge_from: int = 400
    """Batches before a wait can be called hopeless; while fitting, two least patiences."""
    fit_patience: int = 20_000
    """With all gates open, in batches: the same, at least; else four times those so far. Without a bound: the end."""
    worth: float = 0.03
    """Without a bound: training goes on while one patience more promises an error smaller by this share."""
    last: float = 0.25
    """Length of the last phase as a share of the batches before it."""
    least_last: int = 1_500
    """The same, at least, in batches."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise NarrowsError(f"{field.name} must be at least 0; it is {getattr(self, field.name)}")


LONGEST = 3
"""Patiences that a wait for the error to come back may take in all, however good it looks."""


class Decision(NamedTuple):
    """What to do now, with which gates."""

    action: Literal["close", "reopen", "restore", "release", "end"]
    gates: list[int]


class Closing:
    """Takes errors and costs, gives decisions. Deterministic; all of its state is in `state_dict`."""

    def __init__(self, config: ClosingConfig | None = None, steps: int | None = None, bounded: bool = True) -> None:
        given: Any = steps
        if given is not None and (not isinstance(given, Integral) or int(given) < 1):
            raise NarrowsError(f"steps must be a whole number from 1 on, or None; it is {steps!r}")
        self.config = config or ClosingConfig()
        self.bounded = bounded
        """Whether there is a target; without one, training ends when the error no longer falls."""
        self.steps = steps
        """Batches in all, at most; None: as many as it takes. With no tries under a bound: exactly so many."""
        self.phase: Phase = "fit"
        self.since = 0
        """Batches since the last decision."""
        self.step = 0
        self.seen: list[tuple[int, float]] = []
        """(since, error) since the last decision."""
        self.pending: list[int] = []
        """Gates closed last, whose closing is not yet known to be good."""
        self.failed: list[int] = []
        """Gates whose closing failed with as many gates open as now."""
        self.failures = 0
        self.last_error = math.inf
        """The error when the last decision was taken."""
        self.limit = 0
        """The present wait's patience, or the length of the last phase, in batches."""

    def advance(self) -> None:
        """One more batch was trained."""
        self.step += 1
        self.since += 1

    def observe(self, error: float) -> None:
        """Take one measurement of the error, as a share of its target."""
        self.seen.append((self.since, error))

    def error(self) -> float:
        """Return the error now: the mean of the last quarter since the last decision, of 25 to 100 batches."""
        start = min(max(0.75 * self.since, self.since - 100), self.since - 25)
        recent = [error for since, error in self.seen[-200:] if since >= start]
        return math.fsum(recent) / len(recent) if recent else math.inf

    def progress(self) -> float:
        """Return how much of the last phase is done, from 0 to 1."""
        return min(1.0, self.since / self.limit) if self.phase == "release" else 0.0

    def decide(self, costs: Mapping[int, float]) -> Decision | None:
        """Return what to do now, if anything. `costs` has the cost of removal of every open gate."""
        if self.phase == "ended":
            return None
        if self.phase == "release":
            return self._enter("ended", Decision("end", [])) if self.since >= self.limit else None
        if self._out_of_time() or self.phase == "restored":
            if self.phase == "closed":
                return self._reopen()
            return self._release()
        if self.since < self.config.pause:
            return None
        if not self.bounded:
            return self._release() if self._settled() else None
        if self.error() <= 1:
            return self._next(costs)
        judged_from = 2 * self.config.least_patience if self.phase == "fit" else self.config.judge_from
        if self.since >= judged_from and self._hopeless():
            return self._give_up()
        return None

    def _next(self, costs: Mapping[int, float]) -> Decision | None:
        """The error is within: the last closing was good, and the next gates may go."""
        if self.phase == "closed":
            self.phase, self.failures, self.failed, self.pending = "steady", 0, [], []
        candidates = sorted((cost, gate) for gate, cost in costs.items() if gate not in self.failed)
        if not all(math.isfinite(cost) for cost, _ in candidates):
            return None  # not every gate has been tried yet
        if not candidates or self.failures >= self.config.tries:
            return self._release()
        room = self.config.at_once * (1 - self.error())
        gates, total = [candidates[0][1]], max(0.0, candidates[0][0])
        for cost, gate in candidates[1:]:
            total += max(0.0, cost)
            if total > room or self.failures:
                break
            gates.append(gate)
        self.pending = gates
        self.limit = max(self.config.least_patience, round(self.config.patience * self.step))
        return self._enter("closed", Decision("close", gates))

    def _give_up(self) -> Decision:
        """The error is out of sight: undo the closing; if it was undone already, all that was trained since."""
        if self.phase == "closed":
            return self._reopen()
        return self._release() if self.phase == "fit" else self._enter("restored", Decision("restore", []))

    def _reopen(self) -> Decision:
        gates, self.pending = self.pending, []
        if len(gates) == 1:
            self.failed = [*self.failed, *gates]
        self.failures += 1
        return self._enter("steady", Decision("reopen", gates))

    def _release(self) -> Decision:
        self.limit = max(self.config.least_last, round(self.config.last * self.step))
        if self.steps is not None:  # a limit; a plain VAE under a bound has nothing else to end it
            rest = max(1, self.steps - self.step)
            self.limit = min(self.limit, rest) if self.config.tries or not self.bounded else rest
        return self._enter("release", Decision("release", []))

    def _enter(self, phase: Phase, decision: Decision) -> Decision:
        self.last_error = self.error()
        self.phase, self.since, self.seen = phase, 0, []
        return decision

    def _out_of_time(self) -> bool:
        """Tell whether the last phase must begin now, for a run whose length was given."""
        return self.steps is not None and self.step >= self.steps / (1 + self.config.last)

    def _hopeless(self) -> bool:
        """Tell whether the target is out of sight, one patience ahead."""
        ahead = max(self.config.fit_patience, 4 * self.since) if self.phase == "fit" else self.limit
        if self.since >= LONGEST * ahead:  # never while fitting: the horizon moves on
            return True
        forecast = extrapolate(self._later(), self.since + ahead)
        return forecast is not None and forecast.value - 2 * forecast.deviation > 1

    def _settled(self) -> bool:
        """Tell whether training on would gain too little to wait for."""
        if self.since < self.config.least_patience:
            return False
        ahead = max(self.config.least_patience, round(self.config.patience * self.since))
        now, later = extrapolate(self._later(), self.since), extrapolate(self._later(), self.since + ahead)
        gains = now is not None and later is not None and later.value < (1 - self.config.worth) * now.value
        return not gains or self.since >= self.config.fit_patience

    def _later(self) -> list[tuple[int, float]]:
        """Return what was seen since a quarter of the wait, or half of the first fit, which falls steeply at first."""
        start = self.since / (2 if self.phase == "fit" else 4)
        self.seen = [(since, error) for since, error in self.seen if since >= start]  # the rest is not needed any more
        return self.seen

    def state_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        names = ("phase", "since", "step", "pending", "failed", "failures", "last_error", "limit")
        return {**{name: getattr(self, name) for name in names}, "seen": list(self.seen)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Undo `state_dict`."""
        for name, value in state.items():
            setattr(self, name, value)
        self.seen = [(since, error) for since, error in state["seen"]]


class Forecast(NamedTuple):
    """An extrapolated error and its standard error."""

    value: float
    deviation: float


def extrapolate(points: Sequence[tuple[int, float]], at: int) -> Forecast | None:
    """Fit error = a + b log(batches) by least squares and return what it says `at` a later time; None if it cannot."""
    usable = [(math.log(since), error) for since, error in points if since > 0]
    if len(usable) < 3:
        return None
    count = len(usable)
    centre = math.fsum(t for t, _ in usable) / count
    level = math.fsum(e for _, e in usable) / count
    spread = math.fsum((t - centre) ** 2 for t, _ in usable)
    if spread == 0:
        return None
    slope = math.fsum((t - centre) * (e - level) for t, e in usable) / spread
    noise = math.fsum((e - level - slope * (t - centre)) ** 2 for t, e in usable) / (count - 2)
    ahead = math.log(at) - centre
    return Forecast(level + slope * ahead, math.sqrt(noise * (1 / count + ahead**2 / spread)))
