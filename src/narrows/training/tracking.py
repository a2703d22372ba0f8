"""Trackers beside metrics.csv: TensorBoard, Weights & Biases, MLflow, through accelerate's common interface.

They get the columns of metrics.csv under the same names. None of them needs a network: without an account or a server
named in the environment (WANDB_API_KEY or WANDB_MODE, MLFLOW_TRACKING_URI) they write into the run's folder. A tracker
that fails is left out from then on, with one warning; training and its own files go on.
"""

import importlib.util
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError
from narrows.runs import COLUMNS, MetricRow

TRACKERS = ("tensorboard", "wandb", "mlflow")


def check_trackers(names: str | None) -> list[str]:
    """Return the trackers by name; refuse unknown ones and those whose package is missing."""
    wanted = [] if names is None else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in TRACKERS:
            raise NarrowsError(f"--track knows {', '.join(TRACKERS)}; not {name!r}")
        if importlib.util.find_spec(name) is None:
            raise NarrowsError(f"--track {name} needs its package: pip install {name}")
    return wanted


class Trackers:
    """The trackers of one run."""

    def __init__(self, names: list[str], folder: Path, settings: dict[str, Any], step: int) -> None:
        self.running: dict[str, Any] = {}
        for name in names:
            self._try(name, lambda name=name: self._start(name, folder, settings, step))  # type: ignore[misc]

    def _start(self, name: str, folder: Path, settings: dict[str, Any], step: int) -> None:
        from accelerate import tracking

        place = str(folder / name)
        tracker: Any
        if name == "tensorboard":
            tracker = tracking.TensorBoardTracker(folder.name, place, purge_step=step or None)
        elif name == "wandb":
            os.makedirs(place, exist_ok=True)
            known = "WANDB_API_KEY" in os.environ or "WANDB_MODE" in os.environ
            tracker = tracking.WandBTracker("narrows", dir=place, name=folder.name, mode=None if known else "offline")
        else:
            import mlflow

            if "MLFLOW_TRACKING_URI" not in os.environ:
                mlflow.set_tracking_uri(f"sqlite:///{folder.resolve() / 'mlflow.db'}")
            tracker = tracking.MLflowTracker("narrows", logging_dir=place, run_name=folder.name)
        tracker.start()
        kept = {key: value for key, value in settings.items() if value is not None}
        if name != "tensorboard":  # its table of settings would be a second run in the list
            tracker.store_init_configuration(kept)
        self.running[name] = tracker

    def log(self, row: MetricRow) -> None:
        """Pass on one row of metrics."""
        values = dict(zip(COLUMNS, asdict(row).values(), strict=True))
        step = values.pop("step")
        numbers = {name: value for name, value in values.items() if math.isfinite(value)}
        for name, tracker in list(self.running.items()):
            self._try(name, lambda tracker=tracker: tracker.log(numbers, step=step))  # type: ignore[misc]

    def close(self) -> None:
        """Let all of them finish."""
        for name, tracker in list(self.running.items()):
            self._try(name, tracker.finish)
        self.running = {}

    def _try(self, name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            self.running.pop(name, None)
            reason = " ".join(str(error).split())
            print(f"narrows: warning: --track {name} failed and is left out: {reason:.300}", file=sys.stderr)
