"""What a run stores with its model."""

import copy
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from narrows import _version
from narrows.model.vae import VAE
from narrows.training.selection import Candidate
from narrows.training.setup import Plan


def description(plan: Plan, kept: Candidate, met: bool) -> dict[str, Any]:
    """Return what is known about the model: it is stored in the model file."""
    config, data = plan.config, plan.data
    about: dict[str, Any] = {
        "provisioned": config.n,
        "tau": config.tau,
        "error": config.error,
        "met_on_validation": met,
        "validation_error": kept.validation.error,
        "step": kept.step,
        "data": data.name,
        "fingerprint": plan.fingerprint,
    }
    if data.columns:
        about["columns"] = list(data.columns)
    if data.table:
        about["table"] = [asdict(column) for column in data.table]
    if plan.units is not None:
        about["units"] = {"shift": plan.units.shift.tolist(), "unit": plan.units.unit.tolist()}
    return about


def in_users_units(plan: Plan, model: VAE) -> VAE:
    """Return the model as it is stored: it takes and returns the user's units, whatever it was trained in."""
    if plan.units is None:
        return model
    model = copy.deepcopy(model)
    model.scaling = model.scaling.in_units(*plan.units.tensors())
    return model


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    packages = {name: version(name) for name in ("torch", "numpy", "accelerate")}
    return {"narrows": _version.__version__, "python": platform.python_version(), **packages}
