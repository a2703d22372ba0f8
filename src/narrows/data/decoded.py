"""From decoded numbers back to a table's columns: levels, true and false, and whole numbers, in the types they had."""

from typing import TYPE_CHECKING

import numpy as np

from narrows.data.mixed import Column

if TYPE_CHECKING:
    import pyarrow as pa


def type_of(column: Column) -> "pa.DataType":
    """Return the type of a column in a table that has no value in it, and so does not say its type."""
    import pyarrow as pa

    return {"number": pa.float64(), "whole": pa.int64(), "flag": pa.bool_(), "category": pa.string()}[column.kind]


def as_column(values: np.ndarray, column: Column, kind: "pa.DataType") -> "pa.Array":
    """Return decoded values as a column of a table.

    Arguments:
        values: Numbers, or codes for a category, (N,).
        column: What the column holds.
        kind: The type of the column; whole numbers are rounded and kept within its limits.
    """
    import pyarrow as pa

    kind = type_of(column) if pa.types.is_null(kind) else kind
    single = kind.value_type if pa.types.is_dictionary(kind) else kind
    if column.kind == "category":
        made = pa.array([column.levels[int(code)] for code in values], pa.string())
    elif pa.types.is_boolean(single):
        made = pa.array(values >= 0.5)
    elif pa.types.is_integer(single):
        made = pa.array(_whole(values, single.to_pandas_dtype()))
    else:
        made = pa.array(values)
    return like(made.cast(single, safe=False), kind)


def filled(column: "pa.Array", gaps: np.ndarray, values: "pa.Array") -> "pa.Array":
    """Return a column with `values` where there are gaps, (N,) true for a gap; everything else stays as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = pa.types.is_dictionary(column.type)
    plain = column.dictionary_decode() if coded else column
    new = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    plain = plain.cast(new.type) if pa.types.is_null(plain.type) else plain
    full = pc.replace_with_mask(plain, pa.array(gaps), new.cast(plain.type, safe=False))
    return like(full, column.type, column.dictionary if coded else None)


def like(plain: "pa.Array", kind: "pa.DataType", levels: "pa.Array | None" = None) -> "pa.Array":
    """Return an array as a dictionary where `kind` is one, with these levels, in their order, if they are enough."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(kind):
        return plain
    codes = None if levels is None else pc.index_in(plain, value_set=levels)
    if codes is None or codes.null_count > plain.null_count:
        coded = plain.dictionary_encode()
        codes, levels = coded.indices, coded.dictionary
    return pa.DictionaryArray.from_arrays(codes.cast(kind.index_type), levels, ordered=kind.ordered)


def _whole(values: np.ndarray, kind: type) -> np.ndarray:
    """Return values rounded to integers of this type, and within its limits."""
    limits = np.iinfo(kind)
    rounded = np.clip(np.rint(values), float(limits.min), float(limits.max))
    rounded = np.minimum(rounded, np.nextafter(float(limits.max) + 1, 0))  # 2^63 - 1 is no double
    return rounded.astype(kind)
