"""What the experiments of docs/recipe.md share: running one setting, and one line of a table for it.

Each experiment appends its rows to experiments/results/NAME.csv as soon as a run ends; a row that is there already is
not run again, so an experiment that was stopped goes on where it was. Delete the file to begin anew.
"""

import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from narrows.data import Data
from narrows.data.sets import mnist
from narrows.runs import Result, RunFolder
from narrows.training.config import TrainConfig
from narrows.training.entry import train

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


class Table:
    """The rows of one experiment in a .csv file, each written when it is known."""

    def __init__(self, name: str, folder: Path = RESULTS) -> None:
        self.path = folder / f"{name}.csv"
        self.rows: list[Row] = []
        if self.path.exists():
            with self.path.open() as file:
                self.rows = list(csv.DictReader(file))

    def run(self, make: Callable[[], Row], **key: Any) -> Row:
        """Return the row with this key; make it and write it if it is not there."""
        for row in self.rows:
            if all(row[name] == str(value) for name, value in key.items()):
                return row
        row = {name: str(value) for name, value in {**key, **make()}.items()}
        self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        return row


def run(config: TrainConfig, data: Any, reached: Sequence[int] = ()) -> Row:
    """Train once and return what the tables show; `reached`: the batch at which so few gates were known to do."""
    with tempfile.TemporaryDirectory() as temporary:
        result, folder = train(config, Path(temporary) / "run", data)
        return summary(result, folder, reached)


def summary(result: Result, folder: RunFolder, reached: Sequence[int] = ()) -> Row:
    """Return one run as a row."""
    held, tau = result.heldout, result.tau
    row: Row = {
        "dims": result.dims,
        "met": result.met,
        "error": f"{held.error:.5g}",
        "upper": f"{held.high:.5g}",
        "share": "" if tau is None else f"{held.high / tau:.3f}",
        "at_mean": f"{held.error_at_mean:.5g}",
        "kl": f"{sum(d.kl for d in result.dimensions):.4g}",
        "gap": f"{sum(d.gap() for d in result.dimensions):.3g}",
        "batches": result.steps,
        "seconds": round(result.seconds),
    }
    for count in reached:  # a size is known to be enough when the next closing, or the last phase, begins with it
        good = (d.step for d in folder.read_decisions() if d.open <= count and d.action in ("close", "release"))
        row[f"to_{count}"] = next(good, "")
    return row


def read_mnist(arguments: list[str]) -> Data:
    """Read MNIST from the folder that the command line names."""
    if not arguments or not Path(arguments[0]).is_dir():
        sys.exit(f"usage: python {sys.argv[0]} FOLDER (with MNIST's four .gz files)")
    return mnist.read(Path(arguments[0]))
