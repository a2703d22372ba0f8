"""`SparseRows`: the rows of a scipy sparse matrix as an array that nobody has to build.

Only the rows of a batch are written out in full. Whoever reads a set from its first to its last row does so some
megabytes at a time, as with an array that is mapped from disk.
"""

import sys
from typing import Any

import numpy as np

from narrows._util.errors import NarrowsError


def is_sparse(value: Any) -> bool:
    """Return whether this is a sparse matrix or array of scipy's, which is not imported for this."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(value))


class SparseRows:
    """Rows of a sparse matrix; indices, lists of indices and slices give dense arrays.

    Arguments:
        matrix: A scipy sparse matrix or array of any format, (N, D). It is converted to CSR if it is not, and then not
            changed.
        name: What errors call it.
        exact: Serve the rows in double precision, whatever the matrix holds; whole numbers of up to 2^24 need not be.

    Raises:
        NarrowsError: The shape or the type of its values cannot be used.
    """

    def __init__(self, matrix: Any, name: str, exact: bool = False) -> None:
        if len(matrix.shape) != 2 or 0 in matrix.shape:
            raise NarrowsError(
                f"{name}: a sparse matrix must have rows and columns, (N, D); its shape is {matrix.shape}"
            )
        if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
            raise NarrowsError(
                f"{name}: a sparse matrix of {matrix.dtype} is not accepted; use matrix.astype('float32')"
            )
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy() if rows is matrix else rows
            rows.sum_duplicates()
        self.matrix = rows
        self.shape: tuple[int, int] = (int(rows.shape[0]), int(rows.shape[1]))
        self.dtype = np.dtype(np.float64 if exact or _needs_double(rows) else np.float32)
        self.ndim = 2

    @property
    def size(self) -> int:
        """Number of values, zeros included."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in full: what is read at a time is chosen by it."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        rows = self.matrix[index]
        out: np.ndarray = rows.astype(self.dtype).toarray()
        return out

    def take(self, index: np.ndarray) -> "SparseRows":
        """Return some of the rows, as sparse as all of them."""
        return SparseRows(self.matrix[index], "rows", exact=self.dtype == np.float64)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest value, zeros included."""
        return float(self.matrix.min()), float(self.matrix.max())


def _needs_double(rows: Any) -> bool:
    """Return whether single precision would round values."""
    if rows.dtype.kind in "iu":
        return bool(rows.nnz and max(-int(rows.data.min()), int(rows.data.max())) > 2**24)
    return bool(rows.dtype == np.float64)
