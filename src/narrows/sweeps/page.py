"""The comparison page of a sweep, written anew whenever a run ends, but only for a tenth of the time."""

from collections.abc import Collection
from pathlib import Path

from narrows._util.printing import warn
from narrows.inference.trained import was_named
from narrows.report.comparison import write_comparison
from narrows.report.live.listeners import Budget
from narrows.runs.folder import RunFolder
from narrows.sweeps.table import SweepTable

SHARE = 0.1
"""Of the time, at most, that goes into the page: that of a large sweep takes long."""


class ComparisonPage:
    """The page, and when it may be written again; `data` are those of the sweep, as its user named them."""

    def __init__(self, path: Path, data: Collection[str]) -> None:
        self.path, self.data = path, data
        self.budget = Budget(0, SHARE)

    def write(self, table: SweepTable, now: bool = False) -> None:
        """Write the page, if it is time or has to be `now`; if it cannot be written, the answers are safe."""
        if not (now or self.budget.is_due()):
            return
        done = [RunFolder(table.folder / row.run) for row in table if row.status == "done"]
        others = [(row.run, row.status, row.reason) for row in table.failed]
        with self.budget.spend():
            try:
                trust = all(was_named(folder, self.data) for folder in done)
                write_comparison(done, self.path, trust, others)
            except Exception as error:
                warn(f"{self.path} could not be written ({type(error).__name__}: {error}); the answers are safe")
