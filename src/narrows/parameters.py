"""The estimator's parameters: their rules, and errors of training said in their names."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any


def check_parameters(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be run, naming the parameter, the rule and the value, as scikit-learn does."""
    for name in ("batch_size", "width"):
        whole(name, given[name])
    for name in ("n_components", "max_steps"):
        whole(name, given[name], optional=True)
    if given["tau"] is None:
        between("explained", given["explained"], 1.0, "the share of the variance to keep")
    else:
        between("tau", given["tau"], float("inf"), "the squared error of one example")
    choices = {"recipe": ("fast", "paper"), "device": ("auto", "cpu", "cuda", "mps")}
    if not callable(given["network"]):
        choices["network"] = ("auto", "mlp", "conv")
    for name, known in choices.items():
        one_of(name, given[name], known, " or a callable" if name == "network" else "")


def one_of(name: str, value: Any, known: Sequence[str], hint: str = "") -> None:
    """Refuse what is none of the known words."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}{hint}; it is {value!r}")


def whole(name: str, value: Any, optional: bool = False) -> None:
    """Refuse what is no whole number from 1 on."""
    if value is None and optional:
        return
    if type(value) is bool or not isinstance(value, Integral) or value < 1:
        none = " or None" if optional else ""
        raise ValueError(f"{name} must be a whole number from 1 on{none}; it is {value!r}")


def between(name: str, value: Any, most: float, meaning: str) -> None:
    """Refuse what is no number above 0 and below `most`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 < value < most:
        rule = f"between 0 and {most:g}" if most < float("inf") else "a number above 0"
        raise ValueError(f"{name} must be {rule}, {meaning}; it is {value!r}")


def in_parameters(text: str) -> str:
    """Say an error of training in the estimator's parameters instead of the command line's options."""
    for option, parameter in (("--batch", "batch_size"), ("--steps", "max_steps"), ("--n ", "n_components ")):
        text = text.replace(option, parameter)
    return text.replace("--", "")
