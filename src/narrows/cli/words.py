"""What is typed, checked word by word, so that an error names the option, the rule and the value in plain words.

cyclopts would round 2.5 to a whole number, take an empty path for the current folder, and speak of the types that a
word cannot be converted into.
"""

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)

from narrows._util.errors import NarrowsError, did_you_mean
from narrows._util.text import brief
from narrows.cli.app import app

NAMES = ("DATA", "--data")
"""Arguments that are paths or names: an empty one would be the current folder."""


def check_word(name: str, word: str, kinds: Sequence[Any]) -> None:
    """Raise if a word cannot be the value of an option.

    Arguments:
        name: The option, or the argument, as it is typed.
        word: The word.
        kinds: The types of the value: one, or several of which one must fit.
    """
    if (Path in kinds or name in NAMES) and not word.strip():
        raise NarrowsError(f"{name} is empty; name a path")
    choices = [choice for kind in kinds for choice in get_args(kind)]
    number = next((kind for kind in kinds if kind in (int, float)), None)
    is_text = str in kinds and not _is_number(word, float) and not _is_foreign_number(word)
    if number is None or is_text or word in choices or _is_number(word, number):
        return
    rule = "a whole number" if number is int else "a number"
    hint = "; write decimals with a point" if number is float and _is_number(word.replace(",", "."), float) else ""
    shown = brief(word) if not _is_number(word, float) else brief(word)[1:-1]
    raise NarrowsError(f"{name} must be {' or '.join([rule, *choices])}; it is {shown}{hint}")


def in_our_words(error: CycloptsError) -> str:
    """Return what is wrong with a command line."""
    command = " ".join(["narrows", *(error.command_chain or ())])
    if isinstance(error, UnusedCliTokensError):
        words = ", ".join(map(brief, error.unused_tokens or ()))
        return f"unexpected on the command line: {words}; `{command} --help` lists what it takes"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        if error.keyword is not None:
            return f"{error.keyword} needs a value; `{command} --help` lists what it takes"
        return f"`{command}` needs {error.argument.name}; `{command} --help` says what it is"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        name, known = error.unused_tokens[0], known_commands(error.command_chain or ())
        return f"there is no command {brief(name)}; `{command} --help` lists them{did_you_mean(name, known)}"
    if isinstance(error, CoercionError) and error.target_type is bool and error.token is not None:
        return f"{error.token.keyword} is on when it is typed, and takes no value; it has {brief(error.token.value)}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice; leave one out"
    return str(error)


def known_commands(chain: Sequence[str]) -> list[str]:
    """Return the commands of the program, or those below one of them."""
    group = app
    for name in chain:
        group = group[name]
    return [name for name in group if not name.startswith("-")]


def _is_foreign_number(word: str) -> bool:
    """Return whether a word has digits of another script, which Python would take for a number."""
    with contextlib.suppress(ValueError):
        return not word.isascii() and math.isfinite(float(word))
    return False


def _is_number(word: str, kind: type) -> bool:
    """Return whether a word is a number, and a whole one if `kind` is int; 0x10 and 3.0 count as whole."""
    if _is_foreign_number(word):
        return False
    try:
        if kind is int and "." not in word:
            int(word, {"0x": 16, "0o": 8, "0b": 2}.get(word.lstrip("+-")[:2].lower(), 10))
            return True
        number = float(word)
        return kind is float or number.is_integer()
    except ValueError:
        return False
