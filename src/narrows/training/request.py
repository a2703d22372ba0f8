"""The same command again: whether a folder holds the run that it asks for.

A run stores the settings as they were asked for (request.json), beside those that were decided (config.json). So a
command that is sent again can be recognised before any data are read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from narrows._util.errors import NarrowsError, setting
from narrows.runs.folder import RunFolder, has_begun, resuming
from narrows.runs.front import FRONT, FrontFolder
from narrows.training.config import TrainConfig, config_from_dict, to_dict

EQUIPMENT = ("device", "threads", "track", "checkpoint_every", "compile")
"""Settings that another machine may need otherwise; a run that continues takes the present ones."""


def is_begun(folder: RunFolder, asked: TrainConfig) -> bool:
    """Return whether a folder holds the run that `asked` asks for.

    Raises:
        NarrowsError: It holds a front, a part of a front, or a run with other settings.
    """
    if FrontFolder(folder.path).about.exists():
        raise NarrowsError(f"{folder.path} holds a front, not a single run; choose another {setting('out')}")
    check_no_level(folder)
    if not folder.config.exists():
        return False
    known = folder.read_request()
    source = str(folder.request if known is not None else folder.config)
    _check_same(folder.path, config_from_dict(known or folder.read_config(), source), asked)
    return True


def is_front_begun(folder: FrontFolder, taus: Sequence[float], asked: TrainConfig) -> bool:
    """Return whether a folder holds the front that `taus` and `asked` ask for.

    Raises:
        NarrowsError: It holds a single run, or a front with other taus or settings.
    """
    if not folder.about.exists():
        if has_begun(folder.path):
            raise NarrowsError(f"{folder.path} holds a single run, not a front; choose another {setting('out')}")
        return False
    about = folder.read_about()
    _check_same(folder.path, config_from_dict(about["config"], str(folder.about)), asked, about["taus"], list(taus))
    return True


def check_no_level(folder: RunFolder) -> None:
    """Raise if a run is one tau of a front, which is continued as a whole."""
    if (folder.path.parent / FRONT).exists():
        raise NarrowsError(f"{folder.path} is one tau of a front; continue with `{resuming(folder.path.parent)}`")


def with_equipment(stored: TrainConfig, asked: TrainConfig) -> TrainConfig:
    """Return a run's settings with the equipment that is asked for now."""
    return replace(stored, **{name: getattr(asked, name) for name in EQUIPMENT})


def _check_same(where: object, known: TrainConfig, asked: TrainConfig, *taus: list[float]) -> None:
    """Raise if settings differ on which the run depends, naming each of them."""
    before, now = to_dict(known), to_dict(asked)
    changed = [
        _change(name, before[name], now[name]) for name in now if name not in EQUIPMENT and before[name] != now[name]
    ]
    if taus and taus[0] != taus[1]:
        changed.append(_change("taus", *(",".join(f"{tau:g}" for tau in some) for some in taus)))
    if changed:
        raise NarrowsError(
            f"{where} was started with other settings: {'; '.join(changed)}; send the command it was started with, or "
            f"choose another {setting('out')}"
        )


def _change(name: str, before: Any, now: Any) -> str:
    shown = ["not given" if value is None else str(value) for value in (before, now)]
    return f"{setting(name)} was {shown[0]} and is {shown[1]}"
