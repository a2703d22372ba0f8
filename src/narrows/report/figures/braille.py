"""Curves as characters: braille, with eight dots per character, or plain points where a terminal has no braille.

A frame of characters is a grid of dots. Each curve is followed from point to point, straight or as a staircase, and
sets the dots that it passes; what lies outside the frame is cut off. A character shows the dots of all curves and
belongs to the curve drawn last. This module knows nothing about terminals and colours: it returns plain characters.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from narrows.report.figures.specification import Series

BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot in a character, by row and column, above the empty pattern U+2800."""
POINTS = np.array([[1], [2]])
"""The same without braille, where the bits are a place in " '.:": no dot, the upper one, the lower one, both."""
DASH = 4
"""The period of a dashed curve in dots, of which the first half are set."""
FAR = 100
"""Frames beside the shown one in which dots still have their own place: a curve is followed dot by dot."""
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
    def bits(self) -> np.ndarray:
        """The bit of each dot in a character, (rows, columns)."""
        return BRAILLE if self.braille else POINTS

    @property
    def across(self) -> int:
        """The number of dots per row."""
        return self.width * self.bits.shape[1]

    @property
    def down(self) -> int:
        """The number of dots per column."""
        return self.height * self.bits.shape[0]

    def column(self, x: float) -> int:
        """Return the dot's column, counted from the left; it is outside the frame if x is, but never far."""
        low, high = self.x
        return _near((x - low) / ((high - low) or 1.0), self.across - 1)

    def row(self, y: float) -> int:
        """Return the dot's row, counted from the top; it is outside the frame if y is, but never far."""
        low, high = (math.log(bound) for bound in self.y) if self.log else self.y
        value = math.log(y) if self.log else y
        return _near((high - value) / ((high - low) or 1.0), self.down - 1)


def _near(share: float, last: int) -> int:
    """Return the place of a share between 0 and `last`; whatever lies further out than `FAR` frames is put there."""
    return round(min(max(share, -FAR), FAR) * last)


def draw(curves: Sequence[Series], frame: Frame) -> list[list[Cell]]:
    """Return the frame's lines of characters, the top one first."""
    last = np.full((frame.down, frame.across), -1)  # the number of the curve that set a dot last
    for number, curve in enumerate(curves):
        for column, one, other in _passed(curve, frame):
            if 0 <= column < frame.across and not (curve.dash and column % DASH >= DASH // 2):
                last[max(0, min(one, other)) : max(0, one + 1, other + 1), column] = number
    dots = last.reshape(frame.height, frame.bits.shape[0], frame.width, frame.bits.shape[1])
    patterns = (frame.bits[:, None] * (dots >= 0)).sum((1, 3)).tolist()
    numbers = dots.max((1, 3)).tolist()
    return [
        [(_character(pattern, frame.braille), number) for pattern, number in zip(*line, strict=True)]
        for line in zip(patterns, numbers, strict=True)
    ]


def _character(pattern: int, braille: bool) -> str:
    return chr(0x2800 + pattern) if braille and pattern else " '.:"[pattern]


def _passed(curve: Series, frame: Frame) -> Iterator[tuple[int, int, int]]:
    """Yield the dots that a curve passes, as a column and the rows between which it passes there."""
    before: tuple[int, int] | None = None
    for x, y in zip(curve.x, curve.y, strict=True):
        if not math.isfinite(y) or (frame.log and y <= 0):
            before = None
            continue
        column, row = frame.column(x), frame.row(y)
        start, top = before or (column, row)
        if curve.step or start == column:
            yield from ((passed, top, top) for passed in range(start, column))
            yield column, top, row
        else:
            yield from _straight(start, top, column, row)
        before = column, row


def _straight(start: int, top: int, end: int, bottom: int) -> Iterator[tuple[int, int, int]]:
    last = top
    for column in range(start + 1, end + 1):
        row = round(top + (bottom - top) * (column - start) / (end - start))
        away = (row > last) - (row < last)
        yield column, last + away, row
        last = row
