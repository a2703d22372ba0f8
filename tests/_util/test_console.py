"""Consoles have a sensible size whatever the environment or the terminal says."""

import io

import pytest

from narrows._util.console import NARROWEST, TALLEST, WIDEST, BoundedConsole


@pytest.mark.parametrize(
    ("columns", "width"), [("0", NARROWEST), ("1", NARROWEST), ("7", NARROWEST), ("100", 100), ("99999999", WIDEST)]
)
def test_the_width_is_bounded(columns, width):
    console = BoundedConsole(file=io.StringIO(), _environ={"COLUMNS": columns, "LINES": "99999999", "TERM": "xterm"})
    console.print("word " * 100)
    assert console.width == width
    assert console.height == TALLEST


def test_the_size_can_be_set():
    console = BoundedConsole(file=io.StringIO())
    console.size = (70, 30)
    assert console.size == (70, 30)
