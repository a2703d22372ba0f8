import html
import os
import subprocess

import pytest
from markdown_it import MarkdownIt

from narrows._util.text import brief, markdown_code, printable, shell_word


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


@pytest.mark.parametrize(
    "text", ["a", "a b", "it's", "\x1b]0;owned\x07", "a\nb", "\udcff'\\", "é\u202e", "$(id)`id`\x01"]
)
def test_a_word_of_a_shell_means_the_same_and_shows_what_it_is(text):
    word = shell_word(text)
    assert printable(word, None) == word
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert said == os.fsencode(text)
