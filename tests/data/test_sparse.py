"""Sparse rows: the same values as the array, in every format, without the array."""

import numpy as np
import pytest
import scipy.sparse as sp

from count_data import drawn_counts
from narrows._util.errors import NarrowsError
from narrows.data import from_array, load
from narrows.data.sparse import SparseRows

X = drawn_counts(50, 12)[0]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_rows_are_those_of_the_array(kind, dtype):
    data = from_array(kind(X.astype(dtype)), "any")
    assert data.examples.shape == (12,)
    assert len(data.examples) == 50
    index = np.array([4, 4, 0, 49])
    assert np.array_equal(data.examples.batch(index).numpy(), X[index].astype(np.float32))
    rows = SparseRows(kind(X.astype(dtype)), "x")
    assert np.array_equal(rows[3:9], X[3:9])
    assert rows.range() == (X.min(), X.max())


def test_entries_that_are_stored_twice_count_together_and_the_users_matrix_stays_as_it_is():
    twice = sp.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), (2, 2))
    assert SparseRows(twice, "x")[:].tolist() == [[0, 2], [1, 0]]
    assert twice.nnz == 3


def test_whole_numbers_beyond_single_precision_are_served_exactly():
    large = sp.csr_array(np.array([[2**24 + 1, 0], [0, 1]]))
    assert SparseRows(large, "x")[:1].tolist() == [[2**24 + 1, 0]]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
def test_a_saved_matrix_is_read_without_its_zeros(kind, tmp_path):
    sp.save_npz(tmp_path / "x.npz", kind(X))
    data = load(tmp_path / "x.npz", "any")
    assert isinstance(data.examples.array, SparseRows)
    assert np.array_equal(data.exact.batch(np.arange(50)).numpy(), X)


def test_what_cannot_be_used_is_refused():
    for bad, why in (
        (sp.csr_array((0, 3)), "rows and columns"),
        (sp.csr_array(X.astype(complex)), "complex128 is not accepted"),
        (sp.csr_array(np.where(X > 3, np.nan, X)), "NaN or infinite"),
        (sp.csr_array(X * 1e16), "more than single precision"),
    ):
        with pytest.raises(NarrowsError, match=why):
            from_array(bad, "any")
    with pytest.raises(NarrowsError, match="and no gaps"):
        from_array(sp.csr_array(X), "any", missing="mask")


def test_a_damaged_matrix_is_refused(tmp_path):
    matrix = sp.csr_array(X)
    matrix.indices[0] = 1000
    sp.save_npz(tmp_path / "x.npz", matrix)
    with pytest.raises(NarrowsError, match=r"x\.npz"):
        load(tmp_path / "x.npz", "any")
