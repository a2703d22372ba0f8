"""Reading dataclasses back from JSON: every entry is checked against the type of its field.

A file in a run's folder may be damaged, edited by hand, or come from a stranger. What passes here can be used in any
arithmetic that follows: whole numbers are not negative, and numbers are finite and can be squared.
"""

import dataclasses
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from narrows._util.checks import FLAG, TEXT, Rule
from narrows._util.errors import NarrowsError, did_you_mean
from narrows._util.text import brief, printable

LARGEST_WHOLE, LARGEST = 2**53, 1e100
"""Limits of what a file may hold: whole numbers that a float can hold too, and numbers whose cube is finite."""
WHOLE = Rule("a whole number from 0 on", lambda value: type(value) is int and 0 <= value <= LARGEST_WHOLE)
NUMBER = Rule("a number", lambda value: type(value) in (int, float) and abs(value) <= LARGEST)
RULES: dict[Any, Rule] = {int: WHOLE, float: NUMBER, str: TEXT, bool: FLAG}

Record = TypeVar("Record")
hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def read_record(kind: type[Record], content: Any, of: str = "") -> Record:
    """Build a dataclass from what a JSON file holds.

    Arguments:
        kind: The dataclass. Its fields are numbers, texts, truth values, lists, tuples, dicts by text, other
            dataclasses, or one of these and None.
        content: What was read.
        of: What the entries belong to, to be put before their names: "heldout.".

    Raises:
        NarrowsError: An entry is missing, unknown, or not of its field's type.
    """
    if type(content) is not dict:
        raise NarrowsError(f"{of.rstrip('.') or 'the content'} must be an object; it is {brief(content)}")
    fields: dict[str, Any] = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in content:
        if name not in fields:
            raise NarrowsError(f"{of}{printable(name)} does not exist{did_you_mean(name, fields)}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in content:
            values[name] = _value(hints(kind)[name], content[name], f"{of}{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise NarrowsError(f"{of}{name} is missing")
    return kind(**values)


def _value(kind: Any, value: Any, name: str) -> Any:
    if kind in RULES:
        _require(RULES[kind].holds(value), name, RULES[kind].words, value)
        return float(value) if kind is float else value
    if dataclasses.is_dataclass(kind):
        return read_record(kind, value, f"{name}.")  # type: ignore[arg-type]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (other,) = (argument for argument in arguments if argument is not type(None))
        return _value(other, value, name)
    if origin is Literal:
        _require(value in arguments, name, f"one of {', '.join(arguments)}", value)
        return value
    if origin is dict:
        _require(type(value) is dict, name, "an object", value)
        return {key: _value(arguments[1], one, f"{name}.{printable(key)}") for key, one in value.items()}
    container: Callable[[Any], Any] | None = {list: list, tuple: tuple}.get(origin)
    assert container is not None, f"no rule for {kind}"
    _require(type(value) is list, name, "a list", value)
    return container(_value(arguments[0], one, f"{name}[{i}]") for i, one in enumerate(value))


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise NarrowsError(f"{name} must be {rule}; it is {brief(value)}")
