"""Curves as characters: braille, with eight dots per character, or plain points where a terminal has no braille.

A frame of characters is a grid of dots. Each curve is followed from point to point, straight or as a staircase, and
sets the dots that it passes; what lies outside the frame is cut off. A character shows the dots of all curves and
belongs to the curve drawn last. This module knows nothing about terminals and colours: it returns plain characters.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from narrows.report.figures.specification import Series

BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot, by row and column, above the empty pattern U+2800."""
POINTS = " '.:"
"""Without braille: no dot, the upper one, the lower one, both."""
DASH = 4
"""The period of a dashed curve in dots, of which the first half are set."""
Cell = tuple[str, int]
"""A character and the number of the curve it belongs to; -1 for none."""


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is shown, and the characters it is shown on."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False
    """Whether the y axis is logarithmic."""
    braille: bool = True

    @property
    def across(self) -> int:
        """The number of dots per row."""
        return self.width * (2 if self.braille else 1)

    @property
    def down(self) -> int:
        """The number of dots per column."""
        return self.height * (4 if self.braille else 2)

    def column(self, x: float) -> int:
        """Return the dot's column, counted from the left."""
        low, high = self.x
        return round((x - low) / ((high - low) or 1.0) * (self.across - 1))

    def row(self, y: float) -> int:
        """Return the dot's row, counted from the top; it is outside the frame if y is."""
        low, high = (math.log(bound) for bound in self.y) if self.log else self.y
        value = math.log(y) if self.log else y
        return round((high - value) / ((high - low) or 1.0) * (self.down - 1))


def draw(curves: Sequence[Series], frame: Frame) -> list[list[Cell]]:
    """Return the frame's lines of characters, the top one first."""
    bits = [[0] * frame.width for _ in range(frame.height)]
    owner = [[-1] * frame.width for _ in range(frame.height)]
    wide, tall = frame.across // frame.width, frame.down // frame.height
    for number, curve in enumerate(curves):
        for column, row in _passed(curve, frame):
            if not (0 <= column < frame.across and 0 <= row < frame.down):
                continue
            if curve.dash and column % DASH >= DASH // 2:
                continue
            line, place = row // tall, column // wide
            bits[line][place] |= BRAILLE[row % 4][column % 2] if frame.braille else 1 << row % 2
            owner[line][place] = number
    return [
        [(_character(bit, frame.braille), number) for bit, number in zip(*both, strict=True)]
        for both in zip(bits, owner, strict=True)
    ]


def _character(bits: int, braille: bool) -> str:
    if not braille:
        return POINTS[bits]
    return chr(0x2800 + bits) if bits else " "


def _passed(curve: Series, frame: Frame) -> Iterator[tuple[int, int]]:
    """Yield the dots that a curve passes, as (column, row)."""
    before: tuple[int, int] | None = None
    for x, y in zip(curve.x, curve.y, strict=True):
        if not math.isfinite(y) or (frame.log and y <= 0):
            before = None
            continue
        here = frame.column(x), frame.row(y)
        if before is None:
            yield here
        elif curve.step:
            yield from ((column, before[1]) for column in range(before[0], here[0]))
            yield from _upright(here[0], before[1], here[1], frame)
        else:
            yield from _straight(before, here, frame)
        before = here


def _straight(before: tuple[int, int], here: tuple[int, int], frame: Frame) -> Iterator[tuple[int, int]]:
    (start, top), (end, bottom) = before, here
    if start == end:
        yield from _upright(end, top, bottom, frame)
    last = top
    for column in range(start + 1, end + 1):
        row = round(top + (bottom - top) * (column - start) / (end - start))
        away = (row > last) - (row < last)
        yield from _upright(column, last + away, row, frame)
        last = row


def _upright(column: int, one: int, other: int, frame: Frame) -> Iterator[tuple[int, int]]:
    """Yield the dots of a column between two rows, those inside the frame."""
    low, high = min(one, other), max(one, other)
    yield from ((column, row) for row in range(max(low, 0), min(high, frame.down - 1) + 1))
