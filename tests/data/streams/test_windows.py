"""The order of a stream: every training row once per epoch, a function of (seed, epoch), with few shards at a time."""

import numpy as np
import pytest

from narrows.data import Batches
from narrows.data.streams.windows import MOST_SHARDS, WindowedRows
from refusals import refused

COUNTS = [30, 7, 0, 22, 41, 18, 25, 9, 33, 16]


def rows_of(room=120, counts=COUNTS, heard=None):
    heard = [] if heard is None else heard
    offsets = np.concatenate([[0], np.cumsum(np.array(counts) + 5)])
    return WindowedRows(offsets, counts, [40] * len(counts), room, lambda i: np.arange(2, 2 + counts[i]), heard.append)


def every_row(rows):
    return np.concatenate([rows.offsets[i] + rows.training(i) for i in range(len(rows.counts))])


@pytest.mark.parametrize("room", [40, 120, 10_000])
def test_an_epoch_has_every_training_row_once(room):
    rows = rows_of(room)
    for epoch in (0, 1):
        order = rows.epoch(5, epoch)[0 : len(rows)]
        np.testing.assert_array_equal(np.sort(order), every_row(rows))
    assert not np.array_equal(rows.epoch(5, 0)[:50], rows.epoch(5, 1)[:50])
    assert not np.array_equal(rows.epoch(5, 0)[:50], rows.epoch(6, 0)[:50])


def test_any_part_of_an_epoch_is_that_part_of_it():
    rows = rows_of()
    whole = rows.epoch(1, 2)[0 : len(rows)]
    for start in range(0, len(rows), 11):
        np.testing.assert_array_equal(rows.epoch(1, 2)[start : start + 37], whole[start : start + 37])
    again = rows.epoch(1, 2)
    parts = [again[start : start + 16] for start in range(0, len(rows), 16)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_windows_fit_into_half_of_the_cache():
    windows = rows_of(120).windows(0, 0)
    assert [len(window) for window in windows] == [3, 3, 3]
    assert sorted(np.concatenate(windows).tolist()) == [0, 1, 3, 4, 5, 6, 7, 8, 9], "shard 2 has nothing to train on"
    many = rows_of(10**6, [1] * 250).windows(0, 0)
    assert [len(window) for window in many] == [MOST_SHARDS, MOST_SHARDS, 50]


def test_the_present_window_and_the_next_are_wanted():
    heard = []
    rows = rows_of(120, heard=heard)
    windows = [*rows.windows(3, 0), *rows.windows(3, 1)]
    batches = Batches(rows, 16, seed=3)
    assert heard == [], "nothing is fetched before the first batch: a run may be resumed elsewhere"
    owner = np.searchsorted(rows.offsets, [batches.next() for _ in range(2 * batches.per_epoch)], side="right") - 1
    assert heard[0] == [*windows[0], *windows[1]]
    at_the_end = heard[batches.per_epoch - 1]
    assert set(at_the_end) == {*windows[2], *windows[3]}, "the last window, and the first of the next epoch"
    for used, wanted in zip(owner, heard, strict=True):
        assert set(used) <= set(wanted)
        assert len(wanted) <= 6


@pytest.mark.parametrize("taken", [0, 1, 5, 12, 13, 30])
def test_a_stream_goes_on_from_any_batch(taken):
    whole, first, second = (Batches(rows_of(), 16, seed=9) for _ in range(3))
    expected = [whole.next() for _ in range(taken + 20)]
    for _ in range(taken):
        first.next()
    second.load_state_dict(first.state_dict())
    for one in expected[taken:]:
        np.testing.assert_array_equal(second.next(), one)


def test_a_shard_that_is_larger_than_a_window():
    text = refused(rows_of, 39)
    assert text.startswith(
        "cache_size='78 bytes' has room for windows of 39 bytes, and the largest shard takes 40 byte"
    )
