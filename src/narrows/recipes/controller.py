"""When gates close, when a closing is undone, when the multiplier is released, and when training ends: no tensors.

The paper lets the L0 term and the KL term compete for the slack under tau, and the KL term, which needs no luck, takes
it first. Here they take turns: first the smallest number of gates, then the smallest KL, under the same bound.

    fit      all gates are open and lambda is held             until the error is within its target
    close    the cheapest gates close and the error jumps      wait until it recovers; then close the next
    restore  the error will not recover within the patience    bring back the model from before the closing; release
    release  nothing more closes; KL takes the slack           until the error is at its target; then the rate falls
    end

The error here is the held-out error of the averaged weights as a share of its target (the largest share, if there are
several bounds), so "within" means at most 1. Costs of removal have the same unit. Nothing here knows the data, the
network or their units.

How long to wait. One more closing may take as many batches as the whole run so far, times `patience`, and at least
`least_patience`, times the same: so a run that came here quickly waits as long as one that came here slowly. A wait
ends early when it is hopeless: its errors, without the first quarter, are fitted by a straight line in log(batches),
and the line misses the target at the end of the patience.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

from narrows._util.checks import (
    COUNT,
    FLAG,
    FROM_ZERO,
    MEASURED,
    WHOLE,
    Rule,
    argument,
    indices_below,
    instance_of,
    one_of,
)
from narrows._util.schema import Each, Schema
from narrows.recipes.registry import Effort

Phase = Literal["fit", "closed", "restored", "release", "ended"]
Removal = Callable[[], Iterable[tuple[int, float]] | None]
"""Returns the open gates from the cheapest on, each with the cost of closing it together with all before it, as a share
of the target; None while costs are unknown."""

POINT = Rule(
    "a number of batches and an error",
    lambda value: isinstance(value, tuple) and len(value) == 2 and WHOLE.holds(value[0]) and MEASURED.holds(value[1]),
)
"""One measurement, as a checkpoint holds it."""

EFFORTS: dict[Effort, float] = {"quick": 0.2, "normal": 0.75, "thorough": 3.0}
"""The patience of each effort that a user can choose."""


@dataclass(frozen=True)
class ControllerConfig:
    """How patient the controller is. No value depends on the data.

    Raises:
        NarrowsError: A value is negative, or of another type.
    """

    pause: int = 50
    """Batches between a decision and the next."""
    patience: float = 0.75
    """How long a closing may take to pay off, as a share of the batches so far."""
    least_patience: int = 2_000
    """Lower limit of that, in batches at a patience of 1."""
    closes: bool = True
    """Whether gates close at all; otherwise the last phase follows the first fit."""
    at_once: float = 0.5
    """Share of the slack that the joint cost of gates which close together may use."""
    judge_from: int = 200
    """Batches before a wait can be judged hopeless."""
    fit_patience: int = 20_000
    """Forecast horizon of the first fit, in batches: this, or four times the batches so far if that is more. Without a
    bound, the length of training."""
    judge_fit_from: int = 2_000
    """Batches before the first fit can be judged hopeless, or without a bound, before it can have settled."""
    worth: float = 0.03
    """Without a bound, training continues while half as many batches again promise an error smaller by this share."""
    last: float = 0.1
    """Length of the last phase at most, as a share of the batches before it."""
    least_last: int = 1_200
    """Lower limit of the setting above, in batches."""
    reserved: float = 0.25
    """Where the number of batches is given: what is kept for the last phase, as a share of those before it."""
    falling: float = 2 / 3
    """Part of that length over which the learning rate falls, at the end of the last phase."""
    settle_from: int = 100
    """Batches before the last phase can have settled, so that the learning rate falls at once."""
    settled_within: float = 0.03
    """Distance of the error from its target at which it has settled."""

    def __post_init__(self) -> None:
        rules = {bool: FLAG, int: WHOLE, float: FROM_ZERO}
        for field in fields(self):
            value = argument(field.name, getattr(self, field.name), rules[field.type])  # type: ignore[index]
            object.__setattr__(self, field.name, value)


CONFIG = instance_of(ControllerConfig, "a ControllerConfig")


class Decision(NamedTuple):
    """What to do now, and with which gates."""

    action: Literal["close", "restore", "release", "end"]
    gates: list[int]

    @property
    def closes(self) -> bool:
        """Whether the present size has just been found to be enough, and is about to be left."""
        return self.action == "close"

    @property
    def settles(self) -> bool:
        """Whether the last phase begins."""
        return self.action == "release"

    @property
    def finds(self) -> bool:
        """Whether the size is found now: a smaller one has failed, or there is no time or nothing left to try."""
        return self.action in ("restore", "release")


class Controller:
    """Takes errors and costs and returns decisions. It is deterministic, and all of its state is in `state_dict`.

    Arguments:
        config: How patient it is.
        steps: Batches in all, at most; None for as many as it takes.
        bounded: Whether the error has a target; without one, training ends when the error stops falling.

    Raises:
        NarrowsError: An argument is of another type, or `steps` is below 1.
    """

    def __init__(self, config: ControllerConfig | None = None, steps: int | None = None, bounded: bool = True) -> None:
        self.config: ControllerConfig = argument("config", config, CONFIG, or_none=True) or ControllerConfig()
        self.bounded: bool = argument("bounded", bounded, FLAG)
        """Whether the error has a target."""
        self.steps: int | None = argument("steps", steps, COUNT, or_none=True)
        """Batches in all, at most; exactly so many where a bounded error leaves nothing to try."""
        self.phase: Phase = "fit"
        self.since = 0
        """Batches since the last decision."""
        self.step = 0
        self.seen: list[tuple[int, float]] = []
        """Measurements since the last decision, as (since, error)."""
        self.pending: list[int] = []
        """Gates that closed last and whose error has not recovered yet."""
        self.last_error = math.inf
        """The error when the last decision was made."""
        self.good_error = math.inf
        """The error before gates closed last."""
        self.limit = 0
        """Patience of the present wait, or length of the last phase, in batches."""
        self.falls_from = 0
        """Batches of the last phase before the learning rate falls."""

    def advance(self) -> None:
        """Count one more batch."""
        self.step += 1
        self.since += 1

    def observe(self, error: float) -> None:
        """Record one measurement of the error, as a share of its target."""
        self.seen.append((self.since, error))

    def error(self) -> float:
        """Return the mean error over the last quarter of the wait, but over 25 to 100 batches."""
        start = min(max(0.75 * self.since, self.since - 100), self.since - 25)
        recent = [error for since, error in self.seen[-200:] if since >= start]
        return math.fsum(recent) / len(recent) if recent else math.inf

    def correct(self, factor: float) -> None:
        """Take note that every measurement since the last decision should have been this much larger."""
        self.seen = [(since, factor * error) for since, error in self.seen]

    def fallen(self) -> float:
        """Return how much of the learning rate's fall is done, from 0 to 1."""
        if self.phase != "release":
            return 0.0
        return min(1.0, max(0, self.since - self.falls_from) / max(1, self.limit - self.falls_from))

    def is_within(self) -> bool:
        """Return whether the error is within its target, and has been measured for long enough to act on it."""
        return (
            self.bounded and self.phase in ("fit", "closed") and self.since >= self.config.pause and self.error() <= 1
        )

    def decide(self, removal: Removal) -> Decision | None:
        """Return what to do now, or None.

        Arguments:
            removal: What closing gates would cost; asked only when gates are about to close.
        """
        if self.phase == "ended":
            return None
        if self.phase == "release":
            return self._finish()
        if self.phase == "restored":
            return self._release()
        if self._out_of_time():
            return self._release() if self.is_within() else self._give_up()
        if self.is_within():
            return self._next(removal)
        if self._settled() if not self.bounded else self._hopeless():
            return self._give_up()
        return None

    def go_on(self, gates: list[int], good_error: float) -> None:
        """Begin with a closing that another run, under a smaller tau, has just given up.

        Arguments:
            gates: The gates that closed.
            good_error: The error before they did, as a share of the present target.
        """
        self.phase, self.pending, self.good_error, self.limit = "closed", gates, good_error, self._patience()

    def _patience(self) -> int:
        return round(self.config.patience * max(self.config.least_patience, self.step))

    def _next(self, removal: Removal) -> Decision | None:
        """Close the next gates: the error is within its target, so the last closing has paid off."""
        if not self.config.closes:
            return self._release()
        costs = removal()
        if costs is None:
            return None
        room = self.config.at_once * (1 - self.error())
        gates: list[int] = []
        for gate, cost in costs:
            if gates and cost > room:
                break
            gates.append(gate)
        if not gates:
            return self._release()
        self.pending, self.good_error = gates, self.error()
        self.limit = self._patience()
        return self._enter("closed", Decision("close", gates))

    def _give_up(self) -> Decision:
        """Undo the last closing and all training since; before the first one there is nothing to undo."""
        if self.phase == "fit":
            return self._release()
        return self._enter("restored", Decision("restore", self.pending))

    def _release(self) -> Decision:
        self.limit = max(self.config.least_last, round(self.config.last * self.step))
        if self.steps is not None:  # an upper limit; a plain VAE under a bound has nothing else that ends it
            rest = max(1, self.steps - self.step)
            self.limit = min(self.limit, rest) if self.config.closes or not self.bounded else rest
        self.falls_from = round((1 - self.config.falling) * self.limit)
        return self._enter("release", Decision("release", []))

    def _finish(self) -> Decision | None:
        """End the last phase when its length is over; let the rest of it begin as soon as the error has settled."""
        if self.since >= self.limit:
            return self._enter("ended", Decision("end", []))
        exact = self.steps is not None and not self.config.closes  # as many batches as were asked for
        may = self.bounded and not exact and self.config.settle_from <= self.since < self.falls_from
        if may and abs(self.error() - 1) <= self.config.settled_within:
            self.falls_from, self.limit = self.since, self.since + self.limit - self.falls_from
        return None

    def _enter(self, phase: Phase, decision: Decision) -> Decision:
        # Nothing has been measured yet when the last phase follows a restored model, whose error is known.
        self.last_error = self.error() if self.seen else self.good_error
        self.phase, self.since, self.seen = phase, 0, []
        return decision

    def _out_of_time(self) -> bool:
        """Return whether the last phase must begin now so that the run ends after `steps` batches."""
        return self.steps is not None and self.step >= self.steps / (1 + self.config.reserved)

    def _hopeless(self) -> bool:
        """Return whether even the forecast at the end of the patience misses the target."""
        if self.phase == "fit":
            if self.since < self.config.judge_fit_from:
                return False
            end = self.since + max(self.config.fit_patience, 4 * self.since)
        else:
            if self.since < self.config.judge_from:
                return False
            end = self.limit
        if self.since >= end:
            return True
        forecast = extrapolate(self._later(), end)
        return forecast is not None and forecast.value - 2 * forecast.deviation > 1

    def _settled(self) -> bool:
        """Return whether more training would gain too little."""
        if self.since < self.config.judge_fit_from:
            return False
        now, later = extrapolate(self._later(), self.since), extrapolate(self._later(), round(1.5 * self.since))
        gains = now is not None and later is not None and later.value < (1 - self.config.worth) * now.value
        return not gains or self.since >= self.config.fit_patience

    def _later(self) -> list[tuple[int, float]]:
        """Return the measurements after the first quarter of the wait, or the first half of the first fit."""
        start = self.since / (2 if self.phase == "fit" else 4)
        self.seen = [(since, error) for since, error in self.seen if since >= start]  # earlier ones are not used again
        return self.seen

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data for a checkpoint."""
        names = ("phase", "since", "step", "pending", "last_error", "good_error", "limit", "falls_from")
        return {**{name: getattr(self, name) for name in names}, "seen": list(self.seen)}

    def describe_state(self, n: int) -> Schema:
        """Return what `state_dict` must look like for n gates."""
        return {
            "phase": one_of(get_args(Phase)),
            "since": WHOLE,
            "step": WHOLE,
            "pending": indices_below(n),
            "last_error": MEASURED,
            "good_error": MEASURED,
            "limit": WHOLE,
            "falls_from": WHOLE,
            "seen": Each(POINT),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        for name, value in state.items():
            setattr(self, name, value)
        self.seen = [(since, error) for since, error in state["seen"]]


class Forecast(NamedTuple):
    """An extrapolated error and its standard error."""

    value: float
    deviation: float


def extrapolate(points: Sequence[tuple[int, float]], at: int) -> Forecast | None:
    """Fit error = a + b log(batches) by least squares and evaluate it at batch `at`; None with too few points."""
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
