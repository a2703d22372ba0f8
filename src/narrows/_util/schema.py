"""What nested data from a file must be: names, shapes and types, written down in the form of the data themselves.

    {"step": WHOLE, "weights": {"layer.bias": like(bias)}, "seen": Each(PAIR)}

`require` compares data with such a description and names the first entry that differs. It reads only what is described,
so data that pass can be used without another look. Rules for tensors are in tensors.py; this module loads no torch.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from narrows._util.checks import Rule
from narrows._util.errors import NarrowsError
from narrows._util.text import brief, printable


class Each(NamedTuple):
    """A list of any length, each entry as described."""

    entry: "Schema"


class Either(NamedTuple):
    """Data as the first or as the second description has them."""

    first: "Schema"
    second: "Schema"


class Some(NamedTuple):
    """A dict with no other keys than these, each entry as described where it is there."""

    entries: "Mapping[Any, Schema]"


Schema: TypeAlias = "Rule | Each | Either | Some | list[Schema] | Mapping[Any, Schema]"
"""The description of one value: a rule, a list, a choice, or a list or dict with exactly these entries."""


def require(value: Any, schema: Schema, name: str = "") -> None:
    """Raise a NarrowsError that names the first entry of `value` that is not as described."""
    if isinstance(schema, Rule):
        if not schema.holds(value):
            raise NarrowsError(f"{name} must be {schema.words}; it is {_shown(value)}")
    elif isinstance(schema, Each):
        if not isinstance(value, list):
            raise NarrowsError(f"{name} must be a list; it is {_shown(value)}")
        for i, one in enumerate(value):
            require(one, schema.entry, f"{name}[{i}]")
    elif isinstance(schema, Either):
        try:
            require(value, schema.first, name)
        except NarrowsError:
            require(value, schema.second, name)
    elif isinstance(schema, list):
        if not isinstance(value, list) or len(value) != len(schema):
            raise NarrowsError(f"{name} must be a list of {len(schema)}; it is {_shown(value)}")
        for i, (one, entry) in enumerate(zip(value, schema, strict=True)):
            require(one, entry, f"{name}[{i}]")
    elif isinstance(schema, Some):
        _require_entries(value, schema.entries, name, all_of_them=False)
    else:
        _require_entries(value, schema, name, all_of_them=True)


def _require_entries(value: Any, schema: Mapping[Any, Schema], name: str, all_of_them: bool) -> None:
    if not isinstance(value, dict):
        raise NarrowsError(f"{name or 'the content'} must be an object; it is {_shown(value)}")
    missing = [key for key in schema if all_of_them and key not in value]
    unknown = [key for key in value if key not in schema]
    for what, keys in (("lacks", missing), ("has an unknown entry", unknown)):
        if keys:
            raise NarrowsError(f"{name or 'the content'} {what} {printable(keys[0], 80)}")
    for key, one in value.items():
        require(one, schema[key], f"{name}.{key}" if name else str(key))


def exactly(expected: Any) -> Rule:
    """Return the rule that a value is this one: a number, a text, None, or a list or tuple of them."""
    return Rule(brief(expected), lambda value: _same(value, expected))


def _same(value: Any, expected: Any) -> bool:
    if type(value) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(_same, value, expected))
    return bool(value == expected)


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"a tensor of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    return brief(value)
