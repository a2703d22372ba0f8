"""How fast a machine trains: whole steps of both recipes on the standard networks, with their data, timed and counted.

A step is the trainer's own: it gathers and moves the batch, evaluates, updates and, with the fast recipe, measures a
held-out panel every 16 batches. Nothing closes: tau is out of reach, but the paper's recipe takes it for met, so that
most examples pass through the decoder twice, as at the start of a run.
"""

import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import torch

from narrows import _version
from narrows._util.checks import COUNT, argument
from narrows._util.waits import HostWaits
from narrows.data import from_array
from narrows.recipes.fast import MEASURE_EVERY
from narrows.recipes.registry import RecipeName
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.trainer import Trainer

NETWORKS = {"64x64x1": (64, 64, 1), "64x64x3": (64, 64, 3), "28x28x1": (28, 28, 1), "table, 50 columns": (50,)}
"""The standard networks, by the examples they are for."""
RECIPES: tuple[RecipeName, ...] = ("fast", "paper")
EXAMPLES, WARM_UP = 1_000, 8
OUT_OF_REACH = 1e-3
"""tau."""


class Speed(NamedTuple):
    """What a step of one recipe on one network takes."""

    network: str
    recipe: str
    milliseconds: float
    """Per step."""
    examples: float
    """Per second."""
    memory: float
    """In MB: the most that was allocated on a GPU, or what the process holds on a CPU."""
    waits: float
    """How often the host waits for the device per step; on a CPU, how often it would."""


@dataclass(frozen=True)
class Bench:
    """The settings of a measurement.

    Raises:
        NarrowsError: A setting cannot be used, or the device is not there.
    """

    config: TrainConfig
    """Its device, precision, `compile` and batch are used."""
    steps: int = 2 * MEASURE_EVERY

    def __post_init__(self) -> None:
        argument("steps", self.steps, COUNT)
        object.__setattr__(self, "config", self.config.checked())

    def measure(self) -> Iterator[Speed]:
        """Measure and yield each recipe on each network."""
        for network, shape in NETWORKS.items():
            for recipe in RECIPES:
                yield self._measure(network, shape, recipe)

    def _measure(self, network: str, shape: tuple[int, ...], recipe: RecipeName) -> Speed:
        trainer = self._trainer(shape, recipe)
        device = trainer.accelerator.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        for _ in range(WARM_UP):
            trainer.train_batch()
        _finish(device)
        started = time.perf_counter()
        for _ in range(self.steps):
            trainer.train_batch()
        _finish(device)
        seconds = (time.perf_counter() - started) / self.steps
        memory = _memory(device)
        with HostWaits(device.type) as waits:
            for _ in range(MEASURE_EVERY):
                trainer.train_batch()
        count = waits.places.total() / MEASURE_EVERY
        return Speed(network, recipe, 1e3 * seconds, self.config.batch / seconds, memory, count)

    def _trainer(self, shape: tuple[int, ...], recipe: RecipeName) -> Trainer:
        x = np.random.default_rng(0).integers(0, 256, (EXAMPLES, *shape), dtype=np.uint8)
        data = from_array(x if len(shape) > 1 else x.astype(np.float32) / 255, "unit")
        config = replace(self.config, recipe=recipe, tau=OUT_OF_REACH, n=10, eval_every=10**9)
        trainer = Trainer(make_plan(config, data), Listener())
        if recipe == "paper":
            trainer.objective.hit.fill_(True)
        return trainer

    def machine(self) -> str:
        """Return one line about the machine, the versions and the settings."""
        device = self.config.device
        cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
        name = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
        parts = [
            f"narrows {_version.__version__}{_commit()}",
            f"torch {torch.__version__}",
            f"Python {platform.python_version()}",
            platform.system(),
            f"{name} ({device}), {torch.get_num_threads()} CPU threads",
            f"batch {self.config.batch}, {self.config.precision}{', compiled' if self.config.compile else ''}",
            f"{self.steps} steps",
        ]
        return "; ".join(parts)


def _finish(device: torch.device) -> None:
    """Wait until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def _memory(device: torch.device) -> float:
    taken = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else psutil.Process().memory_info().rss
    return taken / 2**20


def _commit() -> str:
    """Return the commit of a working copy, and nothing for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    try:
        words = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
        found = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f" at {found.stdout.strip()}"
