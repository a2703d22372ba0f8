"""HTML from Jinja2's templates, in which foreign text only shows: it is escaped wherever it appears."""

import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from narrows._util.text import printable

_HIDDEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def code(text: str) -> Markup:
    """Escape text, and mark what is in backquotes as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def writable(value: object) -> object:
    """Return a value with everything that cannot be shown or encoded written as an escape such as \\x1b.

    They come from names of files and columns, whose paths need not be UTF-8.
    """
    return type(value)(_HIDDEN.sub(lambda one: printable(one[0]), value)) if isinstance(value, str) else value


def environment(package: str) -> Environment:
    """Return what draws the templates of a package."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=writable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["code"] = code
    return made
