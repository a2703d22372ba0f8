"""The sentences say what the numbers say."""

from dataclasses import replace
from pathlib import Path

import pytest

from narrows.report.contents import RunContents
from narrows.report.text import answer, hint, hold_together, progress
from narrows.runs.folder import RunFolder
from narrows.runs.records import Certificate, DecisionRow, Dimension, HeldOut, MetricRow, Refused, Result
from narrows.training.config import TrainConfig

HELD = HeldOut(19.5, 19.75, 15.0, 10_000)
CLAIM = Certificate("exact", 0.95, 4096.0, 1, 0.9, 40.0)
RESULT = Result(
    n=10, dims=5, kept=[0, 1, 2, 3, 4], tau=20.0, values=4096, variance=100.0, heldout=HELD, validation=HELD,
    best_error=14.0, best_dims=9, met=True, model="smallest that met tau", model_step=4500, steps=5000,
    seconds=125.0, seed=0,
    versions={}, dimensions=[Dimension(0, 1.5, 2.0, 0.0, 1.0), Dimension(1, 20.25, 2.5, 0.1, 0.9)],
    certificate=CLAIM,
)  # fmt: skip
FOLDER = RunFolder(Path("runs/a"))


def row(error: float, open: int) -> MetricRow:
    return MetricRow(5000, error, float(open), open, 0.1, 0.5, 1.0, 1.0, 125.0)


def paper_run(rows: list[MetricRow], result: Result | None = None) -> RunContents:
    return RunContents(FOLDER, TrainConfig(recipe="paper", steps=9_000), rows, [], result)


def test_a_promise_that_was_kept():
    lines = answer(RESULT).splitlines()
    assert lines[0] == "5 of 10 dimensions are enough: the error is within tau on data the model never saw"
    assert lines[1] == (
        "error on 10,000 test inputs: 19.5 (tau 20), at most 19.75 with 95% confidence; 15 when decoding the mean"
    )
    assert lines[2] == "per value: 0.00476 (tau 0.00488); 80.5% of the variance explained"
    assert lines[3] == "at least 90% of all inputs have an error of at most 40, with 95% confidence"
    assert lines[4] == "cost of removing each dimension: 20.2 1.5"
    assert lines[5] == "5,000 batches in 2 min 5 s; the model was saved after batch 4,500"


def test_an_approximate_confidence_is_called_so():
    for claim in (replace(CLAIM, kind="approximate", limit=None), None):
        assert "at most 19.75 with about 95% confidence" in answer(replace(RESULT, certificate=claim))


def test_a_smaller_model_that_failed_is_told():
    claim = replace(CLAIM, refused=[Refused(4, 19.95, 20.12)])
    first = answer(replace(RESULT, certificate=claim)).splitlines()[0]
    assert first.endswith("on data the model never saw; 4 nearly: 19.95, at most 20.12")
    for refused, words in (
        (Refused(4, 63.9, 197.4), "; 4 failed: 63.9, at most 197.4"),
        (Refused(5, 19.9, 20.2), "saw"),
    ):
        text = answer(replace(RESULT, certificate=replace(CLAIM, refused=[refused])))
        assert text.splitlines()[0].endswith(words)


def test_a_later_look_is_counted():
    assert "95% confidence (look 3 at the test split)" in answer(replace(RESULT, certificate=replace(CLAIM, look=3)))


def test_shares_are_not_rounded_up():
    claim = replace(CLAIM, share=0.8985)
    assert "at least 89% of all inputs" in answer(replace(RESULT, certificate=claim))


def test_too_few_test_inputs_are_said():
    claim = replace(CLAIM, kind="approximate", limit=None)
    text = answer(replace(RESULT, met=False, certificate=claim, heldout=replace(HELD, count=13, high=97.0)))
    assert text.startswith(
        "5 of 10 dimensions are kept, but tau is not certain: 13 test inputs are too few; at least 30 are needed"
    )


def levels(*met: bool) -> list[Result]:
    return [replace(RESULT, tau=float(tau), met=kept) for tau, kept in enumerate(met, 1)]


def test_promises_hold_together_from_the_largest_tau_to_the_first_that_failed():
    assert [one.tau for one in hold_together(levels(True, True, True))] == [3.0, 2.0, 1.0]
    assert [one.tau for one in hold_together(levels(True, False, True))] == [3.0]
    assert hold_together(levels(True, True, False)) == []
    results = levels(True, True, True)
    results[1] = replace(results[1], certificate=replace(CLAIM, refused=[Refused(4, 19.95, 20.12)]))
    assert [one.tau for one in hold_together(results)] == [3.0, 2.0]


def test_one_dimension_is_singular():
    assert answer(replace(RESULT, dims=1)).startswith("1 of 10 dimensions is enough")


def test_tau_that_was_not_reached():
    beyond = HeldOut(31.2, 32.0, 25.0, 5_000)
    text = answer(
        replace(
            RESULT, met=False, model="last", best_error=31.2, best_dims=10, dims=10, validation=beyond, heldout=beyond
        )
    )
    assert text.startswith(
        "tau was not reached: the best error is 31.2 with 10 of 10 dimensions (tau 20); raise tau or n"
    )
    assert "marked as such" in text


def test_an_error_within_tau_whose_interval_is_not():
    held = HeldOut(19.5, 21.0, 15.0, 40)
    text = answer(replace(RESULT, met=False, model="last", validation=held, heldout=held))
    assert text.startswith(
        "5 of 10 dimensions are kept, but tau is not certain: on the validation split the error is 19.5"
    )
    assert "on the test split 19.5, at most 21 with 95% confidence; use more data" in text


@pytest.mark.parametrize(
    ("recipe", "steps", "release", "cut"),
    [("fast", "auto", 900, False), ("fast", 1000, 700, False), ("fast", 1000, 800, True), ("plain", 1000, 800, False)],
)
def test_a_size_that_was_cut_off_by_steps_is_an_upper_bound(recipe, steps, release, cut):
    decisions = [DecisionRow(release, "release", 5, 0.9, "")]
    config = TrainConfig(recipe=recipe, steps=steps)
    assert (hint(RunContents(FOLDER, config, [row(19.0, 5)], decisions, RESULT)) is not None) == cut


def test_validation_met_but_not_test():
    text = answer(replace(RESULT, met=False, heldout=HeldOut(20.1, 20.3, 16.0, 10_000)))
    assert "tau is not certain" in text
    assert "19.5 on the validation split, and 20.1, at most 20.3 with 95% confidence on the test split" in text


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (row(10.0, 5), "training ended with the error at 50% of tau"),
        (row(21.0, 4), "training ended with 4 gates open and the error still above tau"),
        (row(19.9, 5), None),
    ],
)
def test_room_below_tau_is_mentioned(last, expected):
    text = hint(paper_run([last], RESULT))
    if expected is None:
        assert text is None
    else:
        assert text.startswith(expected)
        assert text.endswith("`narrows resume runs/a --steps 10000`")


def test_a_run_under_way():
    assert "batch 5,000 of 9,000, training error 21, 4 gates open" in progress(paper_run([row(21.0, 4)]))
    fast = RunContents(FOLDER, TrainConfig(recipe="fast"), [replace(row(21.0, 1), watched=25.5)], [])
    assert "batch 5,000, held-out error 25.5, 1 gate open" in progress(fast)
    assert progress(paper_run([])) == ("runs/a has not ended: no metrics yet; continue it with `narrows resume runs/a`")
