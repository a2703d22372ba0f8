"""The fast recipe's decisions, on error curves made by hand: nothing here is trained."""

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import get_args

import pytest

from narrows.recipes.controller import EFFORTS, Controller, ControllerConfig, Decision, extrapolate
from narrows.recipes.registry import Effort

MEASURE_EVERY, DECIDE_EVERY = 4, 10
CONFIG = ControllerConfig(
    pause=50,
    patience=0.5,
    least_patience=2_000,
    at_once=0.5,
    judge_from=400,
    fit_patience=20_000,
    judge_fit_from=1_000,
    worth=0.02,
    last=0.3,
    least_last=1_000,
    reserved=0.3,
    falling=0.4,
    settle_from=150,
    settled_within=0.03,
)
"""Written out, so that the laws are tested and not the values of the day."""
ONE_BY_ONE = replace(CONFIG, at_once=0.0)
Curve = Callable[[int, int], float]


class World:
    """Stands for a network: each open gate has a cost of removal; a closed one costs what training cannot win back.

    Costs of several gates add up. After a closing the error is `jump * t^-1/2` above where it will settle, t batches
    later.
    """

    def __init__(self, costs, lasting=None, base=0.5, jump=0.0, noise=0.0, seed=0):
        self.costs, self.lasting = dict(costs), dict(lasting or {})
        self.base, self.jump, self.noise = base, jump, noise
        self.random = random.Random(seed)
        self.open = set(costs)
        self.measured: list[int] = []
        """Gates whose removal was measured, in order."""

    def error(self, step: int, since: int) -> float:
        settled = self.base + sum(self.lasting.get(gate, 0.0) for gate in self.costs if gate not in self.open)
        return settled + self.jump * since**-0.5 + self.random.gauss(0, self.noise)

    def removal(self) -> Iterator[tuple[int, float]] | None:
        if any(math.isinf(self.costs[gate]) for gate in self.open):
            return None
        return self._joint_costs()

    def _joint_costs(self) -> Iterator[tuple[int, float]]:
        total = 0.0
        for cost, gate in sorted((self.costs[gate], gate) for gate in self.open):
            total += cost
            self.measured.append(gate)
            yield gate, total

    def act(self, decision: Decision) -> None:
        if decision.action == "close":
            self.open -= set(decision.gates)
        elif decision.action == "restore":
            self.open |= set(decision.gates)


class Taken(tuple):
    """One decision: its batch, the batches since the one before it, action, gates."""

    step = property(lambda self: self[0])
    since = property(lambda self: self[1])
    action = property(lambda self: self[2])
    gates = property(lambda self: self[3])


def play(closing, world, curve: Curve | None = None, batches=100_000, every=DECIDE_EVERY, until=None) -> list[Taken]:
    """Train in name only until it ends, until an action, or for that many batches; return the decisions."""
    taken = []
    for _ in range(batches):
        closing.advance()
        if closing.step % MEASURE_EVERY == 0:
            closing.observe((curve or world.error)(closing.step, closing.since))
        if closing.step % every:
            continue
        since = closing.since
        decision = closing.decide(world.removal)
        if decision is None:
            continue
        world.act(decision)
        taken.append(Taken((closing.step, since, decision.action, decision.gates)))
        if closing.phase == "ended" or decision.action == until:
            break
    return taken


def fitted_after(batches: int, level: float = 0.5) -> Curve:
    """An error that falls along a line in log time, in sight of the target, and is well within after so many."""
    return lambda step, since: level if step >= batches else 1.01 + 0.1 * math.log(batches / step)


def crossing(batches: float, slope: float) -> Curve:
    """A recovery along a + b log(t) that meets the target after so many batches."""
    return lambda step, since: 1 + slope * math.log(batches / since)


def hopeful(step: int, since: int) -> float:
    """Just above the target, with so much noise that two standard errors below any forecast it is met."""
    return 1.3 if since < 200 else 1.05 + (0.3 if step % 8 else -0.3)


def actions(taken: list[Taken]) -> list[tuple[str, list[int]]]:
    return [(t.action, t.gates) for t in taken]


def closed_after(batches: int, config: ControllerConfig = ONE_BY_ONE, **world) -> tuple[Controller, World]:
    """A controller that has just closed the cheaper one of two gates, after a fit of so many batches."""
    closing, there = Controller(config), World({0: 0.1, 1: 0.2}, **world)
    assert actions(play(closing, there, fitted_after(batches), until="close")) == [("close", [0])]
    return closing, there


# Closing


def test_the_cheapest_gate_closes_first_and_then_the_next():
    """... and when none is left, the last phase begins."""
    taken = play(Controller(ONE_BY_ONE), World({0: 0.3, 1: 0.1, 2: 0.2}))
    assert actions(taken) == [("close", [1]), ("close", [2]), ("close", [0]), ("release", []), ("end", [])]


def test_the_costs_of_now_count_and_not_those_of_the_first_closing():
    world = World({0: 0.3, 1: 0.1, 2: 0.2})
    closing = Controller(ONE_BY_ONE)
    play(closing, world, until="close")
    world.costs = {0: 0.1, 1: 0.0, 2: 0.2}
    assert play(closing, world, until="close")[-1].gates == [0]


@pytest.mark.parametrize(
    ("error", "at_once", "together"),
    [
        (0.6, 0.5, [2, 0, 1]),  # 0.04 + 0.05 + 0.1 <= 0.5 * 0.4
        (0.65, 0.5, [2, 0]),  # 0.19 > 0.175
        (0.8, 0.5, [2, 0]),  # 0.09 <= 0.1
        (0.9, 0.5, [2]),  # 0.09 > 0.05
        (0.9, 2.0, [2, 0, 1]),  # 0.19 <= 0.2
        (0.999, 0.5, [2]),  # one may close however little slack there is
    ],
)
def test_several_close_at_once_while_their_joint_cost_fits_the_slack(error, at_once, together):
    world = World({0: 0.05, 1: 0.1, 2: 0.04, 3: 0.3})
    taken = play(Controller(replace(CONFIG, at_once=at_once)), world, lambda *_: error, until="close")
    assert taken[-1].gates == together


def test_joint_costs_are_taken_as_they_are_up_to_the_first_that_is_too_large():
    """They are measured, not summed: one may be negative, and they need not rise."""
    closing = Controller(CONFIG)
    for _ in range(60):
        closing.advance()
        closing.observe(0.5)
    joint = [(4, -0.1), (2, 0.2), (0, 0.15), (1, 0.3), (3, 0.1)]
    assert closing.decide(lambda: joint) == Decision("close", [4, 2, 0])


def test_no_more_joint_costs_are_measured_than_the_decision_needs():
    """Each takes a pass through the decoder."""
    world = World({gate: 0.06 * (1 + gate) for gate in range(8)})
    assert play(Controller(CONFIG), world, lambda *_: 1.1, batches=900) == []
    assert world.measured == []
    assert play(Controller(CONFIG), world, lambda *_: 0.5, until="close")[-1].gates == [0, 1]
    assert world.measured == [0, 1, 2], "up to the first that no longer fits"


@pytest.mark.parametrize("pause", [10, 50, 130])
def test_nothing_is_decided_before_the_pause_is_over(pause):
    taken = play(Controller(replace(CONFIG, pause=pause, at_once=0.0)), World({0: 0.1, 1: 0.2}), every=1)
    assert [t.since for t in taken[:3]] == [pause] * 3


def test_nothing_closes_before_costs_are_known():
    world = World({0: 0.1, 1: math.inf, 2: 0.2})
    closing = Controller(ONE_BY_ONE)
    assert play(closing, world, batches=400) == []
    world.costs[1] = 0.05
    assert actions(play(closing, world, batches=10)) == [("close", [1])]


def test_where_gates_may_not_close_the_last_phase_follows_the_first_fit():
    world = World({0: 0.0, 1: 0.0})
    taken = play(Controller(replace(CONFIG, closes=False)), world, fitted_after(500))
    assert actions(taken) == [("release", []), ("end", [])]
    assert 500 <= taken[0].step <= 600
    assert world.measured == []


def test_the_error_of_the_last_decision_is_remembered():
    closing = Controller(CONFIG)
    play(closing, World({0: 0.1}), lambda *_: 0.75, until="close")
    assert closing.last_error == 0.75


def test_a_restored_model_has_the_error_from_before_the_closing_until_it_is_measured():
    closing, world = Controller(ONE_BY_ONE), World({0: 0.1, 1: 0.2}, {0: 5.0})
    play(closing, world, until="restore")
    assert closing.last_error > 5
    closing.advance()
    assert closing.decide(world.removal).action == "release"
    assert closing.last_error == pytest.approx(0.5)


# How sure one must be


def test_one_lucky_measurement_is_not_within():
    """The error is the mean of the last quarter: 0.9 once among 1.1 is not enough, however often one looks."""
    lucky = play(Controller(CONFIG), World({0: 0.1}), lambda step, since: 0.9 if step % 40 == 0 else 1.1, batches=400)
    assert lucky == []
    unlucky = play(Controller(CONFIG), World({0: 0.1}), lambda step, since: 1.1 if step % 40 == 0 else 0.9, batches=400)
    assert unlucky[0].action == "close"


@pytest.mark.parametrize(("since", "first"), [(10, 1), (40, 15), (100, 75), (200, 150), (400, 300), (1_000, 900)])
def test_the_error_now_is_the_mean_of_the_last_quarter_but_of_25_to_100_batches(since, first):
    closing = Controller(CONFIG)
    assert closing.error() == math.inf
    for now in range(1, since + 1):
        closing.advance()
        closing.observe(float(now))
    assert closing.error() == pytest.approx((first + since) / 2)


def test_errors_from_before_a_closing_do_not_count_after_it():
    closing = Controller(ONE_BY_ONE)
    world = World({0: 0.1, 1: 0.2})
    play(closing, world, lambda *_: 0.01, until="close")
    assert closing.error() == math.inf
    assert play(closing, world, lambda *_: 1.05, batches=300) == []


def test_within_means_a_bounded_error_of_at_most_1_after_the_pause_while_gates_may_close():
    for level, bounded, phase, batches, within in [
        (1.0, True, "fit", 50, True),
        (1.0, True, "closed", 50, True),
        (1.0, True, "closed", 49, False),
        (1.001, True, "closed", 50, False),
        (0.5, True, "release", 50, False),
        (0.5, True, "restored", 50, False),
        (0.5, True, "ended", 50, False),
        (0.5, False, "fit", 50, False),
    ]:
        closing = Controller(CONFIG, bounded=bounded)
        closing.phase = phase
        for _ in range(batches):
            closing.advance()
            closing.observe(level)
        assert closing.is_within() is within, (level, bounded, phase, batches)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_correction_scales_what_was_seen_and_nothing_that_follows(factor):
    """Measuring e and finding it too small is the same as measuring factor * e from the start."""
    early, late = Controller(CONFIG), Controller(CONFIG)
    for _ in range(300):
        for closing, scale in ((early, factor), (late, 1.0)):
            closing.advance()
            closing.observe(scale * (1.2 - 0.001 * closing.since))
    before = late.error()
    late.correct(factor)
    assert late.error() == pytest.approx(factor * before)
    assert late.seen == early.seen
    late.observe(3.0)
    assert late.seen[-1] == (300, 3.0)


def test_an_error_that_is_corrected_to_be_outside_is_not_acted_on():
    closing, world = Controller(CONFIG), World({0: 0.1})
    for _ in range(60):
        closing.advance()
        closing.observe(0.9)
    assert closing.is_within()
    closing.correct(1.2)
    assert closing.decide(world.removal) is None
    assert world.measured == []
    closing.correct(0.9)
    assert closing.decide(world.removal) == Decision("close", [0])


# How long to wait


def test_a_closing_whose_error_comes_back_is_waited_for():
    """0.9 + 6 t^-1/2 is within after 3,600 batches; each forecast, within a patience of 4,000, sees it coming."""
    closing, world = closed_after(8_000, base=0.9)
    world.jump = 6.0
    after = play(closing, world, until="close")
    assert actions(after) == [("close", [1])]
    assert 3_600 <= after[-1].since <= 3_800


def test_a_closing_whose_error_does_not_come_back_is_given_up_soon():
    """It settles at 1.5: that is plain long before the patience of 1,000 batches is over."""
    world = World({0: 0.1, 1: 0.2, 2: 0.01, 3: 0.02}, {2: 0.5, 3: 0.5}, jump=2.0, noise=0.01)
    closing = Controller(CONFIG)
    closed = play(closing, world, until="close")[-1].gates
    assert closed == [2, 3]
    back = play(closing, world, until="restore")[-1]
    assert back.gates == closed
    assert world.open == {0, 1, 2, 3}
    assert CONFIG.judge_from <= back.since < closing.limit


@pytest.mark.parametrize("slope", [0.001, 0.05, 0.4])
@pytest.mark.parametrize(("before", "limit"), [(60, 1_000), (6_000, 3_000)])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_recovery_that_crosses_inside_the_patience_is_never_given_up(slope, before, limit, share):
    """Along a + b log(t), as real ones: then the next gate closes, some 50 batches later, for the error is a mean."""
    closing, world = closed_after(before)
    assert closing.limit == pytest.approx(limit, rel=0.02)
    met = share * closing.limit
    after = play(closing, world, crossing(met, slope), until="close")
    assert actions(after) == [("close", [1])]
    assert met <= after[0].since <= met + 70


@pytest.mark.parametrize("slope", [0.001, 0.05, 0.4])
@pytest.mark.parametrize("before", [60, 6_000])
@pytest.mark.parametrize("share", [1.01, 2.0, 100.0])
def test_a_recovery_that_crosses_later_is_given_up_as_soon_as_it_can_be_judged(slope, before, share):
    closing, world = closed_after(before)
    taken = play(closing, world, crossing(share * closing.limit, slope), until="restore")
    assert actions(taken) == [("restore", [0])]
    assert CONFIG.judge_from <= taken[0].since < CONFIG.judge_from + DECIDE_EVERY


def test_an_error_that_rises_is_given_up_as_soon_as_it_can_be_judged():
    for judge_from in (100, 400, 700):
        closing, world = closed_after(60, replace(ONE_BY_ONE, judge_from=judge_from))
        taken = play(closing, world, lambda step, since: 1.1 + since / 10_000, until="restore")
        assert taken[0].since == judge_from


def test_a_closing_that_always_looks_hopeful_is_given_up_when_the_patience_is_over():
    closing, world = closed_after(60)
    assert closing.limit == 1_000
    taken = play(closing, world, hopeful, until="restore")
    assert actions(taken) == [("restore", [0])]
    assert taken[0].since == 1_000


@pytest.mark.parametrize(
    ("patience", "before", "limit"),
    [(0.5, 60, 1_000), (0.5, 1_900, 1_000), (0.5, 5_000, 2_500), (1.5, 60, 3_000), (1.5, 5_000, 7_500)],
)
def test_the_patience_grows_with_the_batches_so_far_but_a_fast_start_waits_as_long_as_a_slow_one(
    patience, before, limit
):
    closing, _ = closed_after(before, replace(ONE_BY_ONE, patience=patience))
    assert closing.limit == pytest.approx(limit, rel=0.02)
    if before < CONFIG.least_patience:
        assert closing.limit == limit


def test_efforts_differ_in_patience_alone():
    assert list(EFFORTS) == list(get_args(Effort))
    assert EFFORTS["quick"] < EFFORTS["normal"] < EFFORTS["thorough"]
    assert EFFORTS["normal"] == ControllerConfig().patience


# Failures


def test_a_closing_that_fails_is_undone_and_the_last_phase_begins():
    """Gate 0 can be spared and 1 cannot; 2, which could be, is not tried."""
    world = World({0: 0.1, 1: 0.2, 2: 0.3}, {1: 5.0})
    taken = play(Controller(ONE_BY_ONE), world)
    assert actions(taken) == [("close", [0]), ("close", [1]), ("restore", [1]), ("release", []), ("end", [])]
    assert world.open == {1, 2}
    assert taken[3].since == DECIDE_EVERY, "without another look at how it goes"


def test_several_gates_that_fail_together_come_back_together():
    world = World({0: 0.01, 1: 0.02, 2: 0.4, 3: 0.4}, {1: 5.0})
    taken = play(Controller(CONFIG), world)
    assert actions(taken)[:3] == [("close", [0, 1]), ("restore", [0, 1]), ("release", [])]
    assert world.open == {0, 1, 2, 3}


def test_a_closing_that_is_known_to_be_good_is_still_undone_if_the_error_leaves_its_target():
    """The error is within, but costs are not known yet; then it rises and stays."""
    closing, world = closed_after(60)
    world.costs[1] = math.inf
    assert play(closing, world, batches=100) == []
    taken = play(closing, world, lambda *_: 1.5, until="restore")
    assert actions(taken) == [("restore", [0])]
    assert world.open == {0, 1}


@pytest.mark.parametrize("seed", range(20))
def test_in_any_world_gates_close_until_one_closing_is_undone_or_none_is_left(seed):
    world = random_world(seed)
    taken = play(Controller(CONFIG), world)
    *closings, last_but_one, _, _ = [t.action for t in taken]
    assert [t.action for t in taken[-2:]] == ["release", "end"]
    assert set(closings) <= {"close"}
    assert last_but_one in ("close", "restore")
    if last_but_one == "restore":
        assert taken[-3].gates == taken[-4].gates
    closed = [gate for t in taken if t.action == "close" for gate in t.gates]
    undone = [gate for t in taken if t.action == "restore" for gate in t.gates]
    assert len(set(closed)) == len(closed)
    assert world.open == set(range(6)) - set(closed) | set(undone)
    assert world.open or last_but_one == "close"


# The fit


def test_a_target_out_of_reach_is_given_up_without_closing_anything():
    closing = Controller(CONFIG)
    world = World({0: 0.0, 1: 0.0}, base=1.5, jump=3.0, noise=0.01)
    taken = play(closing, world)
    assert actions(taken) == [("release", []), ("end", [])]
    assert CONFIG.judge_fit_from <= taken[0].step < CONFIG.fit_patience


@pytest.mark.parametrize(("fit_patience", "met"), [(20_000, 6_000), (20_000, 20_000), (1, 4_800)])
def test_a_slow_fit_is_waited_for(fit_patience, met):
    """It is in sight within the patience, or else within four times the batches so far: from 1,000 on, until 5,000."""
    closing = Controller(replace(CONFIG, fit_patience=fit_patience))
    taken = play(closing, World({0: 0.1}), crossing(met, 0.1), until="close")
    assert actions(taken) == [("close", [0])]
    assert met <= taken[0].step <= met + 100


@pytest.mark.parametrize(("fit_patience", "met"), [(20_000, 21_100), (1, 5_100)])
def test_a_fit_that_is_not_in_sight_is_given_up_as_soon_as_it_can_be_judged(fit_patience, met):
    closing = Controller(replace(CONFIG, fit_patience=fit_patience))
    taken = play(closing, World({0: 0.1}), crossing(met, 0.1), until="release")
    assert [(t.step, t.action) for t in taken] == [(CONFIG.judge_fit_from, "release")]


# A closing that a smaller tau gave up


def test_a_closing_that_a_larger_tau_allows_is_kept_without_closing_it_again():
    world = World({0: 0.1, 1: 0.2, 2: 0.3}, base=0.7)
    world.open = {1, 2}
    closing = Controller(ONE_BY_ONE)
    closing.go_on([0], 0.6)
    assert actions(play(closing, world, until="close")) == [("close", [1])]


def test_a_closing_that_no_tau_allows_is_undone_with_the_error_before_it():
    world = World({0: 0.1, 1: 0.2}, lasting={0: 5.0})
    world.open = {1}
    closing = Controller(ONE_BY_ONE)
    closing.go_on([0], 0.6)
    assert closing.limit == 1_000
    taken = play(closing, world, until="release")
    assert actions(taken) == [("restore", [0]), ("release", [])]
    assert closing.good_error == 0.6
    assert taken[0].since == CONFIG.judge_from


# The last phase


@pytest.mark.parametrize(("fit", "length"), [(100, 1_000), (5_000, 1_500)])
def test_the_last_phase_is_a_share_of_what_came_before_and_then_it_ends(fit, length):
    closing = Controller(replace(CONFIG, closes=False))
    world = World({0: 0.1})
    released = play(closing, world, fitted_after(fit), until="release")[-1]
    assert closing.limit == max(1_000, round(0.3 * released.step)) == pytest.approx(length, rel=0.02)
    assert closing.fallen() == 0
    play(closing, world, batches=round(0.6 * closing.limit), every=1)
    assert closing.fallen() == 0
    play(closing, world, batches=round(0.1 * closing.limit), every=1)
    assert closing.fallen() == pytest.approx(0.25, abs=1e-3)
    ended = play(closing, world, every=1)
    assert actions(ended) == [("end", [])]
    assert ended[0].step == released.step + closing.limit


@pytest.mark.parametrize("error", [0.98, 1.0, 1.02])
@pytest.mark.parametrize("settles", [0, 300, 550])
def test_the_learning_rate_falls_as_soon_as_the_error_is_at_its_target(error, settles):
    closing = Controller(replace(CONFIG, closes=False))
    world = World({0: 0.1})
    play(closing, world, until="release")
    length = closing.limit
    taken = play(closing, world, lambda _, since: 0.5 if since < settles else error, every=1)
    assert actions(taken) == [("end", [])]
    settled = max(settles, CONFIG.settle_from)
    assert settled <= closing.falls_from <= settled + 0.34 * settles + MEASURE_EVERY, "25 to 100 batches are averaged"
    assert closing.limit == closing.falls_from + round(0.4 * length)


def test_a_plain_vae_with_a_given_number_of_batches_uses_all_of_them():
    closing = Controller(replace(CONFIG, closes=False), steps=3_000)
    assert play(closing, World({0: 0.1}), lambda *_: 1.0, every=1)[-1].step == 3_000


def test_nothing_follows_the_end():
    closing = Controller(CONFIG)
    world = World({0: 0.1, 1: 0.2})
    assert play(closing, world)[-1].action == "end"
    world.open = {0, 1}
    assert play(closing, world, batches=20_000) == []
    assert closing.phase == "ended"


def test_in_the_last_phase_no_error_matters():
    closing = Controller(replace(CONFIG, closes=False))
    world = World({0: 0.1})
    play(closing, world, until="release")
    assert actions(play(closing, world, lambda *_: 100.0)) == [("end", [])]


# A run whose length was given


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_is_kept_and_leaves_time_for_the_last_phase(seed):
    chance = random.Random(seed)
    steps = chance.randrange(500, 9_000)
    closing = Controller(CONFIG, steps=steps)
    world = random_world(seed)
    taken = play(closing, world, every=1)
    release = next(t for t in taken if t.action == "release")
    assert release.step <= math.ceil(steps / 1.3) + 1  # one more if a closing had to be undone first
    assert [t.action for t in taken].count("release") == 1
    length = min(steps - release.step, max(CONFIG.least_last, round(CONFIG.last * release.step)))
    assert taken[-1].action == "end"
    assert release.step + 0.4 * length <= taken[-1].step <= release.step + length


def test_out_of_time_a_closing_that_has_paid_off_is_kept():
    closing = Controller(ONE_BY_ONE, steps=1_300)
    for error, action in ((0.9, "release"), (1.1, "restore")):
        closing.phase, closing.step, closing.since, closing.seen = "closed", 1_000, 60, [(40, error), (60, error)]
        assert closing.decide(World({0: 0.1}).removal).action == action


def test_out_of_time_the_closing_in_question_is_undone_before_lambda_is_let_go():
    world = World({0: 0.1, 1: 0.2})
    closing = Controller(ONE_BY_ONE, steps=1_300)
    play(closing, world, until="close")
    taken = play(closing, world, hopeful)
    assert [(t.step, t.action, t.gates) for t in taken] == [
        (1_000, "restore", [0]),
        (1_010, "release", []),
        (1_300, "end", []),
    ]
    assert world.open == {0, 1}


def test_a_size_found_early_ends_before_the_limit():
    taken = play(Controller(ONE_BY_ONE, steps=50_000), World({0: 0.1}))
    assert actions(taken) == [("close", [0]), ("release", []), ("end", [])]
    assert taken[-1].since == CONFIG.least_last


def test_a_plain_vae_under_a_bound_takes_exactly_so_many():
    closing = Controller(replace(CONFIG, closes=False), steps=4_000)
    taken = play(closing, World({0: 0.1}))
    assert [(t.step, t.action) for t in taken] == [(50, "release"), (4_000, "end")]


# Without a bound


def test_without_a_bound_nothing_closes_and_training_ends_when_the_error_has_settled():
    taken = play(Controller(CONFIG, bounded=False), World({0: 0.0, 1: 0.0}, base=3.0, noise=0.01))
    assert actions(taken) == [("release", []), ("end", [])]
    assert taken[0].step == CONFIG.judge_fit_from


@pytest.mark.parametrize(("worth", "goes_on"), [(0.01, True), (0.03, False)])
def test_without_a_bound_training_goes_on_while_half_as_much_again_is_worth_it(worth, goes_on):
    """t^-0.03 falls by 1.2% with half as many batches again, at any time."""
    closing = Controller(replace(CONFIG, worth=worth), bounded=False)
    taken = play(closing, World({0: 0.0}), lambda step, since: since**-0.03, batches=4_000)
    assert (taken == []) == goes_on


@pytest.mark.parametrize("patience", [0.5, 1.5])
def test_without_a_bound_even_an_error_that_falls_for_ever_comes_to_an_end(patience):
    closing = Controller(replace(CONFIG, fit_patience=3_000, patience=patience), bounded=False)
    taken = play(closing, World({0: 0.0}), lambda step, since: since**-0.5, batches=6_000, until="release")
    assert [(t.step, t.action) for t in taken] == [(3_000, "release")]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_without_a_bound_the_unit_of_the_error_does_not_matter(unit):
    def decisions(unit):
        world = random_world(3)
        return play(Controller(CONFIG, bounded=False), world, lambda step, since: unit * (1 + 3 * step**-0.5))

    assert decisions(unit) == decisions(1.0)
    assert 1_000 < decisions(1.0)[0].step < 4_000


# Checkpoints


def random_world(seed: int) -> World:
    chance = random.Random(1_000 + seed)
    costs = {gate: chance.uniform(-0.01, 0.3) for gate in range(6)}
    lasting = {gate: chance.choice([0.0, 0.0, 0.02, 0.2, 1.0]) for gate in range(6)}
    return World(costs, lasting, base=0.7, jump=chance.uniform(1, 8), noise=0.03, seed=seed)


def test_random_runs_pass_through_every_phase():
    """So that the next test says something about each."""
    seen = {t.action for seed in range(1, 6) for t in play(Controller(CONFIG), random_world(seed))}
    assert seen == {"close", "restore", "release", "end"}


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("steps", [None, 4_000])
def test_a_run_that_goes_on_from_its_state_decides_the_same(seed, steps):
    """Interrupted at random, several times in each run, with the state written as text in between."""
    chance = random.Random(seed)
    closing, world = Controller(CONFIG, steps=steps), random_world(seed)
    expected = play(Controller(CONFIG, steps=steps), random_world(seed))
    cuts = sorted(chance.randrange(1, expected[-1].step + 100) for _ in range(6))
    taken: list[Taken] = []
    for cut in cuts:
        taken += play(closing, world, batches=cut - closing.step)
        state = json.loads(json.dumps(closing.state_dict()))
        closing = Controller(CONFIG, steps=steps)
        closing.load_state_dict(state)
    taken += play(closing, world)
    assert taken == expected


def test_a_state_does_not_change_when_its_run_goes_on():
    closing, world = Controller(CONFIG), random_world(1)
    play(closing, world, until="restore")
    state = closing.state_dict()
    before = copy.deepcopy(state)
    play(closing, world)
    assert state == before


# Extrapolation


def test_a_line_in_log_time_is_extrapolated_exactly():
    points = [(t, 2.5 - 0.3 * math.log(t)) for t in range(100, 401, 4)]
    forecast = extrapolate(points, 3_000)
    assert forecast.value == pytest.approx(2.5 - 0.3 * math.log(3_000), abs=1e-12)
    assert forecast.deviation == pytest.approx(0, abs=1e-12)


def test_too_few_points_or_a_single_time_say_nothing():
    assert extrapolate([], 10) is None
    assert extrapolate([(4, 1.0), (8, 0.9)], 10) is None
    assert extrapolate([(4, 1.0), (4, 0.9), (4, 1.1)], 10) is None
    assert extrapolate([(0, 1.0), (4, 0.9), (8, 1.1)], 10) is None  # log 0
    assert extrapolate([(2, 1.0), (4, 0.9), (8, 1.1)], 10) is not None


def test_the_standard_error_is_that_of_many_repetitions():
    """2,000 repetitions tell a standard deviation to 1.6%; four times that is allowed."""
    chance = random.Random(7)
    times = range(100, 401, 12)
    values, variances = [], []
    for _ in range(2_000):
        forecast = extrapolate([(t, 1.4 - 0.05 * math.log(t) + chance.gauss(0, 0.1)) for t in times], 1_400)
        values.append(forecast.value)
        variances.append(forecast.deviation**2)
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    told = math.sqrt(math.fsum(variances) / len(variances))
    assert told == pytest.approx(spread, rel=0.064)
    assert mean == pytest.approx(1.4 - 0.05 * math.log(1_400), abs=4 * spread / math.sqrt(len(values)))
