"""Rules for values that come from a file or from a caller: what a value must be, in words, and whether it is that.

check({"n": "four"}, {"n": COUNT})      n must be a whole number from 1 on; it is 'four'
argument("n", 0, COUNT)                 n must be a whole number from 1 on; it is 0

Arguments are checked where an object is made or a run begins, not in every batch. What is called once per batch runs
unchecked, and looks for the mistake only after something has failed:

    try:
        return torch.rand(rows, n, generator=generator)
    except Exception:
        argument("rows", rows, COUNT)           # raises if this was it
        raise
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from narrows._util.errors import NarrowsError, setting
from narrows._util.text import brief


class Rule(NamedTuple):
    """What a value must be."""

    words: str
    """The rule as it ends the sentence "n must be ..."."""
    holds: Callable[[Any], bool]
    """Whether a value is that; called with a value of any type."""


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


NUMBER = Rule("a number", _number)
ABOVE_ZERO = Rule("a number above 0", lambda value: _number(value) and value > 0)
SHARE = Rule("above 0 and at most 1", lambda value: _number(value) and 0 < value <= 1)
WHOLE = Rule("a whole number from 0 on", lambda value: type(value) is int and value >= 0)
COUNT = Rule("a whole number from 1 on", lambda value: type(value) is int and value >= 1)
MOST = 1_000_000
SIZE = Rule(f"a whole number from 1 to {MOST:,}", lambda value: type(value) is int and 1 <= value <= MOST)
"""The size of a layer or of a latent space: what does not fit into any memory is a slip."""
SEED = Rule("a whole number between 0 and 2^63", lambda value: type(value) is int and 0 <= value < 2**63)
FROM_ZERO = Rule("a number of at least 0", lambda value: _number(value) and value >= 0)
FLAG = Rule("true or false", lambda value: type(value) is bool)
TEXT = Rule("a text", lambda value: type(value) is str)
OBJECT = Rule("an object", lambda value: type(value) is dict)
FUNCTION = Rule("a function", callable)
MEASURED = Rule("a number from 0 on, infinite or not", lambda value: type(value) in (int, float) and value >= 0)


def one_of(choices: Collection[str]) -> Rule:
    """Return the rule that a value is one of these texts."""
    return Rule(f"one of {', '.join(choices)}", lambda value: type(value) is str and value in choices)


def instance_of(kind: type | tuple[type, ...], words: str) -> Rule:
    """Return the rule that a value is an object of this class; `words` are "a Controller"."""
    return Rule(words, lambda value: isinstance(value, kind))


def optional(rule: Rule) -> Rule:
    """Return the rule that a value is None, or what `rule` says."""
    return Rule(f"{rule.words}, or null", lambda value: value is None or rule.holds(value))


def list_of(rule: Rule, length: int | None = None) -> Rule:
    """Return the rule that a value is a list of such values, and has this length if one is given."""
    words = f"a list, each entry {rule.words}" if length is None else f"a list of {length}, each {rule.words}"
    return Rule(words, lambda v: type(v) is list and length in (None, len(v)) and all(map(rule.holds, v)))


def whole_below(end: int) -> Rule:
    """Return the rule that a value is a whole number from 0 to end - 1."""
    return Rule(f"a whole number below {end}", lambda value: WHOLE.holds(value) and value < end)


def indices_below(end: int) -> Rule:
    """Return the rule that a value is a list of different whole numbers from 0 to end - 1."""
    each = list_of(whole_below(end))
    return Rule(f"a list of different whole numbers below {end}", lambda v: each.holds(v) and len(set(v)) == len(v))


def check(content: Mapping[str, Any], rules: Mapping[str, Rule], of: str = "") -> None:
    """Raise if an entry breaks its rule; a missing entry counts as None.

    Arguments:
        content: The entries.
        rules: The rule of each entry that is checked.
        of: What the entries belong to, to be put before their names: "heldout.".
    """
    for name, rule in rules.items():
        if not rule.holds(content.get(name)):
            raise NarrowsError(f"{of}{name} must be {rule.words}; it is {brief(content.get(name))}")


def argument(name: str, value: Any, rule: Rule, or_none: bool = False) -> Any:
    """Return an argument of a public function as a plain Python value; raise if it breaks its rule.

    Numbers of numpy and torch count as numbers.

    Arguments:
        name: The argument's name.
        value: What was given.
        rule: What it must be.
        or_none: Whether it may also be None.
    """
    if or_none and value is None:
        return None
    found = plain(value)
    if not rule.holds(found):
        raise NarrowsError(
            f"{setting(name)} must be {rule.words}{', or None' if or_none else ''}; it is {brief(value)}"
        )
    return found


def several(name: str, value: Any, each: Rule, words: str, lengths: Collection[int] = ()) -> list[Any]:
    """Return an argument that is several values as a list of plain ones; raise if it is not that.

    Arguments:
        name: The argument's name.
        value: What was given: a list, a tuple, a range, or an array or tensor with one axis.
        each: What each value must be.
        words: What the argument must be, as it ends the sentence "shape must be ...".
        lengths: How many values there may be; any number by default.
    """
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        found = value.tolist()
    else:
        found = [plain(one) for one in value] if _is_sequence(value) else None
    if found is None or (lengths and len(found) not in lengths) or not all(map(each.holds, found)):
        raise NarrowsError(f"{setting(name)} must be {words}; it is {brief(value)}")
    return list(found)


def path_argument(name: str, value: Any, words: str = "the path of a file or folder") -> Path:
    """Return an argument that is a path, given as text or as a Path; raise if it is neither."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text:
            return Path(text)
    raise NarrowsError(f"{setting(name)} must be {words}, as text or a Path; it is {brief(value)}")


def new_file(name: str, value: Any) -> Path:
    """Return the path of a file that is to be written; raise if its folder does not exist or it is a folder."""
    path = path_argument(name, value)
    if path.is_dir():
        raise NarrowsError(f"{setting(name)} must be a file, and {path} is a folder; add the name of a file")
    if not path.parent.is_dir():
        raise NarrowsError(f"{setting(name)}: the folder {path.parent} does not exist; create it first")
    return path


def plain(value: Any) -> Any:
    """Return a number of numpy or torch as Python's; everything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)
