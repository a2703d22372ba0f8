"""How a run is done again: the command, every setting, the versions it was made with."""

from dataclasses import fields

from narrows.fronts import FrontFolder
from narrows.report import elements
from narrows.report.story import Story
from narrows.runs import RunFolder
from narrows.training.config import PROMISES, TrainConfig
from narrows.training.entry import IN_MEMORY

DEFAULTS = TrainConfig()


def command(folder: RunFolder, config: TrainConfig) -> list[str] | None:
    """Return the words of the command that does the run again; None if its data were an array in memory."""
    if config.data == IN_MEMORY:
        return None
    front = FrontFolder(folder.path.parent)
    told = ["narrows", "train", config.data]
    left_out: tuple[str, ...] = ("data",)
    if front.about.exists():
        told = [
            "narrows",
            "front",
            config.data,
            "--taus",
            ",".join(f"{tau:.12g}" for tau in front.read_about()["taus"]),
        ]
        left_out = ("data", *PROMISES)
    for field in fields(TrainConfig):
        value = getattr(config, field.name)
        if field.name in left_out or value == getattr(DEFAULTS, field.name):
            continue
        option = f"--{field.name.replace('_', '-')}"
        told += [option] if value is True else [option, repr(value) if isinstance(value, float) else str(value)]
    return told


def settings(story: Story) -> str:
    """Return the command, the settings and the versions."""
    line = command(story.folder, story.config)
    if line is None:
        again = elements.paragraph("The data were an array in memory: repeat it from Python, with these settings.")
    else:
        again = elements.command(line)
    rows = []
    for field in fields(TrainConfig):
        value, default = getattr(story.config, field.name), getattr(DEFAULTS, field.name)
        shown = "–" if value is None else str(value)
        rows.append([field.name, shown, "" if value == default else "–" if default is None else str(default)])
    table = elements.table(["setting", "value", "default, where it differs"], rows)
    made = f"<details><summary>All settings</summary>{table}</details>"
    if story.result is None:
        return again + made
    versions = ", ".join(f"{name} {version}" for name, version in story.result.versions.items())
    return again + elements.paragraph(f"Made with {versions}; seed {story.result.seed}.", "note") + made
