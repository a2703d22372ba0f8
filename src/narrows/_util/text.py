"""Text that others wrote, made safe to show: names in files, column headings, paths, messages of other libraries.

A terminal obeys escape sequences, and Markdown obeys backticks and line breaks, whoever wrote them. So everything that
narrows did not write itself passes through `printable` before it is printed and through `markdown_code` before it is
put into a Markdown file. HTML pages are made by Jinja, which escapes by itself.
"""

import os
import shlex
import unicodedata

LONGEST = 200
"""Characters of a foreign text that are shown at most."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that a terminal may obey or that show nothing: controls, directions, surrogates, line breaks."""


def printable(text: object, longest: int | None = LONGEST) -> str:
    """Return a text on one line in which everything that does not simply show is written as an escape such as \\x1b.

    Arguments:
        text: The text, or an object with one.
        longest: Characters to keep at most, with the middle left out; None for all.
    """
    shown = "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in str(text))
    if longest is None or len(shown) <= longest:
        return shown
    half = (longest - 3) // 2
    return f"{shown[:half]}...{shown[-half:]}"


def brief(value: object, longest: int = 80) -> str:
    """Return the repr of a value on one short line, for the end of an error: "it is ..."."""
    try:
        text = repr(value)
    except Exception:  # a repr of a caller's own class may do anything
        text = f"a {type(value).__name__}"
    return printable(" ".join(text.split()), longest)


def markdown_code(text: object) -> str:
    """Return a text as a Markdown code span, from which nothing can break out."""
    shown = printable(text)
    fence = "`"
    while fence in shown:
        fence += "`"
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def shell_word(text: object) -> str:
    """Return a text as one word of a shell's command line, which means the same and holds nothing a terminal obeys.

    A path with a control character or with bytes that are not UTF-8 is written as $'...', which bash and zsh read.
    """
    word = str(text)
    if printable(word, None) == word:
        return shlex.quote(word)
    written = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in os.fsencode(word))
    return f"$'{written}'"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
