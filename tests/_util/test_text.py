import html

import pytest
from markdown_it import MarkdownIt

from narrows._util.text import brief, markdown_code, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é ü 数", "plain é ü 数"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\r\tand tab", "two\\nlines\\r\\tand tab"),
        ("\x9b31m", "\\x9b31m"),  # the one-byte form of an escape sequence
        ("right\u202eleft", "right\\u202eleft"),
        ("line\u2028break", "line\\u2028break"),
        ("not utf-8: \udcff", "not utf-8: \\udcff"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown


def test_a_long_text_loses_its_middle():
    assert printable("a" * 500 + "z", 21) == "a" * 9 + "..." + "a" * 8 + "z"
    assert printable("a" * 500, None) == "a" * 500


def test_a_brief_value_is_one_short_line():
    class Hostile:
        def __repr__(self):
            raise RuntimeError

    assert brief("a\nb") == "'a\\nb'"
    assert brief(Hostile()) == "a Hostile"
    assert len(brief(list(range(1000)))) <= 80


@pytest.mark.parametrize("text", ["name", "`", "``", "a`b", " ", "`x`", "x\n# heading", "<script>", "a](b)", "\\"])
def test_nothing_breaks_out_of_a_code_span(text):
    page = MarkdownIt().render(f"on {markdown_code(text)}.")
    content = html.escape(printable(text), quote=False)
    assert page.strip() in {f"<p>on <code>{content}</code>.</p>", f"<p>on <code> {content} </code>.</p>"}
