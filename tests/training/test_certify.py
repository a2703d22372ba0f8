"""Which models a run keeps, and which of them it ends with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from narrows.data import Data, from_array
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.runs.certificate import FEWEST, Terms
from narrows.runs.records import HeldOut
from narrows.training.certify import certify
from narrows.training.config import TrainConfig
from narrows.training.selection import MOST, Candidate, Selection, useful
from narrows.training.start import train

TERMS = Terms(0.95)


def candidate(dims: int, high: float, error: float | None = None, final: bool = False) -> Candidate:
    held = HeldOut(high - 1 if error is None else error, high, 0.0, 500, 1.0)
    return Candidate(list(range(dims)), dims, held, {}, final)


def sizes(candidates: list[Candidate]) -> list[int]:
    return [len(one.kept) for one in candidates]


# Which are kept


def test_of_equal_size_the_last_phase_wins_and_then_the_smaller_error():
    early, late, final = candidate(5, 9.0, 7.0), candidate(5, 9.5, 8.0), candidate(5, 9.9, 9.0, final=True)
    assert useful([late, early]) == [early]
    assert useful([early, final, late]) == [final, early]  # the second is safer
    assert useful([final, candidate(5, 9.95, 9.2)]) == [final]


def test_a_larger_model_is_kept_only_if_it_is_safer():
    found = [candidate(9, 9.9), candidate(10, 9.95), candidate(12, 9.7), candidate(13, 9.8), candidate(14, 9.0)]
    assert sizes(useful(found)) == [9, 12, 14]
    assert sizes(useful(found[::-1])) == [9, 12, 14]


def test_few_are_kept_and_those_are_the_smallest():
    assert sizes(useful([candidate(n, 10 - n) for n in range(1, 9)])) == list(range(1, MOST + 1))


def test_keeping_along_the_way_is_keeping_at_the_end():
    rng = np.random.default_rng(0)
    found = [candidate(int(n), float(h)) for n, h in zip(rng.integers(1, MOST + 1, 40), rng.random(40), strict=True)]
    kept: list[Candidate] = []
    for one in found:
        kept = useful([*kept, one])
    assert kept == useful(found)


@pytest.fixture
def selection():
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("mlp", (6,), n=4, width=2, output="linear"))
    examples = from_array(np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32), "any").examples
    return model, lambda tau: Selection(examples, np.arange(100), tau, TERMS, test=50)


def test_a_candidate_that_is_not_expected_to_keep_tau_is_not_kept(selection):
    model, make = selection
    seen = make(1e9).consider(model, 1, regular=True)
    assert seen.validation.high > seen.validation.error > 0
    for tau, found in ((seen.validation.high, 1), (seen.validation.high * 0.999, 0)):
        chosen = make(tau)
        chosen.consider(model, 1, regular=True)
        assert len(chosen.candidates()) == found
        assert (chosen.best_error, chosen.best_dims) == (seen.validation.error, 4)


def test_the_candidate_of_an_end_is_kept_apart_and_all_survive_a_checkpoint(selection):
    model, make = selection
    first, again = make(1e9), make(1e9)
    first.consider(model, 1, regular=True)
    model.gates.close([2])
    first.consider(model, 2, regular=False)
    again.load_state_dict(first.state_dict())
    for one in (first, again):
        assert sizes(one.regular) == [4]
        assert sizes(one.at_end) == [3]
        assert one.best() is not None
        assert one.best().kept == [0, 1, 3]


def test_sizes_that_were_passed_are_validated_only_if_there_is_nothing_to_fall_back_on(selection):
    model, make = selection
    chosen = make(1e9)
    for step in (1, 2, 3):
        chosen.remember(model, step)
        model.gates.close([step])
    assert [one.kept for one in chosen.passed] == [[0, 3], [0, 2, 3], [0, 1, 2, 3]]
    again = make(1e9)
    again.load_state_dict(chosen.state_dict())
    again.complete(model)
    expected = make(1e9)
    model.gates.open([3])
    expected.consider(model, 3, regular=True)
    assert again.best().validation == expected.best().validation
    assert again.best().step == 3
    assert not again.passed

    settled = make(1e9)
    settled.regular = [candidate(1, 9.0), candidate(2, 8.0)]
    settled.remember(model, 4)
    settled.complete(model)
    assert sizes(settled.candidates()) == [1, 2]  # nothing was looked at


# Which is certified


def errors(means: dict[int, float], count: int = 400):
    """Return errors around a mean for each size, whose upper end is about 0.1 above it."""
    shape = np.random.default_rng(0).normal(0, 1.2, count)
    return lambda one: (means[len(one.kept)] + shape - shape.mean(), np.zeros(count))


def test_the_smallest_is_certified_if_all_pass():
    tested = certify([candidate(8, 9.9), candidate(9, 9.8)], errors({8: 9.7, 9: 9.5}), 400, 10.0, TERMS)
    assert (len(tested.candidate.kept), tested.met, tested.certificate.refused) == (8, True, [])


def test_the_next_larger_is_certified_if_the_smallest_fails_and_that_is_told():
    """Validation met tau by a hair with 8; the test split does not, but the run had passed 9 with room."""
    tested = certify([candidate(8, 9.993), candidate(9, 9.5)], errors({8: 9.95, 9: 9.3}), 400, 10.0, TERMS)
    assert (len(tested.candidate.kept), tested.met) == (9, True)
    assert tested.heldout.error == pytest.approx(9.3)
    (refused,) = tested.certificate.refused
    assert (refused.dims, refused.error) == (8, pytest.approx(9.95))
    assert refused.high > 10


def test_nothing_is_tested_after_a_failure():
    seen = []

    def measure(one):
        seen.append(len(one.kept))
        return errors({7: 9.0, 8: 9.95, 9: 9.3})(one)

    tested = certify([candidate(7, 9.9), candidate(8, 9.8), candidate(9, 9.5)], measure, 400, 10.0, TERMS)
    assert seen == [9, 8]
    assert len(tested.candidate.kept) == 9


def test_without_a_certificate_the_safest_is_what_is_left():
    tested = certify([candidate(8, 9.9), candidate(9, 9.5)], errors({8: 9.9, 9: 9.95}), 400, 10.0, TERMS)
    assert (len(tested.candidate.kept), tested.met, tested.certificate.refused) == (9, False, [])
    assert tested.heldout.high > 10


def test_a_safer_state_of_the_same_size_is_certified_if_the_last_phase_went_too_far():
    found = [candidate(4, 9.9, 9.0, final=True), candidate(4, 5.0, 4.0), candidate(6, 3.0)]
    means = {9.0: 9.95, 4.0: 4.1, 2.0: 2.0}
    shape = errors({4: 0.0, 6: 0.0})(found[0])[0]
    tested = certify(found, lambda one: (means[one.validation.error] + shape, shape), 400, 10.0, TERMS)
    assert tested.candidate is found[1]
    assert tested.certificate.refused[0].dims == 4


def test_where_no_certificate_is_possible_the_best_is_what_is_left():
    count = FEWEST - 1
    tested = certify([candidate(4, 9.9), candidate(9, 5.0)], errors({4: 1.0, 9: 1.0}, count), count, 10.0, TERMS)
    assert (len(tested.candidate.kept), tested.met) == (4, False)


def test_the_share_is_as_certain_for_a_model_that_was_chosen_from_several():
    alone = certify([candidate(8, 9.9)], errors({8: 9.0}), 400, 10.0, TERMS)
    chosen = certify([candidate(8, 9.9), candidate(9, 9.8)], errors({8: 9.0, 9: 8.0}), 400, 10.0, TERMS)
    assert len(chosen.candidate.kept) == 8
    assert chosen.certificate.share_error > alone.certificate.share_error


def test_a_later_look_needs_more():
    uppers = [
        certify([candidate(8, 9.9)], errors({8: 9.0}), 400, 10.0, TERMS, look, more=True).heldout.high
        for look in (1, 2, 5)
    ]
    assert uppers == sorted(uppers)
    assert len(set(uppers)) == 3


def harder(rows: int) -> Data:
    """A plane in 8 dimensions with a third, faint direction, which is much less faint in the test rows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(rows, 3)) * [2.0, 1.0, 0.6]
    test = np.arange(0, rows, 5)
    z[test, 2] *= 1.4
    x = z @ np.linalg.qr(rng.normal(size=(8, 3)))[0].T
    data = from_array(x.astype(np.float32), "any")
    return replace(data, test=test)


def test_a_run_whose_smallest_model_fails_on_the_test_split_ends_with_a_larger_one(tmp_path):
    """Two dimensions leave an error of 0.36 on the validation rows and 0.71 on the test rows; tau is between."""
    result = train(
        TrainConfig(tau=0.5, n=6, threads=1, device="cpu", eval_every=1), tmp_path / "run", harder(4_000)
    ).result
    assert result.met
    assert result.dims == 3
    assert result.certificate is not None
    (refused,) = result.certificate.refused
    assert refused.dims == 2
    assert refused.high > 0.5 >= result.heldout.high
