"""One safetensors file per model: its tensors and a description in JSON, so that loading runs no code.

A model file may come from anywhere. Its description says which networks to build, and a network is as large as its
description says. So every entry that is used later is checked for its type and its range, and `load_model` compares
the sizes with those of the tensors in the file before it builds anything.
"""

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import safetensors
import safetensors.torch
import torch

from narrows._util.errors import NarrowsError
from narrows._util.files import check_regular, write_atomic
from narrows._util.text import printable
from narrows.model.vae import VAE
from narrows.networks import NetworkConfig, build, has_conv_plan
from narrows.objective import ERRORS

FORMAT = "narrows.vae.2"
FLOATS = {"F64", "F32", "F16", "BF16"}
"""The types that weights may have, as safetensors names them."""


Rules = dict[str, tuple[str, Callable[[Any], bool]]]
"""Entry -> (what it must be, in words; whether a value is that)."""


def save_model(model: VAE, path: Path, about: dict[str, Any] | None = None) -> None:
    """Write a model and its description into one safetensors file, completely or not at all.

    Arguments:
        model: A model with built-in networks.
        path: The file.
        about: Further entries of the description, such as tau.
    """
    assert model.network is not None, "only networks built from a NetworkConfig can be described"
    description = {"format": FORMAT, "network": asdict(model.network), "kept": model.kept, **(about or {})}
    tensors = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
    write_atomic(path, safetensors.torch.save(tensors, {"narrows": json.dumps(description)}))


def read_description(path: Path) -> dict[str, Any]:
    """Return the description inside a saved model.

    Arguments:
        path: The file.

    Returns:
        Its entries: network, kept dimensions, tau, and so on.

    Raises:
        NarrowsError: If the file is not a model of this format.
    """
    if Path(path).is_dir():
        raise NarrowsError(f"{path} is a folder; give the file in it: {Path(path) / 'model.safetensors'}")
    check_regular(path)
    try:
        with _utf8(Path(path)) as named, safetensors.safe_open(named, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("narrows", "null"))
    except (OSError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise NarrowsError(f"cannot read the model {path}: {printable(error)}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise NarrowsError(f"{path} is not a model of this version of narrows (expected format {FORMAT})")
    return description


def load_model(path: Path | str) -> VAE:
    """Load a saved model, ready for inference on the CPU.

    Whatever the file says, no code is run and no more memory is taken than its tensors need.

    Arguments:
        path: The file.

    Returns:
        The model, in evaluation mode.

    Raises:
        NarrowsError: If the file is not a model of this format, or its description and tensors do not agree.
    """
    path = Path(path)
    description = read_description(path)
    try:
        network = _read_network(description)
    except NarrowsError as error:
        raise NarrowsError(f"the model {path} has a damaged description: {error}") from None
    with torch.random.fork_rng(devices=[]):  # building draws initial values; the caller's generator stays as it is
        try:
            with torch.device("meta"):
                expected = {name: list(t.shape) for name, t in _untrained(network).state_dict().items()}
        except (RuntimeError, OverflowError, TypeError):  # sizes beyond any address
            expected = None
        if _stored_shapes(path) != expected:
            raise NarrowsError(f"the model {path} does not fit its own description: it is damaged")
        model = _untrained(network)
    model.kept = description["kept"]
    with _utf8(path) as named:
        tensors = safetensors.torch.load_file(named)
    model.scaling.to(tensors["scaling.shift"].dtype)  # columns with their own units are in double precision
    model.load_state_dict(tensors)
    return model.eval()


@contextlib.contextmanager
def _utf8(path: Path) -> Iterator[Path]:
    """Yield a path to the same file that safetensors can open: it takes only names that are valid UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory(prefix="narrows-") as folder:
            link = Path(folder) / "model.safetensors"
            link.symlink_to(path.absolute())
            yield link
    else:
        yield path


def _untrained(network: NetworkConfig) -> VAE:
    n = max(network.n, 1)
    encoder, decoder, scaling = build(replace(network, n=n))
    model = VAE(encoder, decoder, n, scaling=scaling, network=network)
    return model if network.n else model.narrow([])


def _stored_shapes(path: Path) -> dict[str, list[int]]:
    """Return the tensors' shapes by name; only the header is read."""
    with _utf8(path) as named, safetensors.safe_open(named, framework="pt") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        others = {part.get_dtype() for part in parts.values()} - FLOATS
        if others:
            raise NarrowsError(f"the model {path} has weights of type {min(others)}; they must be floats")
        return {name: part.get_shape() for name, part in parts.items()}


def _read_network(description: dict[str, Any]) -> NetworkConfig:
    """Return the networks of a description; raise if an entry cannot be true."""
    _check(description, {"network": ("an object", lambda v: type(v) is dict)})
    stored = description["network"]
    choices = {name: get_args(hint) for name, hint in get_type_hints(NetworkConfig).items()}
    unknown = [name for name in stored if name not in choices]
    if unknown:
        raise NarrowsError(f"network has an entry {unknown[0]!r:.80} that does not exist")
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(NetworkConfig)}
    stored = {**defaults, **stored}
    network_rules: Rules = {
        "kind": (f"one of {', '.join(choices['kind'])}", lambda v: v in choices["kind"]),
        "output": (f"one of {', '.join(choices['output'])}", lambda v: v in choices["output"]),
        "shape": ("one or three whole numbers from 1 on", lambda v: _list(v, 1, _size) or _list(v, 3, _size)),
        "n": ("a whole number from 0 on", _whole),
        "width": ("a whole number from 1 on", _size),
        "direct": ("true or false", lambda v: type(v) is bool),
    }
    _check(stored, network_rules)
    if stored["kind"] == "conv":
        _check(stored, {"shape": ("that of images with convolutional networks", lambda v: has_conv_plan(tuple(v)))})
    network = NetworkConfig(**{**stored, "shape": tuple(stored["shape"])})
    n, columns = network.n, network.shape[0] if len(network.shape) == 1 else 0
    rules: Rules = {
        "kept": (f"{n} different whole numbers from 0 on", lambda v: _list(v, n, _whole) and len(set(v)) == n),
        "tau": ("a number above 0, or null", lambda v: v is None or _above_zero(v)),
        "error": (f"one of {', '.join(ERRORS)}", lambda v: v in tuple(ERRORS)),
        "data": ("a text", _text),
        "columns": (f"a list of {columns} names", lambda v: _list(v, columns, _text)),
        "units": (f"a shift and a unit for each of {columns} columns", lambda v: _units(v, columns)),
    }
    _check(description, {name: rule for name, rule in rules.items() if name == "kept" or name in description})
    return network


def _check(content: dict[str, Any], rules: Rules) -> None:
    for name, (rule, holds) in rules.items():
        if not holds(content.get(name)):
            raise NarrowsError(f"{name} must be {rule}; it is {content.get(name)!r:.80}")


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
