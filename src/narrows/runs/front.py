"""A front's folder: several taus, one run for each (`RunFolder`), and their table.

front.json         the taus and the settings
front.csv          one line per tau: dimensions, held-out error, path of the model; written when a tau is done
front.png, .svg    dimensions against tau
report.html        the curve with its models, as one page
tau-3/, tau-4/     the runs
"""

import json
import os
from pathlib import Path
from typing import Any

from narrows._util.checks import ABOVE_ZERO, FROM_ZERO, OBJECT, Rule, argument, check, list_of, path_argument
from narrows._util.errors import NarrowsError
from narrows._util.files import read_json, write_atomic
from narrows.runs.folder import RunFolder, write_first
from narrows.runs.records import Result

FRONT = "front.json"
"""The file that makes a folder a front's."""
TAUS = Rule("a list of numbers above 0", lambda value: list_of(ABOVE_ZERO).holds(value) and len(value) > 0)


class FrontFolder:
    """A front's files. Creating the object touches nothing on disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_argument("path", path)
        self.about = self.path / FRONT
        self.table = self.path / "front.csv"
        self.figure = self.path / "front.png"
        self.report = self.path / "report.html"

    def level(self, tau: float) -> RunFolder:
        """Return the folder of the run for one tau."""
        return RunFolder(self.path / f"tau-{argument('tau', tau, FROM_ZERO):.12g}")

    def levels(self) -> list[RunFolder]:
        """Return the runs that have begun, for the smallest tau first."""
        levels = [self.level(tau) for tau in self.read_about()["taus"]]
        return [level for level in levels if level.config.exists()]

    def read_about(self) -> dict[str, Any]:
        """Return {"taus": [...], "config": {...}}.

        Raises:
            NarrowsError: The folder is not a front's, or its front.json is damaged.
        """
        if not self.about.exists():
            raise NarrowsError(f"{self.path} is not a front: it has no readable front.json")
        content = read_json(self.about)
        try:
            check({"content": content}, {"content": OBJECT})
            check(content, {"taus": TAUS, "config": OBJECT})
        except NarrowsError as error:
            raise NarrowsError(f"{self.about} is damaged ({error.marked}); copy it again from its source") from None
        return {"taus": [float(tau) for tau in content["taus"]], "config": content["config"]}

    def write_about(self, taus: list[float], config: dict[str, Any]) -> None:
        """Store the taus and the settings of a front that has just begun."""
        write_first(self.about, json.dumps({"taus": taus, "config": config}, indent=2) + "\n", new=True)

    def read_results(self) -> list[Result]:
        """Return the answers so far, for the smallest tau first."""
        found = (level.read_result() for level in self.levels())
        return [result for result in found if result is not None]

    def write_table(self, results: list[Result]) -> None:
        """Write front.csv."""
        lines = ["tau,dims,met,error,high,steps,model"]
        for r in results:
            model = self.level(r.tau or 0).model.relative_to(self.path)
            error = f"{r.heldout.error:.6g},{r.heldout.high:.6g}"
            lines.append(f"{r.tau:.12g},{r.dims},{str(r.met).lower()},{error},{r.steps},{model}")
        write_atomic(self.table, "\n".join(lines) + "\n")


def outermost(folder: RunFolder) -> Path:
    """Return the folder a user knows a run by: its own, or that of the front or the run that contains it."""
    parent = folder.path.parent
    is_part = (parent / FRONT).exists() or RunFolder(parent).plain == folder.path
    return parent if is_part else folder.path
