"""What a saved model says about itself, believed only after a look.

A model file may come from anywhere. Its description is text that says which networks to build, and a network is as
large as its description says; so every entry that is used later is checked here for its kind and its range, and
`load_model` compares the sizes with those of the tensors in the file before it builds anything.
"""

import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

from narrows.errors import NarrowsError
from narrows.networks import NetworkConfig, has_conv_plan
from narrows.objective import ERRORS


def network_of(description: dict[str, Any]) -> NetworkConfig:
    """Return the networks that a description is about; refuse one that cannot be true, naming entry, rule and value."""
    stored = description.get("network")
    _rule("network", stored, "an object", type(stored) is dict)
    network = _network(stored or {})
    kept = description.get("kept")
    different = _list(kept, network.n, _whole) and len(set(kept or ())) == network.n
    _rule("kept", kept, f"{network.n} different whole numbers from 0 on", different)
    columns = network.shape[0] if len(network.shape) == 1 else 0
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "tau": ("a number above 0, or null", lambda v: v is None or _above_zero(v)),
        "error": (f"one of {', '.join(ERRORS)}", lambda v: v in tuple(ERRORS)),
        "data": ("a text", _text),
        "columns": (f"a list of {columns} names", lambda v: _list(v, columns, _text)),
        "units": (f"a shift and a unit for each of {columns} columns", lambda v: _units(v, columns)),
    }
    for name in rules.keys() & description.keys():
        rule, holds = rules[name]
        _rule(name, description[name], rule, holds(description[name]))
    return network


def _network(stored: dict[str, Any]) -> NetworkConfig:
    kinds = get_type_hints(NetworkConfig)
    for name in stored:
        if name not in kinds:
            raise NarrowsError(f"network has an entry {name!r:.80} that is not known")
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(NetworkConfig)}
    content = {**defaults, **stored}
    for name in ("kind", "output"):
        choices = get_args(kinds[name])
        _rule(name, content[name], f"one of {', '.join(choices)}", content[name] in choices)
    shape = content["shape"]
    _rule("shape", shape, "a list of one or three whole numbers from 1 on", any(_list(shape, k, _size) for k in (1, 3)))
    _rule("n", content["n"], "a whole number from 0 on", _whole(content["n"]))
    _rule("width", content["width"], "a whole number from 1 on", _size(content["width"]))
    _rule("direct", content["direct"], "true or false", type(content["direct"]) is bool)
    if content["kind"] == "conv":
        _rule("shape", shape, "that of images with convolutional networks", has_conv_plan(tuple(shape)))
    return NetworkConfig(**{**content, "shape": tuple(shape)})


def _units(value: Any, columns: int) -> bool:
    if type(value) is not dict or set(value) != {"shift", "unit"}:
        return False
    return _list(value["shift"], columns, _number) and _list(value["unit"], columns, _above_zero)


def _list(value: Any, length: int, holds: Callable[[Any], bool]) -> bool:
    return type(value) is list and len(value) == length and all(map(holds, value))


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _above_zero(value: Any) -> bool:
    return _number(value) and value > 0


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _size(value: Any) -> bool:
    return type(value) is int and value >= 1


def _text(value: Any) -> bool:
    return type(value) is str


def _rule(name: str, value: Any, rule: str, holds: bool) -> None:
    if not holds:
        raise NarrowsError(f"{name} must be {rule}; it is {value!r:.80}")
