"""What is said about a run at its start, and what is stored with its model at its end."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from narrows import _version
from narrows.data import Data, Splits
from narrows.model import VAE, save_model
from narrows.training.config import TrainConfig
from narrows.training.keeping import Kept
from narrows.training.units import Units


def describe(
    config: TrainConfig, data: Data, splits: Splits, units: Units | None, weights: int, device: str
) -> list[str]:
    """Say in a few lines what is trained, on what."""
    shape = data.examples.shape
    lines = [f"data: {data.name}, {len(data.examples):,} examples of {'x'.join(map(str, shape))}"]
    if data.note:
        lines[0] += f"; {data.note}"
    train, validation, test = (f"{len(index):,}" for index in (splits.train, splits.validation, splits.test))
    lines.append(f"split: {train} train, {validation} validation, {test} test")
    lines.append(
        f"model: {config.network}, width {config.width}, {config.n} latent dimensions, {weights:,} weights, on {device}"
    )
    if units is not None:
        measure = "standard deviation" if config.scaling == "standard" else "range"
        lines.append(f"scaling: each of {len(units.unit)} columns by its own {measure}; tau counts in those")
    kind = "" if config.error == "squared" else f"{config.error} "
    if config.tau is None:
        lines.append(f"promise: none; {kind}error as small as it gets")
    else:
        per_value = config.tau / int(np.prod(shape))
        lines.append(f"promise: {kind}error <= {config.tau:g} an input ({per_value:.3g} a value)")
    return lines


def save_kept(
    path: Path,
    model: VAE,
    kept: Kept,
    met: bool,
    config: TrainConfig,
    data: Data,
    fingerprint: str,
    units: Units | None,
) -> None:
    """Write the model with its description: it takes and gives the user's units, whatever it was trained in."""
    about: dict[str, Any] = {
        "provisioned": config.n,
        "tau": config.tau,
        "error": config.error,
        "met_on_validation": met,
        "validation_error": kept.validation.error,
        "step": kept.step,
        "data": data.name,
        "fingerprint": fingerprint,
    }
    if data.columns:
        about["columns"] = list(data.columns)
    if units is not None:
        about["units"] = {"shift": units.shift.tolist(), "unit": units.unit.tolist()}
        scaling = model.scaling.in_units(torch.from_numpy(units.shift), torch.from_numpy(units.unit))
        model = VAE(model.encoder, model.decoder, scaling, model.kept, model.network)
    save_model(model, path, about)


def versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    packages = {name: version(name) for name in ("torch", "numpy", "accelerate")}
    return {"narrows": _version.__version__, "python": platform.python_version(), **packages}
