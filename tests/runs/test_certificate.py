"""The certificate's bounds: exact answers, laws, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy.special import bdtr, comb

from narrows._util.errors import NarrowsError
from narrows.runs.certificate import (
    AFFORDABLE,
    BOLDEST,
    FEWEST,
    SHARE,
    Terms,
    certainty,
    choose_terms,
    forecast,
    measure,
    share_within,
)
from narrows.runs.records import Certificate, HeldOut

EXACT = Terms(0.95, limit=10.0)
APPROXIMATE = Terms(0.95)

any_errors = pytest.mark.parametrize("seed", range(20))


def draw(seed: int) -> tuple[np.ndarray, float, np.random.Generator]:
    """Return some errors in [0, 10], a few at its ends, and a spread that need not be theirs."""
    rng = np.random.default_rng(seed)
    errors = (10 * rng.random(rng.integers(2, 40)) ** rng.integers(1, 6)).round(int(rng.integers(0, 4)))
    return errors, rng.choice([0.0, 0.01, 1.0, 10.0]), rng


# Exact


@pytest.mark.parametrize("count", [1, 10, 100, 10_000])
def test_errors_of_zero_give_the_rule_of_three(count):
    """With n errors of 0, the largest mean that is not refuted is B (1 - 0.05^(1/n)), for the boldest of stakes."""
    upper = Terms(0.95, 1.0).upper(np.zeros(count), spread=0.0)
    assert upper == pytest.approx(1 - 0.05 ** (1 / count), rel=1.2 * (1 - BOLDEST) + 1e-3)
    assert upper >= 1 - 0.05 ** (1 / count)


def test_the_upper_end_is_where_the_bet_is_won():
    errors, spread = np.array([1.0, 2.0, 0.5, 4.0, 0.0, 1.5] * 20), 2.6
    upper = EXACT.upper(errors, spread)
    stake = math.sqrt(2 * math.log(20) / len(errors)) / spread
    assert stake < BOLDEST / (10 - upper)  # so it is the stake that was placed
    assert np.prod(1 + stake * (upper - errors)) == pytest.approx(20, rel=1e-6)


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("count", [5, 30, 200])
def test_a_certificate_is_false_at_most_once_in_twenty_for_all_or_nothing_errors(count, spread):
    """Errors are 0 or 1 with a mean of p: the probability that the upper end is below p, exactly."""
    terms = Terms(0.95, 1.0)
    uppers = [terms.upper(np.arange(count) < ones, spread) for ones in range(count + 1)]
    for p in np.linspace(0.005, 0.995, 100):
        chances = [comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
        false = sum(chance for chance, upper in zip(chances, uppers, strict=True) if upper < p)
        assert false <= 0.05


@pytest.mark.parametrize("ratio", [0.67, 1.0, 3.0])
@pytest.mark.parametrize("count", [13, 134])
def test_a_certificate_is_false_at_most_once_in_twenty_for_long_tails(count, ratio):
    """2,000 test splits of a population with this spread / mean; 0.065 is three standard errors above 0.05."""
    rng = np.random.default_rng(count)
    variance = math.log(1 + ratio**2)
    population = np.minimum(rng.lognormal(-variance / 2, math.sqrt(variance), 100_000), 100.0)
    terms = Terms(0.95, 100.0)
    uppers = [terms.upper(rng.choice(population, count), population.std()) for _ in range(2_000)]
    assert np.mean(np.array(uppers) < population.mean()) <= 0.065


@any_errors
def test_the_order_of_inputs_does_not_matter(seed):
    errors, spread, rng = draw(seed)
    assert EXACT.upper(rng.permutation(errors), spread) == pytest.approx(EXACT.upper(errors, spread), rel=1e-9)


@any_errors
def test_a_larger_error_never_lowers_the_upper_end(seed):
    errors, spread, rng = draw(seed)
    larger = errors.copy()
    larger[0] += rng.random() * (10.0 - larger[0])
    assert EXACT.upper(larger, spread) >= EXACT.upper(errors, spread) - 1e-9


@any_errors
def test_the_unit_does_not_matter(seed):
    errors, spread, rng = draw(seed)
    unit = 10 ** rng.uniform(-3, 3)
    scaled = Terms(0.95, 10.0 * unit).upper(errors * unit, spread * unit)
    assert scaled == pytest.approx(unit * EXACT.upper(errors, spread), rel=1e-6)


@pytest.mark.parametrize("limit", [10.0, None])
@any_errors
def test_more_confidence_never_lowers_the_upper_end_which_is_never_below_the_mean(seed, limit):
    errors, spread, _ = draw(seed)
    uppers = [Terms(confidence, limit).upper(errors, spread) for confidence in (0.5, 0.9, 0.95, 0.999)]
    assert errors.mean() <= uppers[0] + 1e-12
    assert uppers == sorted(uppers)
    assert limit is None or uppers[-1] <= limit


@pytest.mark.parametrize(("spread", "count"), [(0.3, 200), (2.0, 2_000), (0.001, 10_000)])
def test_the_room_is_what_the_upper_end_will_take(spread, count):
    errors = np.random.default_rng(0).gamma((2 / spread) ** 2, spread**2 / 2, count).clip(0, 10)
    room = EXACT.upper(errors, spread) - errors.mean()
    assert EXACT.room(spread, count) == pytest.approx(room, rel=0.3)


# Approximate


def test_symmetric_errors_have_the_interval_of_student():
    """Of tables: t for a one-sided 95% is 2.132 with four degrees of freedom, 1.833 with nine, 1.646 with 1,000."""
    for count, t in ((5, 2.132), (10, 1.833), (1_001, 1.646)):
        errors = np.linspace(1, 3, count)
        expected = 2 + t * errors.std(ddof=1) / math.sqrt(count)
        assert APPROXIMATE.upper(errors, 0.0) == pytest.approx(expected, rel=1e-3)


def test_the_transformed_t_solves_its_equation():
    errors = np.random.default_rng(1).exponential(2.0, 60)
    skewness = np.mean(((errors - errors.mean()) / errors.std()) ** 3)
    a, t = skewness / math.sqrt(60), 1.6711  # 59 degrees of freedom
    w = (errors.mean() - APPROXIMATE.upper(errors, 0.0)) / (errors.std(ddof=1) / math.sqrt(60))
    assert w + a * w**2 / 3 + a**2 * w**3 / 27 + a / 6 == pytest.approx(-t, rel=1e-3)
    assert w < -t  # wider than Student's


def test_few_inputs_are_refused():
    held = [HeldOut(1.0, 1.5, 1.0, count) for count in (FEWEST - 1, FEWEST)]
    assert [APPROXIMATE.is_kept(one, 2.0) for one in held] == [False, True]
    assert EXACT.is_kept(held[0], 2.0)
    assert not EXACT.is_kept(held[0], 1.4)
    assert not APPROXIMATE.is_kept(HeldOut(math.nan, math.nan, 0.0, 100), 2.0)
    assert APPROXIMATE.is_kept(HeldOut(1.0, math.inf, 1.0, 1), math.inf)  # no promise


# Shares


@pytest.mark.parametrize(("count", "rank"), [(29, 1), (45, 1), (46, 2), (100, 5)])
def test_nine_tenths_of_inputs_are_within_an_order_statistic(count, rank):
    """Of tables of tolerance limits: 95% confidence for a share of 90% takes 29 inputs, or 46 without the largest."""
    errors = np.random.default_rng(0).permutation(count).astype(float)
    assert share_within(errors, 0.95) == (SHARE, count - rank)
    assert bdtr(count - rank, count, SHARE) >= 0.95 > bdtr(count - rank - 1, count, SHARE)


def test_with_few_inputs_the_share_is_smaller():
    share, error = share_within(np.array([3.0, 1.0, 2.0]), 0.95)
    assert error == 3.0
    assert share**3 == pytest.approx(0.05)  # all three within what only this share is within


# Terms


@pytest.mark.parametrize("confidence", [0.0, 0.49, 1.0, 2.0, math.nan])
def test_terms_that_mean_nothing_are_refused(confidence):
    with pytest.raises(NarrowsError, match=r"confidence must be at least 0.5 and below 1"):
        Terms(confidence)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_limits_that_mean_nothing_are_refused(limit):
    with pytest.raises(NarrowsError, match="limit must be a number above 0"):
        Terms(0.95, limit)


@pytest.mark.parametrize("errors", [[], [1.0, math.nan], [math.inf]])
def test_errors_that_mean_nothing_are_refused(errors):
    for terms in (EXACT, APPROXIMATE):
        with pytest.raises(NarrowsError, match="errors must be finite numbers"):
            terms.upper(np.array(errors), 1.0)


def test_any_number_of_looks_has_a_level():
    assert EXACT.at_look(900, more=True).confidence < 1


def test_looks_share_what_may_go_wrong():
    assert EXACT.at_look(1, more=False) == EXACT
    wrong = [1 - EXACT.at_look(look, more=True).confidence for look in range(1, 30)]
    assert math.fsum(wrong) == pytest.approx(0.05)
    assert wrong[0] == pytest.approx(0.025)


def test_exact_is_chosen_where_it_costs_little():
    room = Terms(0.95, 784.0).room(0.0, 10_000)
    for tau, limit in ((1.01 * room / AFFORDABLE, 784.0), (0.99 * room / AFFORDABLE, None)):
        assert choose_terms("auto", 0.95, 784.0, tau, 10_000).limit == limit
    assert choose_terms("exact", 0.9, 784.0, 1.01 * room, 10_000) == Terms(0.9, 784.0)
    assert choose_terms("approximate", 0.95, 784.0, 10.0, 10_000) == Terms(0.95, unused=784.0)
    assert choose_terms("auto", 0.95, None, 10.0, 10_000) == Terms(0.95)


def test_exact_is_refused_where_it_cannot_be_had():
    with pytest.raises(NarrowsError, match="needs errors with a limit"):
        choose_terms("exact", 0.95, None, 10.0, 10_000)
    with pytest.raises(NarrowsError, match="with 42 test inputs, whose errors can be as large as 784"):
        choose_terms("exact", 0.95, 784.0, 10.0, 42)


def test_an_error_above_the_limit_is_said():
    with pytest.raises(NarrowsError, match="an error of 11 is above 10"):
        measure(np.array([1.0, 11.0]), np.zeros(2), EXACT, 1.0)
    measure(np.array([1.0, 10.0 * (1 + 1e-7)]), np.zeros(2), EXACT, 1.0)  # rounding


def test_the_stake_must_come_from_other_inputs():
    with pytest.raises(NarrowsError, match="needs the spread of errors on other inputs"):
        measure(np.ones(3), np.ones(3), EXACT)


def test_measured_and_forecast_numbers_are_those_of_the_errors():
    errors, at_mean = np.random.default_rng(0).random((2, 200))
    for held in (measure(errors, at_mean, EXACT, 0.3), forecast(errors, at_mean, EXACT, 100)):
        assert (held.error, held.error_at_mean, held.count) == (errors.mean(), at_mean.mean(), 200)
        assert held.spread == pytest.approx(errors.std(ddof=1))
    assert forecast(errors, at_mean, EXACT, 100).high == errors.mean() + EXACT.room(errors.std(ddof=1), 100)


def test_a_forecast_is_what_a_test_split_with_such_errors_has():
    errors = np.random.default_rng(0).exponential(2.0, 5_000)
    for terms in (Terms(0.95, 30.0), APPROXIMATE):
        assert forecast(errors, errors, terms, 5_000).high == pytest.approx(terms.upper(errors, errors.std()), rel=2e-3)


def test_the_margin_is_the_room_and_an_allowance_for_the_other_split():
    allowed = 2 * 3.0 * math.sqrt(1 / 400 + 1 / 100)
    assert APPROXIMATE.margin(3.0, 400, 100, 2.0) == pytest.approx(1.6604 * 3.0 / 10 + allowed, rel=1e-4)


def test_what_is_expected_is_said_before_training():
    assert "none is possible with 13 test inputs" in APPROXIMATE.outlook(2.0, 13)
    assert "about 95% confidence, the error must be about 18% below tau" in APPROXIMATE.outlook(2.0, 42)
    assert "no error can be above 784" in Terms(0.99, 784.0).outlook(10.0, 10_000)
    assert "an exact one would take 24% of tau" in choose_terms("auto", 0.95, 784.0, 1.0, 10_000).outlook(1.0, 10_000)
    assert "tau is out of reach" in Terms(0.999999999).outlook(2.0, 30)


def test_approximate_confidence_is_called_so():
    assert certainty(Terms(0.999, 1.0)) == "99.9%"
    assert certainty(Certificate("approximate", 0.95, None, 1, 0.9, 1.0)) == certainty(None) == "about 95%"
