"""The fast recipe's decisions, on error curves made by hand: nothing here is trained."""

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from narrows.recipes.controller import LONGEST, Controller, ControllerConfig, Decision, extrapolate

MEASURE_EVERY, DECIDE_EVERY = 4, 10
CONFIG = ControllerConfig(
    pause=50,
    patience=0.5,
    least_patience=1_000,
    tries=2,
    at_once=0.5,
    judge_from=400,
    fit_patience=20_000,
    worth=0.02,
    last=0.3,
    least_last=1_000,
)
"""Written out, so that the laws are tested and not the values of the day."""
ONE_BY_ONE = replace(CONFIG, at_once=0.0)
Curve = Callable[[int, int], float]


class World:
    """Stands for a network: each open gate has a cost of removal; a closed one costs what training cannot win back.

    After a closing or an opening the error is `jump * t^-1/2` above where it will settle, t batches later.
    """

    def __init__(self, costs, lasting=None, base=0.5, jump=0.0, noise=0.0, seed=0):
        self.costs, self.lasting = dict(costs), dict(lasting or {})
        self.base, self.jump, self.noise = base, jump, noise
        self.random = random.Random(seed)
        self.open = set(costs)

    def error(self, step: int, since: int) -> float:
        settled = self.base + sum(self.lasting.get(gate, 0.0) for gate in self.costs if gate not in self.open)
        return settled + self.jump * since**-0.5 + self.random.gauss(0, self.noise)

    def known(self) -> dict[int, float]:
        return {gate: cost for gate, cost in self.costs.items() if gate in self.open}

    def act(self, decision: Decision) -> None:
        if decision.action == "close":
            self.open -= set(decision.gates)
        elif decision.action == "reopen":
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
        decision = closing.decide(world.known())
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


def hopeful(step: int, since: int) -> float:
    """Just above the target, with so much noise that two standard errors below any forecast it is met."""
    return 1.3 if since < 200 else 1.05 + (0.3 if step % 8 else -0.3)


def actions(taken: list[Taken]) -> list[tuple[str, list[int]]]:
    return [(t.action, t.gates) for t in taken]


# Closing


def test_the_cheapest_gate_closes_first_and_then_the_next():
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
def test_several_close_at_once_while_their_costs_together_fit_the_slack(error, at_once, together):
    world = World({0: 0.05, 1: 0.1, 2: 0.04, 3: 0.3})
    taken = play(Controller(replace(CONFIG, at_once=at_once)), world, lambda *_: error, until="close")
    assert taken[-1].gates == together


def test_a_gate_whose_removal_seems_to_help_makes_no_room_for_others():
    """A cost below 0 is noise: it counts as 0."""
    world = World({0: -5.0, 1: 0.24, 2: 0.1, 3: -4.0})
    assert play(Controller(CONFIG), world, lambda *_: 0.5, until="close")[-1].gates == [0, 3, 2]


@pytest.mark.parametrize("pause", [10, 50, 130])
def test_nothing_is_decided_before_the_pause_is_over(pause):
    taken = play(Controller(replace(CONFIG, pause=pause, at_once=0.0)), World({0: 0.1, 1: 0.2}), every=1)
    assert [t.since for t in taken[:3]] == [pause] * 3


def test_nothing_closes_before_every_gate_has_been_tried():
    world = World({0: 0.1, 1: math.inf, 2: 0.2})
    closing = Controller(ONE_BY_ONE)
    assert play(closing, world, batches=400) == []
    world.costs[1] = 0.05
    assert actions(play(closing, world, batches=10)) == [("close", [1])]


def test_a_gate_whose_closing_failed_need_not_be_tried_again():
    world = World({0: 0.1, 1: 0.2, 2: 0.3}, {0: 5.0})
    closing = Controller(ONE_BY_ONE)
    play(closing, world, until="reopen")
    world.costs[0] = math.inf  # it was closed for so long that its cost is no longer known
    assert play(closing, world, until="close")[-1].gates == [1]


def test_with_no_tries_nothing_closes():
    taken = play(Controller(replace(CONFIG, tries=0)), World({0: 0.0, 1: 0.0}))
    assert actions(taken) == [("release", []), ("end", [])]


def test_the_error_of_the_last_decision_is_remembered():
    closing = Controller(CONFIG)
    play(closing, World({0: 0.1}), lambda *_: 0.75, until="close")
    assert closing.last_error == 0.75


# How sure one must be


def test_one_lucky_measurement_is_not_within():
    """The error is the mean of the last quarter: 0.9 once among 1.1 is not enough, however often one looks."""
    lucky = play(Controller(CONFIG), World({0: 0.1}), lambda step, since: 0.9 if step % 40 == 0 else 1.1, batches=400)
    assert lucky == []
    unlucky = play(Controller(CONFIG), World({0: 0.1}), lambda step, since: 1.1 if step % 40 == 0 else 0.9, batches=400)
    assert unlucky[0].action == "close"


def test_the_error_now_is_the_mean_of_the_last_quarter_and_of_100_batches_at_most():
    closing = Controller(CONFIG)
    assert closing.error() == math.inf
    for since in range(1, 101):
        closing.advance()
        closing.observe(float(since))
    assert closing.error() == pytest.approx(sum(range(75, 101)) / 26)
    for since in range(101, 1_001):
        closing.advance()
        closing.observe(float(since))
    assert closing.error() == pytest.approx(sum(range(900, 1_001)) / 101)


def test_errors_from_before_a_closing_do_not_count_after_it():
    closing = Controller(ONE_BY_ONE)
    world = World({0: 0.1, 1: 0.2})
    play(closing, world, lambda *_: 0.01, until="close")
    assert closing.error() == math.inf
    assert play(closing, world, lambda *_: 1.05, batches=300) == []


def test_a_closing_whose_error_comes_back_is_waited_for():
    """0.9 + 6 t^-1/2 is within after 3,600 batches: each patience, half of the batches so far, sees it coming."""
    world = World({0: 0.1, 1: 0.2}, base=0.9)
    closing = Controller(ONE_BY_ONE)
    play(closing, world, fitted_after(6_000), until="close")
    world.jump = 6.0
    after = play(closing, world, until="close")
    assert actions(after) == [("close", [1])]
    assert 3_600 <= after[-1].since <= 3_800


def test_a_closing_whose_error_does_not_come_back_is_given_up_soon_and_its_gates_are_opened():
    """It settles at 1.5: that is plain long before the patience of 1,000 batches is over."""
    world = World({0: 0.1, 1: 0.2, 2: 0.01, 3: 0.02}, {2: 0.5, 3: 0.5}, jump=2.0, noise=0.01)
    closing = Controller(CONFIG)
    closed = play(closing, world, until="close")[-1].gates
    assert closed == [2, 3]
    back = play(closing, world, until="reopen")[-1]
    assert back.gates == closed
    assert world.open == {0, 1, 2, 3}
    assert CONFIG.judge_from <= back.since < closing.limit


def test_a_closing_that_always_looks_hopeful_is_given_up_after_the_longest_wait():
    closing = Controller(ONE_BY_ONE)
    world = World({0: 0.1, 1: 0.2})
    play(closing, world, until="close")
    assert closing.limit == 1_000
    taken = play(closing, world, hopeful, until="reopen")
    assert actions(taken) == [("reopen", [0])]
    assert taken[0].since == LONGEST * 1_000


@pytest.mark.parametrize(("patience", "before", "limit"), [(0.5, 50, 1_000), (0.5, 5_000, 2_500), (1.5, 5_000, 7_500)])
def test_the_patience_grows_with_the_batches_so_far(patience, before, limit):
    closing = Controller(replace(CONFIG, patience=patience))
    play(closing, World({0: 0.1}), fitted_after(before), until="close")
    assert closing.limit == pytest.approx(limit, rel=0.02)


# Failures


def test_a_gate_that_failed_is_passed_over_until_another_has_closed():
    """Gate 0 cannot be spared. 1 is next; with one gate fewer 0 is tried again, then 2; then it is over."""
    world = World({0: 0.1, 1: 0.2, 2: 0.3}, {0: 5.0, 2: 5.0})
    taken = play(Controller(ONE_BY_ONE), world)
    assert actions(taken) == [
        ("close", [0]),
        ("reopen", [0]),
        ("close", [1]),
        ("close", [0]),
        ("reopen", [0]),
        ("close", [2]),
        ("reopen", [2]),
        ("release", []),
        ("end", []),
    ]
    assert world.open == {0, 2}


def test_a_closing_known_to_be_good_is_not_taken_back():
    """The error is within, but a gate must be tried first; then the error rises: nothing is pending to be opened."""
    world = World({0: 0.1, 1: 0.2, 2: 0.3})
    closing = Controller(ONE_BY_ONE)
    play(closing, world, until="close")
    world.costs[1] = math.inf
    assert play(closing, world, batches=100) == []
    assert closing.pending == []
    taken = play(closing, world, lambda *_: 1.5, until="reopen")
    assert ("reopen", []) not in actions(taken)


def test_a_success_clears_the_failures():
    world = World({0: 0.1, 1: 0.2, 2: 0.3}, {0: 5.0})
    closing = Controller(ONE_BY_ONE)
    play(closing, world, until="reopen")
    assert (closing.failures, closing.failed) == (1, [0])
    play(closing, world, until="close")
    assert (closing.failures, closing.failed, closing.pending) == (1, [0], [1])
    play(closing, world, until="close")
    assert (closing.failures, closing.failed, closing.pending) == (0, [], [0])


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_after_so_many_failures_in_a_row_the_size_is_found(tries):
    world = World(dict.fromkeys(range(5), 0.4), dict.fromkeys(range(5), 5.0))
    taken = play(Controller(replace(CONFIG, tries=tries)), world)
    assert [t.action for t in taken] == ["close", "reopen"] * tries + ["release", "end"]
    assert [t.gates for t in taken if t.action == "close"] == [[gate] for gate in range(tries)]


def test_when_every_open_gate_has_failed_the_size_is_found():
    taken = play(Controller(replace(CONFIG, tries=10)), World({0: 0.4, 1: 0.4}, {0: 5.0, 1: 5.0}))
    assert [t.action for t in taken] == ["close", "reopen"] * 2 + ["release", "end"]


def test_after_the_last_failure_lambda_is_let_go_only_once_the_error_is_within_again():
    """0.5 + 15 t^-1/2 comes back to 1 after 900 batches."""
    closing = Controller(replace(CONFIG, tries=1))
    world = World({0: 0.4, 1: 0.5}, {0: 5.0})
    play(closing, world, until="reopen")
    world.jump = 15.0
    released = play(closing, world, until="release")
    assert actions(released) == [("release", [])]
    assert 900 <= released[0].since <= 1_000  # the mean of the last 100 batches is some 50 batches late
    assert released[0].since > CONFIG.judge_from


def test_where_opening_again_does_not_help_everything_is_restored_and_the_last_phase_begins():
    """Training itself has spoilt the error: it rises with the batches, whatever is open."""
    world = World({0: 0.1, 1: 0.2})
    spoilt = lambda step, since: 0.9 if step <= 50 else 1.2 + step / 10_000  # noqa: E731
    taken = play(Controller(ONE_BY_ONE), world, spoilt)
    assert actions(taken) == [("close", [0]), ("reopen", [0]), ("restore", []), ("release", []), ("end", [])]
    assert taken[2].since == CONFIG.judge_from, "as soon as it can be seen"
    assert taken[3].since == DECIDE_EVERY, "without another look at how it goes"


def test_several_gates_that_failed_together_are_tried_again_one_by_one():
    """Gate 1 alone was to blame: 0 is closed alone and stays closed; then several may go at once again."""
    world = World({0: 0.01, 1: 0.02, 2: 0.4, 3: 0.4}, {1: 5.0})
    closing = Controller(CONFIG)
    play(closing, world, until="reopen")
    assert (closing.failures, closing.failed) == (1, [])
    assert play(closing, world, until="close")[-1].gates == [0]
    world.costs = {0: 0.0, 1: 0.2, 2: 0.01, 3: 0.02}
    assert play(closing, world, until="close")[-1].gates == [2, 3, 1]


# The fit


def test_a_target_out_of_reach_is_given_up_without_closing_anything():
    closing = Controller(CONFIG)
    world = World({0: 0.0, 1: 0.0}, base=1.5, jump=3.0, noise=0.01)
    taken = play(closing, world)
    assert actions(taken) == [("release", []), ("end", [])]
    assert CONFIG.judge_from <= taken[0].step < CONFIG.fit_patience


@pytest.mark.parametrize(("fit_patience", "met"), [(20_000, 6_000), (1, 1_800)])
def test_a_slow_fit_is_waited_for(fit_patience, met):
    """It is in sight within the patience, or else within four times the batches so far: from 400 on that is 2,000."""
    closing = Controller(replace(CONFIG, fit_patience=fit_patience))
    taken = play(closing, World({0: 0.1}), lambda step, since: 1 + 0.1 * math.log(met / since), until="close")
    assert actions(taken) == [("close", [0])]
    assert met <= taken[0].step <= met + 100


# The last phase


@pytest.mark.parametrize(("fit", "length"), [(100, 1_000), (5_000, 1_500)])
def test_the_last_phase_is_a_share_of_what_came_before_and_then_it_ends(fit, length):
    closing = Controller(replace(CONFIG, tries=0))
    world = World({0: 0.1})
    released = play(closing, world, fitted_after(fit), until="release")[-1]
    assert closing.limit == max(1_000, round(0.3 * released.step)) == pytest.approx(length, rel=0.02)
    assert closing.progress() == 0
    play(closing, world, batches=closing.limit // 4, every=1)
    assert closing.progress() == pytest.approx(0.25, abs=1e-3)
    ended = play(closing, world, every=1)
    assert actions(ended) == [("end", [])]
    assert ended[0].step == released.step + closing.limit


def test_nothing_follows_the_end():
    closing = Controller(CONFIG)
    world = World({0: 0.1, 1: 0.2})
    assert play(closing, world)[-1].action == "end"
    world.open = {0, 1}
    assert play(closing, world, batches=20_000) == []
    assert closing.phase == "ended"


def test_in_the_last_phase_no_error_matters():
    closing = Controller(replace(CONFIG, tries=0))
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
    assert release.step <= math.ceil(steps / 1.3) + 1  # one more if gates had to be opened first
    assert [t.action for t in taken].count("release") == 1
    length = min(steps - release.step, max(CONFIG.least_last, round(CONFIG.last * release.step)))
    assert (taken[-1].action, taken[-1].step) == ("end", release.step + length)


def test_out_of_time_the_gates_in_question_are_opened_before_lambda_is_let_go():
    world = World({0: 0.1, 1: 0.2})
    closing = Controller(ONE_BY_ONE, steps=1_300)
    play(closing, world, until="close")
    taken = play(closing, world, hopeful)
    assert [(t.step, t.action, t.gates) for t in taken] == [
        (1_000, "reopen", [0]),
        (1_010, "release", []),
        (1_300, "end", []),
    ]
    assert world.open == {0, 1}


def test_a_size_found_early_ends_before_the_limit():
    taken = play(Controller(ONE_BY_ONE, steps=50_000), World({0: 0.1}))
    assert actions(taken) == [("close", [0]), ("release", []), ("end", [])]
    assert taken[-1].since == CONFIG.least_last


def test_a_plain_vae_under_a_bound_takes_exactly_so_many():
    closing = Controller(replace(CONFIG, tries=0), steps=4_000)
    taken = play(closing, World({0: 0.1}))
    assert [(t.step, t.action) for t in taken] == [(50, "release"), (4_000, "end")]


# Without a bound


def test_without_a_bound_nothing_closes_and_training_ends_when_the_error_has_settled():
    taken = play(Controller(CONFIG, bounded=False), World({0: 0.0, 1: 0.0}, base=3.0, noise=0.01))
    assert actions(taken) == [("release", []), ("end", [])]
    assert taken[0].step == CONFIG.least_patience


@pytest.mark.parametrize(("worth", "goes_on"), [(0.01, True), (0.03, False)])
def test_without_a_bound_training_goes_on_while_one_patience_more_is_worth_it(worth, goes_on):
    """t^-0.03 falls by 1.2% with half as many batches again, at any time, and by 2% with twice as many."""
    closing = Controller(replace(CONFIG, worth=worth), bounded=False)
    taken = play(closing, World({0: 0.0}), lambda step, since: since**-0.03, batches=4_000)
    assert (taken == []) == goes_on


@pytest.mark.parametrize(
    "patience",
    [
        0.5,
        1.5,
    ],
)
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
    assert seen == {"close", "reopen", "release", "end"}


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
    play(closing, world, until="reopen")
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
