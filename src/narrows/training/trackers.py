"""Trackers in addition to metrics.csv: TensorBoard, Weights & Biases and MLflow, through accelerate's interface.

They receive the columns of metrics.csv under the same names. None of them needs a network: without an account or a
server named in the environment (WANDB_API_KEY or WANDB_MODE, MLFLOW_TRACKING_URI) they write into the run's folder. A
tracker that fails is dropped with one warning, and training continues. To add a tracker, write a function that creates
it and add it to `TRACKERS`.
"""

import contextlib
import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import warn
from narrows.runs.records import MetricRow


def _tensorboard(folder: Path, step: int) -> Any:
    from accelerate.tracking import TensorBoardTracker

    return TensorBoardTracker(folder.name, str(folder / "tensorboard"), purge_step=step or None)


def _wandb(folder: Path, step: int) -> Any:
    from accelerate.tracking import WandBTracker

    place = folder / "wandb"
    place.mkdir(exist_ok=True)
    known = "WANDB_API_KEY" in os.environ or "WANDB_MODE" in os.environ
    return WandBTracker("narrows", dir=str(place), name=folder.name, mode=None if known else "offline")


def _mlflow(folder: Path, step: int) -> Any:
    import mlflow
    from accelerate.tracking import MLflowTracker

    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri(f"sqlite:///{folder.resolve() / 'mlflow.db'}")
    return MLflowTracker("narrows", logging_dir=str(folder / "mlflow"), run_name=folder.name)


TRACKERS: dict[str, Callable[[Path, int], Any]] = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
"""Each tracker's package name, and the function that creates it for a run's folder after `step` batches."""


def check_trackers(names: str | None) -> list[str]:
    """Return the trackers' names.

    Raises:
        NarrowsError: A tracker is unknown, or its package is not installed.
    """
    wanted = [] if names is None else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in TRACKERS:
            raise NarrowsError(f"{setting('track')} must be one or more of {', '.join(TRACKERS)}; it has {name!r}")
        if importlib.util.find_spec(name) is None:
            raise NarrowsError(f"{setting('track', name)} needs its package: pip install {name}")
    return wanted


class Trackers:
    """The trackers of one run; none before `start`."""

    def __init__(self) -> None:
        self.running: dict[str, Any] = {}

    def start(self, names: list[str], folder: Path, settings: dict[str, Any], step: int) -> None:
        """Start these trackers for a run in `folder`, after `step` batches."""
        kept = {key: value for key, value in settings.items() if value is not None}
        for name in names:
            with self._dropped_if_it_fails(name):
                tracker = TRACKERS[name](folder, step)
                tracker.start()
                if name != "tensorboard":  # its table of settings would appear as a second run
                    tracker.store_init_configuration(kept)
                self.running[name] = tracker

    def log(self, row: MetricRow) -> None:
        """Log one row of metrics."""
        values = dict(zip(row.columns(), asdict(row).values(), strict=True))
        step = values.pop("step")
        numbers = {name: value for name, value in values.items() if math.isfinite(value)}
        for name, tracker in list(self.running.items()):
            with self._dropped_if_it_fails(name):
                tracker.log(numbers, step=step)

    def close(self) -> None:
        """Finish all trackers."""
        for name, tracker in list(self.running.items()):
            with self._dropped_if_it_fails(name):
                tracker.finish()
        self.running = {}

    @contextlib.contextmanager
    def _dropped_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.running.pop(name, None)
            reason = " ".join(str(error).split())
            warn(f"the tracker {name} failed and is dropped: {reason:.300}")
