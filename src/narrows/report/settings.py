"""How to repeat a run: the command, every setting, and the versions it was made with."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from narrows.report.contents import RunContents
from narrows.report.html import Block, Command, Details, Table, Text
from narrows.runs.folder import IN_MEMORY
from narrows.runs.front import FrontFolder
from narrows.training.config import PROMISES, TrainConfig, to_dict


def options(settings: Any, left_out: Collection[str] = ()) -> list[str]:
    """Return the words of a command that give the settings of a dataclass that are not its defaults."""
    words = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name not in left_out and value != field.default:
            option = f"--{field.name.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
    return words


def command(run: RunContents) -> Block:
    """Return the command that repeats the run, or a sentence if its data were an array in memory."""
    if run.folder is None:
        return Text(f"Fitted in Python by `{run.call}`.")
    config, front = run.config, FrontFolder(run.folder.path.parent)
    if config.data == IN_MEMORY:
        return Text("The data were an array in memory; repeat the run from Python.")
    if not front.about.exists():
        return Command(["narrows", "train", config.data, *options(config, ["data"])])
    taus = ",".join(f"{tau:.12g}" for tau in front.read_about()["taus"])
    return Command(["narrows", "front", config.data, "--taus", taus, *options(config, ["data", *PROMISES])])


def settings(run: RunContents) -> list[Block]:
    """Return the command, the versions, and all settings beside their defaults."""
    blocks = [command(run)]
    if run.result is not None:
        versions = ", ".join(f"{name} {version}" for name, version in run.result.versions.items())
        blocks.append(Text(f"Made with {versions}; seed {run.result.seed}."))
    defaults = to_dict(TrainConfig())
    rows = [
        [name, shown(value), "" if value == defaults[name] else shown(defaults[name])]
        for name, value in to_dict(run.config).items()
    ]
    return [*blocks, Details("All settings", [Table(["setting", "value", "default, if different"], rows)])]


def shown(value: object) -> str:
    """Format a setting's value."""
    return "–" if value is None else str(value)
