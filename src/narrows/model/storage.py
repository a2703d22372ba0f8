"""One safetensors file per model: its tensors and a description in JSON, so that loading runs no code.

A model file may come from anywhere. Its description says which networks to build, and a network is as large as its
description says. So every entry that is used later is checked for its type and its range, and `load_model` compares
the sizes with those of the tensors in the file before it builds anything.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from narrows._util.checks import (
    ABOVE_ZERO,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    Rule,
    argument,
    check,
    instance_of,
    list_of,
    new_file,
    one_of,
    optional,
    path_argument,
)
from narrows._util.errors import NarrowsError
from narrows._util.files import check_regular, write_atomic
from narrows._util.text import brief, printable
from narrows.model.vae import VAE, GatedVAE
from narrows.networks import NetworkConfig, build, has_conv_plan
from narrows.objective import COUNT_ERRORS, ERRORS

FORMAT = "narrows.vae.2"
MODEL = instance_of(VAE, "a VAE, such as GatedVAE.narrow() returns")
FLOATS = {"F64", "F32", "F16", "BF16"}
"""The types that weights may have, as safetensors names them."""


def save_model(model: VAE, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
    """Write a model and its description into one safetensors file, completely or not at all.

    Arguments:
        model: A model with built-in networks, without gates.
        path: The file.
        about: Further entries of the description, such as tau.

    Raises:
        NarrowsError: `load_model` could not read the file: the networks are the user's own, the model has gates, or an
            entry of `about` cannot be stored. Or the folder of the file does not exist.
    """
    file = new_file("path", path)
    network = _describable(argument("model", model, MODEL))
    entries = argument("about", about, Rule("a dict of entries", OBJECT.holds), or_none=True)
    description = {"format": FORMAT, "network": asdict(network), "kept": model.kept, **(entries or {})}
    try:
        text = json.dumps(description)
        _read_network(json.loads(text))
    except NarrowsError as error:
        raise NarrowsError(f"the model cannot be saved: {error.marked}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise NarrowsError(f"about must hold numbers, texts, lists and dicts, as JSON does: {error}") from None
    tensors = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
    write_atomic(file, safetensors.torch.save(tensors, {"narrows": text}))


def _describable(model: VAE) -> NetworkConfig:
    """Return how the model's networks are built again; raise if that is not known."""
    if isinstance(model, GatedVAE):
        raise NarrowsError("a model with gates cannot be saved; save the model without them, model.narrow()")
    if model.network is None:
        raise NarrowsError(
            "only networks built from a NetworkConfig can be saved here; save your own with "
            "torch.save(model.state_dict(), path)"
        )
    if _expected_shapes(model.network) != {name: list(t.shape) for name, t in model.state_dict().items()}:
        raise NarrowsError("the model's networks are not those of its NetworkConfig, so they could not be built again")
    return model.network


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the description inside a saved model.

    Arguments:
        path: The file.

    Returns:
        Its entries: network, kept dimensions, tau, and so on.

    Raises:
        NarrowsError: If the file is not a model of this format.
    """
    path = path_argument("path", path)
    if path.is_dir():
        raise NarrowsError(f"{path} is a folder; give the file in it: {path / 'model.safetensors'}")
    check_regular(path)
    try:
        with path.open("rb"):
            pass  # safetensors calls every file that it cannot open missing
        with _utf8(path) as named, safetensors.safe_open(named, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("narrows", "null"))
    except OSError as error:
        raise NarrowsError(f"cannot read the model {path}: {error.strerror or error}; check the path") from error
    except (ValueError, RecursionError, safetensors.SafetensorError) as error:
        why = f"it is damaged, or not a model of narrows ({printable(error)})"
        raise NarrowsError(f"cannot read the model {path}: {why}; copy or train it again") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise NarrowsError(f"{path} is not a model of this version of narrows (expected format {FORMAT})")
    return description


def load_model(path: str | os.PathLike[str]) -> VAE:
    """Load a saved model, ready for inference on the CPU.

    Whatever the file says, no code is run and no more memory is taken than its tensors need.

    Arguments:
        path: The file.

    Returns:
        The model, in evaluation mode.

    Raises:
        NarrowsError: If the file is not a model of this format, or its description and tensors do not agree.
    """
    path = path_argument("path", path)
    description = read_description(path)
    try:
        network = _read_network(description)
    except NarrowsError as error:
        raise NarrowsError(f"the model {path} has a damaged description: {error}") from None
    with torch.random.fork_rng(devices=[]):  # building draws initial values; the caller's generator stays as it is
        if _stored_shapes(path) != _expected_shapes(network):
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


def _expected_shapes(network: NetworkConfig) -> dict[str, list[int]] | None:
    """Return the tensors' shapes by name, without making the tensors; None for sizes beyond any address."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return {name: list(t.shape) for name, t in _untrained(network).state_dict().items()}
    except (RuntimeError, OverflowError, TypeError, NarrowsError):
        return None


def _untrained(network: NetworkConfig) -> VAE:
    n = max(network.n, 1)
    encoder, decoder, scaling = build(replace(network, n=n))
    model = VAE(encoder, decoder, n, scaling=scaling, network=replace(network, n=n))
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
    check(description, {"network": OBJECT})
    stored = description["network"]
    known = {f.name: None if f.default is MISSING else f.default for f in fields(NetworkConfig)}
    unknown = [name for name in stored if name not in known]
    if unknown:
        raise NarrowsError(f"network has an entry {brief(unknown[0])} that does not exist")
    network = NetworkConfig(**{**known, **stored})
    if network.kind == "conv" and not has_conv_plan(network.shape):
        raise NarrowsError(f"shape must be that of images with convolutional networks; it is {brief(network.shape)}")
    n, columns = network.n, network.shape[0] if len(network.shape) == 1 else 0
    kept = list_of(WHOLE, n)
    rules = {
        "kept": Rule(f"{n} different whole numbers from 0 on", lambda v: kept.holds(v) and len(set(v)) == n),
        "tau": optional(ABOVE_ZERO),
        "error": one_of((*ERRORS, *COUNT_ERRORS)),
        "data": TEXT,
        "columns": list_of(TEXT, columns),
        "table": Rule("the columns of a table", lambda v: type(v) is list and all(map(_is_column, v))),
        "units": Rule(f"a shift and a unit for each of {columns} columns", lambda v: _are_units(v, columns)),
    }
    check(description, {name: rule for name, rule in rules.items() if name == "kept" or name in description})
    return network


def _is_column(value: Any) -> bool:
    if type(value) is not dict or set(value) != {"name", "kind", "levels"}:
        return False
    kinds = one_of(("number", "whole", "flag", "category"))
    return TEXT.holds(value["name"]) and kinds.holds(value["kind"]) and list_of(TEXT).holds(value["levels"])


def _are_units(value: Any, columns: int) -> bool:
    if type(value) is not dict or set(value) != {"shift", "unit"}:
        return False
    return list_of(NUMBER, columns).holds(value["shift"]) and list_of(ABOVE_ZERO, columns).holds(value["unit"])
