"""Rules for values that come from a file or from a caller: what a value must be, in words, and whether it is that.

check({"n": "four"}, {"n": COUNT})      n must be a whole number from 1 on; it is 'four'
argument("n", 0, COUNT)                 n must be a whole number from 1 on; it is 0
"""

import sys
from collections.abc import Callable, Collection, Mapping
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
FLAG = Rule("true or false", lambda value: type(value) is bool)
TEXT = Rule("a text", lambda value: type(value) is str)
OBJECT = Rule("an object", lambda value: type(value) is dict)
MEASURED = Rule("a number from 0 on, infinite or not", lambda value: type(value) in (int, float) and value >= 0)


def one_of(choices: Collection[str]) -> Rule:
    """Return the rule that a value is one of these texts."""
    return Rule(f"one of {', '.join(choices)}", lambda value: type(value) is str and value in choices)


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


def argument(name: str, value: Any, rule: Rule) -> Any:
    """Return an argument of a public function as a plain Python value; raise if it breaks its rule.

    Numbers of numpy and torch count as numbers.
    """
    plain = value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
    if not rule.holds(plain):
        raise NarrowsError(f"{setting(name)} must be {rule.words}; it is {brief(value)}")
    return plain
