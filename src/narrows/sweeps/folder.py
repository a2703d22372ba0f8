"""The folder of a sweep.

sweep.json                the settings, and a token by which every node recognises the folder
NAME/                     one ordinary run folder per run, or a front's
logs/NAME.txt             what a run printed: warnings, and the traceback of an error that is not a user's
table.csv .json .parquet  one row per run, or per tau of a front, as soon as it is known
compare.html              the runs on one page
"""

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from narrows._util.checks import OBJECT, TEXT, check, path_argument
from narrows._util.errors import NarrowsError, setting
from narrows._util.files import hold, read_json, write_atomic
from narrows._util.text import brief
from narrows.runs.folder import RunFolder, is_free
from narrows.runs.front import FrontFolder
from narrows.runs.records import Result
from narrows.sweeps.plan import Plan, Run

ABOUT = "sweep.json"
"""The file that makes a folder a sweep's."""


class SweepFolder:
    """The files of a sweep. Creating the object touches nothing on disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_argument("out", path)
        self.about = self.path / ABOUT
        self.table = self.path / "table.csv"
        self.page = self.path / "compare.html"

    def open(self, plan: Plan, resume: bool) -> str:
        """Create the folder, or continue in that of the same sweep, and return its token.

        Raises:
            NarrowsError: The folder holds anything else, or another sweep, or cannot be created.
        """
        elsewhere = f"choose another {setting('out')}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if is_free(self.path):
                new: dict[str, Any] = {"token": secrets.token_hex(16), "settings": plan.identity()}
                write_atomic(self.about, json.dumps(new, indent=2) + "\n", new=True)
                return new["token"]
        except OSError as error:
            raise NarrowsError(f"cannot create the folder {self.path}: {error.strerror}; {elsewhere}") from error
        if not self.about.exists():
            raise NarrowsError(f"{self.path} is not empty and holds no sweep; {elsewhere}")
        if not resume:
            raise NarrowsError(f"{self.path} already holds a sweep; add {setting('resume')}, or {elsewhere}")
        about = read_about(self.about)
        before, now = about["settings"], plan.identity()
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                changed = f"with {name} = {brief(before.get(name))}, not {brief(now.get(name))}"
                raise NarrowsError(f"the sweep in {self.path} was started {changed}; {elsewhere}")
        return about["token"]

    def lock(self) -> AbstractContextManager[None]:
        """Hold the folder while its runs are started, so that no second process does."""
        return hold(self.path, NarrowsError(f"{self.path} is held by another process; wait for it or stop it"))

    def runs(self, run: Run, taus: Sequence[float]) -> list[RunFolder]:
        """Return the run's folder, or those of a front's runs."""
        path = self.path / run.name
        return [FrontFolder(path).level(tau) for tau in taus] if taus else [RunFolder(path)]

    def results(self, run: Run, taus: Sequence[float]) -> list[Result] | None:
        """Return the answers of a run that has ended, one per tau of a front; None if one is missing or damaged."""
        try:
            results = [folder.read_result() for folder in self.runs(run, taus)]
        except NarrowsError:
            return None
        known = [result for result in results if result is not None]
        return known if len(known) == len(results) else None


def read_about(path: Path) -> dict[str, Any]:
    """Return what sweep.json holds: the token and the settings."""
    content = read_json(path)
    try:
        check({"content": content}, {"content": OBJECT})
        check(content, {"token": TEXT, "settings": OBJECT})
    except NarrowsError as error:
        raise NarrowsError(f"{path} is damaged ({error.marked}); copy it again from its source") from None
    about: dict[str, Any] = content
    return about
