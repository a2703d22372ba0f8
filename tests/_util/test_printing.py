"""Foreign text is shown and never obeyed; a stream that fails does not end the work."""

import os
import sys

from narrows._util.printing import print_error, print_line, say, shown_lines, warn


def test_lines_stay_and_everything_else_that_does_not_show_is_escaped():
    assert shown_lines("a\tb\x1b[31m\nτ\r") == "a\\tb\\x1b[31m\nτ\\r"


def test_what_is_printed(capsys):
    say("two\nlines\x07")
    print_line("three\x9b")
    warn("of\n one   line\x1b")
    print_error("as\nwell")
    captured = capsys.readouterr()
    assert captured.out == "two\nlines\\x07\nthree\\x9b\n"
    assert captured.err == "narrows: warning: of one line\\x1b\nnarrows: error: as well\n"


def test_nobody_hears_a_closed_stream(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stderr", None)
    print_error("nobody reads this")
    path = tmp_path / "log"
    path.touch()
    with open(os.open(path, os.O_RDONLY), "w") as stream:  # writing fails
        monkeypatch.setattr(sys, "stderr", stream)
        warn("this cannot be written")
        warn("and goes nowhere from now on")
    assert path.read_text() == ""
