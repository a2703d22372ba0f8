"""What the pages of a Parquet file declare, read before a library allocates it.

A column of a row group is a sequence of pages. Each begins with a header that states its size before and after
unpacking, a struct in Thrift's compact protocol, and a page of a few kilobytes can declare 2 GB. The footer's sums say
nothing about single pages and need not be true, and pyarrow allocates what a header says.

https://parquet.apache.org/docs/file-format/data-pages/
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Iterator
from pathlib import Path

_HEADER, _LONGEST_HEADER = 512, 1 << 16
"""Bytes that are read for a header at first, and for a long one: it holds statistics, here of numbers."""
_UNPACKED, _STORED = 2, 3
"""The fields of a header with the size of its page, unpacked and in the file."""
_BOOLEANS, _BYTE, _WHOLE, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
"""Thrift's codes of types."""


def page_sizes(path: Path, start: int, end: int) -> Iterator[int]:
    """Yield how many bytes each page between two positions of a file declares to unpack to.

    Raises:
        ValueError: A header is damaged.
    """
    with path.open("rb", buffering=0) as file:
        while start < end:
            for length in (_HEADER, _LONGEST_HEADER):
                file.seek(start)
                content = file.read(length)
                try:
                    fields, header = _struct(content, 0)
                    break
                except IndexError:
                    continue
            else:
                raise ValueError("a page header has no end")
            unpacked, stored = fields.get(_UNPACKED, -1), fields.get(_STORED, -1)
            if min(unpacked, stored) < 0:
                raise ValueError("a page header states no sizes")
            yield unpacked
            start += header + stored


def _struct(content: bytes, at: int) -> tuple[dict[int, int], int]:
    """Return the whole numbers among the fields of the struct at a position, by field, and the position after it."""
    numbers: dict[int, int] = {}
    field = 0
    while head := content[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, at = _number(content, at)
        if kind in _WHOLE:
            numbers[field], at = _number(content, at)
        elif kind not in _BOOLEANS:  # whose value is the code itself
            at = _after(content, at, kind)
    return numbers, at + 1


def _after(content: bytes, at: int, kind: int) -> int:
    """Return the position after a value of this type; raise IndexError if it is not all there."""
    if kind in (*_BOOLEANS, _BYTE, _DOUBLE):
        at += 8 if kind == _DOUBLE else 1
    elif kind in _WHOLE:
        at = _varint(content, at)[1]
    elif kind == _BINARY:
        length, at = _varint(content, at)
        at += length
    elif kind in _LISTS:
        count, entry = content[at] >> 4, content[at] & 15
        at += 1
        if count == 15:
            count, at = _varint(content, at)
        for _ in range(count):
            at = _after(content, at, entry)
    elif kind == _MAP:
        count, at = _varint(content, at)
        kinds, at = (content[at], at + 1) if count else (0, at)
        for _ in range(count):
            at = _after(content, _after(content, at, kinds >> 4), kinds & 15)
    elif kind == _STRUCT:
        at = _struct(content, at)[1]
    else:
        raise ValueError(f"a page header has a field of unknown type {kind}")
    if at > len(content):
        raise IndexError
    return at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, seven bits per byte with the lowest first, and the position after it."""
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return the number with a sign at a position (0, -1, 1, -2, ... as 0, 1, 2, 3, ...), and the position after it."""
    number, at = _varint(content, at)
    return (number >> 1) ^ -(number & 1), at
