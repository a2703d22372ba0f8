"""The plan of a sweep: which runs there are, from settings of which any may be a list.

    data = "my.npy"
    explained = [0.8, 0.9, 0.95]
    seed = [0, 1]

    [sweep]
    combine = "product"     # six runs; "zip" takes the first of each list, then the second, ...
    cpus = 2                # per run

A run's name is made of the settings that are lists: explained-0.8-seed-0. All settings are checked, in every
combination, before anything starts.
"""

import contextlib
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from narrows._util.checks import COUNT, FROM_ZERO, Rule, check, plain
from narrows._util.errors import NarrowsError, did_you_mean, setting
from narrows._util.text import brief
from narrows.data import absolute
from narrows.runs.folder import read_settings
from narrows.sweeps.engine import Resources
from narrows.training.config import TrainConfig, check_known, config_from_dict, to_dict
from narrows.training.front import checked_taus
from narrows.training.request import EQUIPMENT

Combine = Literal["product", "zip"]
NAMES = [one.name for one in fields(TrainConfig)]
SWEEP = "sweep"
"""The name of the table that says how settings are combined, and what a run takes."""
MOST = 10_000
"""Runs of a sweep, at most."""
LONGEST = 40
"""Characters of a value in the name of a run."""
LONGEST_NAME = 200
"""Characters of such a name."""
RULES = {
    "combine": Rule("product or zip", lambda value: value in get_args(Combine)),
    "cpus": COUNT,
    "gpus": FROM_ZERO,
    "jobs": COUNT,
    "taus": Rule("a list of numbers above 0", lambda value: type(value) is list),
}


@dataclass(frozen=True)
class Run:
    """One run of a sweep, or one front."""

    name: str
    """The name of its folder."""
    config: TrainConfig
    swept: dict[str, Any]
    """Those of its settings in which the runs differ."""


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep, and what each takes."""

    settings: dict[str, Any]
    """The settings as they were given; lists are swept."""
    runs: list[Run]
    combine: Combine = "product"
    taus: list[float] = field(default_factory=list)
    """With them, every run is a front."""
    task: Resources = field(default_factory=Resources)
    jobs: int | None = None

    def identity(self) -> dict[str, Any]:
        """Return what must stay the same when the sweep is resumed: all but what another machine may need otherwise."""
        kept = {name: value for name, value in self.settings.items() if name not in EQUIPMENT or type(value) is list}
        return {**kept, "combine": self.combine, "taus": self.taus}


def make_plan(source: "str | os.PathLike[str] | Mapping[str, Any]") -> Plan:
    """Return the plan that a .toml or .json file, or a dict of the same form, describes.

    Raises:
        NarrowsError: The file cannot be read, a setting is unknown or cannot be used, lists do not fit, or two runs
            are the same.
    """
    if isinstance(source, Mapping):
        return _plan(dict(source), "the sweep")
    return _plan(read_settings(Path(source)), str(source))


def _plan(content: dict[str, Any], source: str) -> Plan:
    about = content.pop(SWEEP, {})
    with _named(source):
        how = _how(about)
        if not content and "taus" not in how:
            raise NarrowsError('there are no settings; give some, such as data = "my.npy" and explained = [0.8, 0.9]')
        settings = {name: _value(value) for name, value in content.items()}
        _check_places(settings)
    check_known(settings, source)
    with _named(source):
        _check_lists(settings)
        if "data" in settings:
            settings["data"] = _each(settings["data"], lambda one: absolute(one) if type(one) is str else one)
        settings.setdefault("threads", how.get("cpus", 1))
        swept = {name: value for name, value in settings.items() if isinstance(value, list)}
        combined = _combined(swept, how.get("combine", "product"))
    runs = [
        Run(name, config_from_dict({**settings, **values}, source), values)
        for name, values in zip(_names(combined), combined, strict=True)
    ]
    with _named(source):
        taus = [checked_taus(run.config, how["taus"]) for run in runs if "taus" in how]
        _check_different(runs)
    task = Resources(how.get("cpus", 1), how.get("gpus", 0))
    return Plan(settings, runs, how.get("combine", "product"), taus[0] if taus else [], task, how.get("jobs"))


@contextlib.contextmanager
def _named(source: str) -> Iterator[None]:
    """Put the source before the errors of the block."""
    try:
        yield
    except NarrowsError as error:
        raise NarrowsError(f"{source}: {error.marked}") from None


def _how(about: Any) -> dict[str, Any]:
    """Return the checked table [sweep]."""
    if not isinstance(about, Mapping):
        raise NarrowsError(f"{SWEEP} must be a table with {', '.join(RULES)}; it is {brief(about)}")
    for name in about:
        if name in NAMES:
            raise NarrowsError(f"{name} is a setting of the runs; put it above the table [{SWEEP}]")
        if name not in RULES:
            raise NarrowsError(f"[{SWEEP}] has an unknown entry {brief(name)}{did_you_mean(str(name), RULES)}")
    how = {name: _value(value) for name, value in about.items()}
    check(how, {name: RULES[name] for name in how}, f"{SWEEP}.")
    return how


def _value(value: Any) -> Any:
    """Return a setting's value, or the list of its values, as JSON can hold it."""
    if hasattr(value, "tolist"):  # an array or a number of numpy or torch
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value, or each value of a list, after a change."""
    return [change(one) for one in value] if isinstance(value, list) else change(value)


def _check_places(settings: Mapping[Any, Any]) -> None:
    """Raise if something belongs into the table [sweep]."""
    for name in settings:
        if name in RULES:
            raise NarrowsError(f"{name} is not a setting of the runs; put it into the table [{SWEEP}]")
        if not isinstance(name, str):
            raise NarrowsError(f"names of settings are texts; {brief(name)} is not")


def _check_lists(settings: Mapping[str, Any]) -> None:
    """Raise if a setting is an empty list, or has values that are lists or tables; other rules are those of a run."""
    for name, value in settings.items():
        if value == []:
            raise NarrowsError(f"{setting(name)} is an empty list; give it values, or leave it out")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, list | Mapping):
                raise NarrowsError(f"{setting(name)} must be a value or a list of values; it has {brief(one)}")


def _combined(swept: dict[str, list[Any]], combine: Combine) -> list[dict[str, Any]]:
    """Return the swept settings of every run."""
    lengths = {name: len(values) for name, values in swept.items()}
    if combine == "zip" and len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise NarrowsError(f"lists that are combined by zip must be equally long; they have {listed}")
    zipped = combine == "zip" and swept
    count = next(iter(lengths.values())) if zipped else math.prod(lengths.values())
    if count > MOST:
        raise NarrowsError(f"a sweep has at most {MOST:,} runs; these are {count:,}")
    tuples = zip(*swept.values(), strict=True) if zipped else itertools.product(*swept.values())
    return [dict(zip(swept, values, strict=True)) for values in tuples]


def _names(combined: list[dict[str, Any]]) -> list[str]:
    """Return a readable name for every run; where two would have the same, the second gets a number."""
    names: dict[str, None] = {}
    for values in combined:
        stem = "-".join(_part(name, value) for name, value in values.items())[:LONGEST_NAME] or "run"
        others = (f"{stem}-{number}" for number in itertools.count(2))
        names[next(name for name in (stem, *itertools.islice(others, len(names))) if name not in names)] = None
    return list(names)


def _part(name: str, value: Any) -> str:
    """Return a setting and its value as a part of a folder's name."""
    text = Path(value).stem if name == "data" else str(value)
    return f"{name.replace('_', '-')}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', text)[:LONGEST]}"


def _check_different(runs: list[Run]) -> None:
    """Raise if two runs have the same settings."""
    known: dict[str, str] = {}
    for run in runs:
        key = repr(sorted(to_dict(run.config).items()))
        if key in known:
            values = ", ".join(f"{name} = {value}" for name, value in run.swept.items())
            raise NarrowsError(f"two runs are the same: {values}; leave one out")
        known[key] = run.name
