"""Laws of the stream: every epoch visits each index once; a restored stream goes on as if never stopped."""

import io

import numpy as np
import pytest
import torch

from narrows._util.errors import NarrowsError
from narrows.data import Batches

INDEX = np.arange(100, 123)


def take(batches, count):
    return np.array([batches.next() for _ in range(count)])


@pytest.mark.parametrize("size", [1, 5, 22, 23])
def test_every_epoch_visits_each_index_once(size):
    batches = Batches(INDEX, size, seed=0)
    assert batches.per_epoch == 23 // size
    for epoch in range(4):
        seen = take(batches, batches.per_epoch).ravel()
        assert (batches.epoch, batches.position) == (epoch, batches.per_epoch)
        assert len(np.unique(seen)) == len(seen) == 23 - 23 % size
        assert np.isin(seen, INDEX).all()


def test_epochs_and_seeds_differ_and_repeat():
    first = take(Batches(INDEX, 23, seed=0), 3)
    assert (first[0] != first[1]).any()
    assert (first[1] != first[2]).any()
    np.testing.assert_array_equal(first, take(Batches(INDEX, 23, seed=0), 3))
    assert (first != take(Batches(INDEX, 23, seed=1), 3)).any()


def test_the_dropped_tail_is_not_always_the_same():
    batches = Batches(INDEX, 22, seed=0)
    dropped = {np.setdiff1d(INDEX, batches.next()).item() for _ in range(30)}
    assert len(dropped) > 10


@pytest.mark.parametrize("taken", range(10))  # 4 batches an epoch: starts, middles and ends of epochs
def test_a_saved_stream_continues_identically(taken):
    batches = Batches(INDEX, 5, seed=2)
    take(batches, taken)
    file = io.BytesIO()
    torch.save(batches.state_dict(), file)
    expected = take(batches, 9)

    file.seek(0)
    restored = Batches(INDEX, 5, seed=2)
    take(restored, 6)
    restored.load_state_dict(torch.load(file, weights_only=True))
    np.testing.assert_array_equal(take(restored, 9), expected)
    assert restored.state_dict() == batches.state_dict()


def test_state_is_two_integers():
    batches = Batches(INDEX, 5, seed=2)
    take(batches, 6)
    assert batches.state_dict() == {"epoch": 1, "position": 2}


def test_too_few_examples_for_a_batch():
    with pytest.raises(NarrowsError, match=r"^23 training examples do not fill one batch of 24; use a smaller batch"):
        Batches(INDEX, 24, seed=0)


@pytest.mark.parametrize("size", [0, -3])
def test_batch_size_must_be_positive(size):
    with pytest.raises(NarrowsError, match=rf"batch must be at least 1; it is {size}"):
        Batches(INDEX, size, seed=0)


@pytest.mark.parametrize("state", [{"epoch": 0, "position": 5}, {"epoch": -1, "position": 0}])
def test_a_state_from_elsewhere_is_refused(state):
    with pytest.raises(NarrowsError, match=r"an epoch has 4 batches; resume with the data and the batch"):
        Batches(INDEX, 5, seed=0).load_state_dict(state)
