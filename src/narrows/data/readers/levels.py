"""What a category of a table can be: the levels of a column of texts, of true and false, or of pandas' categories."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from narrows._util.errors import NarrowsError, did_you_mean, setting
from narrows._util.text import brief
from narrows.data.readers.shared import listed

if TYPE_CHECKING:
    import pyarrow as pa

MOST_LEVELS = 200
"""Levels of a category at most: a column with more is a name or an identifier, and says nothing about other rows."""
TIMES = "write it as numbers, such as days since the first one, or hour, weekday and month in columns of their own"


def is_text(kind: "pa.DataType") -> bool:
    """Return whether values of this type are texts."""
    from pyarrow import types

    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view))


def is_category(kind: "pa.DataType") -> bool:
    """Return whether a column of this type says of itself that it is a category: a dictionary of texts."""
    from pyarrow import types

    return types.is_dictionary(kind) and is_text(kind.value_type)


def is_time(kind: "pa.DataType") -> bool:
    """Return whether values of this type are dates, times or durations."""
    from pyarrow import types

    return bool(types.is_temporal(kind))


def levels_of(where: str, parts: Iterator["pa.Array"]) -> tuple[str, ...]:
    """Return the different texts of a column, sorted; empty fields are none of them.

    Raises:
        NarrowsError: There are none, or too many.
    """
    found: set[str] = set()
    rows = 0
    for part in parts:
        found.update(value for value in part.unique().to_pylist() if value is not None)
        rows += len(part)
        if len(found) > MOST_LEVELS:
            raise NarrowsError(
                f"{where} has more than {MOST_LEVELS} different texts in {rows:,} rows, so it is a name rather than a "
                f"category; leave it out, with {setting('columns')}"
            )
    if not found:
        raise NarrowsError(f"{where} has no value in any of {rows} rows; leave it out")
    if rows >= 10 and len(found) > rows // 2:
        raise NarrowsError(
            f"{where} has {len(found)} different texts in {rows} rows, so it is a name rather than a category; leave "
            f"it out, with {setting('columns')}"
        )
    return tuple(sorted(found))


def codes_of(where: str, column: "pa.Array", levels: Sequence[str], start: int) -> np.ndarray:
    """Return the place of each value among the levels, float64, NaN for an empty field; `start` rows came before.

    Raises:
        NarrowsError: A value is none of the levels.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    texts = column.cast(pa.string())
    codes = pc.index_in(texts, value_set=pa.array(levels, pa.string()))
    unseen = pc.and_(pc.is_valid(texts), pc.is_null(codes)).to_numpy(zero_copy_only=False)
    if unseen.any():
        at = int(unseen.argmax())
        value = texts[at].as_py()
        raise NarrowsError(
            f"{where} has {brief(value)} in row {start + at + 1}, which is none of the categories that the model was "
            f"trained on: {listed(list(levels))}{did_you_mean(value, levels)}"
        )
    found: np.ndarray = codes.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found
