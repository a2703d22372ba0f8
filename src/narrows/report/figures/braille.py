"""Curves as characters: braille, eight dots to a character, or plain points where a terminal has no braille.

A frame of characters is a grid of dots. Each curve is followed from point to point, straight or as a staircase, and
leaves the dots it passes; what lies outside the frame is cut off. A character shows the dots of all curves and belongs
to the one that was drawn last. Nothing here knows about terminals or colours: the result is plain characters.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot, by row and column, above the empty pattern U+2800."""
POINTS = " '.:"
"""Without braille: nothing, a dot above, a dot below, both."""
DASH = 4
"""Every so many dots a dashed curve goes on; half of them are drawn."""
Cell = tuple[str, int]
"""A character, and which curve it belongs to; -1 for none."""


@dataclass(frozen=True)
class Curve:
    """Points from left to right; what is no number is a gap."""

    x: Sequence[float]
    y: Sequence[float]
    step: bool = False
    """A staircase: each value holds until the next point."""
    dash: bool = False


@dataclass(frozen=True)
class Frame:
    """Which part of the plane is shown, on how many characters."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False
    """A logarithmic y axis."""
    braille: bool = True

    @property
    def across(self) -> int:
        """Dots in a row."""
        return self.width * (2 if self.braille else 1)

    @property
    def down(self) -> int:
        """Dots in a column."""
        return self.height * (4 if self.braille else 2)

    def column(self, x: float) -> int:
        """Return the dot's column, counted from the left."""
        low, high = self.x
        return round((x - low) / ((high - low) or 1.0) * (self.across - 1))

    def row(self, y: float) -> int:
        """Return the dot's row, counted from the top; outside the frame if y is."""
        low, high = (math.log(bound) for bound in self.y) if self.log else self.y
        value = math.log(y) if self.log else y
        return round((high - value) / ((high - low) or 1.0) * (self.down - 1))


def draw(curves: Sequence[Curve], frame: Frame) -> list[list[Cell]]:
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


def text(lines: Sequence[Sequence[Cell]]) -> str:
    """Return the characters alone."""
    return "\n".join("".join(character for character, _ in line) for line in lines)


def _character(bits: int, braille: bool) -> str:
    if not braille:
        return POINTS[bits]
    return chr(0x2800 + bits) if bits else " "


def _passed(curve: Curve, frame: Frame) -> Iterator[tuple[int, int]]:
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
    """Yield the dots of a column between two rows, as far as they are inside the frame."""
    low, high = min(one, other), max(one, other)
    yield from ((column, row) for row in range(max(low, 0), min(high, frame.down - 1) + 1))
