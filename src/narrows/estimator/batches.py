"""The batches that rows of counts are from, such as runs of a sequencer: names to numbers, and numbers into rows."""

from typing import Any

import numpy as np
import scipy.sparse

from narrows._util.text import brief
from narrows.data.sparse import SparseRows

MOST, FEWEST_ROWS = 50, 10
"""Batches, at most, and rows of each, at least: each batch has a learned number for every column."""


def named(batch: Any, rows: int, name: str = "batch") -> np.ndarray:
    """Return the batch of each row as a text, (rows,).

    Arguments:
        batch: One entry per row: numbers, texts or categories.
        rows: Number of rows.
        name: What errors call it.

    Raises:
        ValueError: There is not one entry per row, or one is missing.
    """
    given = np.asarray(batch, object)
    if given.shape != (rows,):
        raise ValueError(f"{name} must have one entry per row, ({rows},); it has the shape {given.shape}")
    texts = np.array([str(one) for one in given])
    absent = np.array([one is None for one in given]) | np.isin(texts, ("nan", "NaT", "<NA>"))
    if absent.any():
        raise ValueError(f"{name} must name a batch for every row; row {int(absent.argmax())} has none")
    return texts


def levels(texts: np.ndarray, name: str = "batch") -> tuple[str, ...]:
    """Return the batches to fit; raise ValueError if they are too many, too few or too small."""
    found, counts = np.unique(texts, return_counts=True)
    if not 2 <= len(found) <= MOST:
        hint = "leave it out" if len(found) < 2 else "join batches that belong together"
        raise ValueError(f"{name} must name from 2 to {MOST} batches; it names {len(found)}: {hint}")
    if counts.min() < FEWEST_ROWS:
        small = str(found[counts.argmin()])
        raise ValueError(
            f"{name} must name each batch for {FEWEST_ROWS} rows or more; {brief(small)} has {counts.min()}: leave "
            f"its rows out, or join it with another"
        )
    return tuple(map(str, found))


def numbered(texts: np.ndarray, known: tuple[str, ...], name: str = "batch") -> np.ndarray:
    """Return each row's number among the known batches, (rows,); raise ValueError if one is not known."""
    unknown = ~np.isin(texts, known)
    if unknown.any():
        at = int(unknown.argmax())
        raise ValueError(
            f"{name} must name batches that the estimator was fitted to ({', '.join(known)}); row {at} is from "
            f"{brief(str(texts[at]))}: fit again with its rows"
        )
    return np.searchsorted(known, texts)


def ones(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return numbers of batches as rows of 0 and a 1, (rows, count)."""
    return np.eye(count)[numbers]


def joined(x: np.ndarray | SparseRows, numbers: np.ndarray, count: int) -> np.ndarray | SparseRows:
    """Return rows of counts followed by the batch of each, as 0 and 1."""
    batch = ones(numbers, count).astype(x.dtype)
    if isinstance(x, SparseRows):
        rows = scipy.sparse.hstack([x.matrix, scipy.sparse.csr_array(batch)], format="csr")
        return SparseRows(rows, "X", exact=x.dtype == np.float64)
    return np.hstack([x, batch])
