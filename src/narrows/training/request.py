"""The same command again: whether a folder holds the run that it asks for.

A run stores the settings as they were asked for (request.json), beside those that were decided (config.json). So a
command that is sent again can be recognised before any data are read.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from narrows._util.errors import NarrowsError, setting
from narrows.data import SETS
from narrows.data.load import HUB
from narrows.runs.folder import IN_MEMORY, RunFolder, has_begun, read_settings, resuming
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
    way_on = f"continue with `{resuming(folder.path)}`"
    if not folder.request.exists():  # of an earlier version, or killed between the two files
        if to_dict(_stored(folder.read_config(), folder.config)) == to_dict(asked):
            return True
        raise NarrowsError(f"{folder.path} has no {folder.request.name}, by which a command finds its run; {way_on}")
    try:
        known = _stored(read_settings(folder.request), folder.request)
    except NarrowsError as error:
        raise NarrowsError(f"{error.marked}; {way_on}") from None
    _check_same(folder.path, known, asked, moved=(folder.config, folder.read_config().get("data")))
    return True


def _stored(settings: dict[str, Any], source: Path) -> TrainConfig:
    return config_from_dict(settings, str(source))


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
    known = config_from_dict(about["config"], str(folder.about))
    _check_same(folder.path, known, asked, about["taus"], list(taus), moved=(folder.about, known.data))
    return True


def check_no_level(folder: RunFolder) -> None:
    """Raise if a run is one tau of a front, which is continued as a whole."""
    if (folder.path.parent / FRONT).exists():
        raise NarrowsError(f"{folder.path} is one tau of a front; continue with `{resuming(folder.path.parent)}`")


def with_equipment(stored: TrainConfig, asked: TrainConfig) -> TrainConfig:
    """Return a run's settings with the equipment that is asked for now."""
    return replace(stored, **{name: getattr(asked, name) for name in EQUIPMENT})


def _check_same(
    where: object, known: TrainConfig, asked: TrainConfig, *taus: list[float], moved: tuple[Path, object]
) -> None:
    """Raise if settings differ on which the run depends, naming each of them.

    `moved` is the file that says where the data are now, which a user may have edited, and what it says.
    """
    before, now = to_dict(known), to_dict(asked)
    file, place = moved
    if _place(now["data"]) in (_place(before["data"]), _place(str(place))):
        now["data"] = before["data"]
    changed = [
        _change(name, before[name], now[name]) for name in now if name not in EQUIPMENT and before[name] != now[name]
    ]
    if taus and taus[0] != taus[1]:
        changed.append(_change("taus", *(",".join(f"{tau:g}" for tau in some) for some in taus)))
    if changed:
        has_moved = f', write into {file} where its "data" have moved' if before["data"] != now["data"] else ""
        raise NarrowsError(
            f"{where} was started with other settings: {'; '.join(changed)}; send the command it was started with"
            f"{has_moved}, or choose another {setting('out')}"
        )


def _place(data: str) -> str:
    """Return the data's name, as an absolute path if it may be one, whether or not it still exists."""
    is_path = data not in SETS and data != IN_MEMORY and not data.startswith(HUB) and "://" not in data
    return os.path.abspath(os.path.expanduser(data)) if is_path else data


def _change(name: str, before: Any, now: Any) -> str:
    shown = ["not given" if value is None else str(value) for value in (before, now)]
    return f"{setting(name)} was {shown[0]} and is {shown[1]}"
