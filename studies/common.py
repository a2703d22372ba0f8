"""What the studies share: a training run, and its row in a table.

A study appends its rows to studies/results/NAME.csv as soon as a run ends, and skips rows that the file already has, so
a study that was stopped continues where it was. Delete the file to start again.
"""

import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from narrows.data import Data, Examples, split
from narrows.data.examples import in_batches
from narrows.data.named import mnist
from narrows.model.storage import load_model
from narrows.runs.folder import RunFolder
from narrows.runs.records import Result
from narrows.training.config import TrainConfig
from narrows.training.start import train

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


class Table:
    """The rows of one study in a .csv file, each appended as soon as it is known."""

    def __init__(self, name: str, folder: Path = RESULTS) -> None:
        self.path = folder / f"{name}.csv"
        self.rows: list[Row] = []
        if self.path.exists():
            with self.path.open() as file:
                self.rows = list(csv.DictReader(file))

    def run(self, make: Callable[[], Row], **key: Any) -> Row:
        """Return the row with this key; if the file does not have it, call `make` and append what it returns."""
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
    """Train once and return the row; `reached` lists sizes for which the row says when they were known to be enough."""
    with tempfile.TemporaryDirectory() as temporary:
        outcome = train(config, Path(temporary) / "run", data)
        assert outcome.data is not None
        correlation = largest_correlation(outcome.folder, outcome.data.examples, split(outcome.data).test)
        return {**summary(outcome.result, outcome.folder, reached), "correlation": f"{correlation:.3g}"}


def largest_correlation(folder: RunFolder, examples: Examples, index: np.ndarray) -> float:
    """Return the largest correlation between two dimensions of a run's model, over the codes of these examples."""
    model = load_model(folder.model)
    if model.n < 2:
        return 0.0
    codes = np.empty((len(index), model.n))
    with torch.no_grad():
        for here, x in in_batches(examples, index, 250):
            codes[here] = model.encode(x).mean.numpy()
    return float(np.abs(np.corrcoef(codes.T) - np.eye(model.n)).max())


def summary(result: Result, folder: RunFolder, reached: Sequence[int] = ()) -> Row:
    """Return the row of a run that has ended; `reached` as in `run`."""
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
    for count in reached:  # a size is known to be enough when the next closing, or the last phase, starts from it
        good = (d.step for d in folder.read_decisions() if d.open <= count and d.action in ("close", "release"))
        row[f"to_{count}"] = next(good, "")
    return row


def read_mnist(arguments: list[str]) -> Data:
    """Read MNIST from the folder that the command line names, or exit with the usage."""
    if not arguments or not Path(arguments[0]).is_dir():
        sys.exit(f"usage: python {sys.argv[0]} FOLDER (with MNIST's four .gz files)")
    return mnist.read(Path(arguments[0]))
