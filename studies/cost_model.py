"""What k devices would gain for one run: measured parts, and a model of the rest.

    python studies/cost_model.py                     the standard network on 64x64 images
    python studies/cost_model.py --bandwidth 300 --latency 5 --device-step 1.5

Measured here: weights, the size of a checkpoint and the time to write one, and the time of a step. Everything else is
computed from assumptions, which are options. With the global batch B shared by k devices, one step takes

    step(k) = fixed + (step - fixed) / k + exchange(k)
    exchange(k) = 2 (k - 1) / k * bytes / bandwidth + messages * 2 log2(k) * latency

`fixed` is what does not shrink with the batch: calls from Python, and kernels too small to fill a device. `bytes` are
the gradients. `messages` are the exchanges of a step: the gradients in buckets, two per BatchNorm (forward, backward),
and the mean of the constraint. It is a model: nobody has run this on the devices that it speaks of.
"""

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from narrows.data import from_array
from narrows.networks.batchnorm import BatchNorm
from narrows.training.checkpoint import save_checkpoint
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.trainer import Trainer

DEVICES = (1, 2, 4, 8, 16, 64, 256)
BUCKET = 25 << 20
"""Bytes of gradients that are exchanged at once."""


@dataclass(frozen=True)
class Measured:
    """What is measured on this machine."""

    weights: int
    norms: int
    """BatchNorm layers."""
    step: float
    """Seconds per step, one process."""
    checkpoint: int
    """Bytes of a checkpoint."""
    writing: float
    """Seconds to write one."""


def measure(batch: int, steps: int) -> Measured:
    """Train a few steps on random 64x64 images, and write a checkpoint."""
    pictures = (np.random.default_rng(0).random((2_000, 64, 64)) > 0.9).astype(np.uint8)
    trainer = Trainer(make_plan(TrainConfig(tau=20.0, n=10, batch=batch), from_array(pictures)), Listener())
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        trainer.train_batch()
        times.append(time.perf_counter() - started)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        path = save_checkpoint(Path(folder), trainer.step, {**trainer.state_dict(), "records": {}})
        writing, size = time.perf_counter() - started, path.stat().st_size
    norms = sum(isinstance(module, BatchNorm) for module in trainer.model.modules())
    weights = sum(p.numel() for p in trainer.model.parameters())
    return Measured(weights, norms, float(np.median(times[steps // 4 :])), size, writing)


def exchange(devices: int, weights: int, norms: int, bandwidth: float, latency: float) -> float:
    """Return the seconds that a step spends on exchanges between devices."""
    if devices == 1:
        return 0.0
    size = 4 * weights
    messages = math.ceil(size / BUCKET) + 2 * norms + 1
    return 2 * (devices - 1) / devices * size / bandwidth + messages * 2 * math.log2(devices) * latency


def main() -> None:
    """Print what was measured, and a table of what is computed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batch", type=int, default=64, help="global batch; 64 by default")
    parser.add_argument("--steps", type=int, default=40, help="steps to measure; 40 by default")
    parser.add_argument("--device-step", type=float, default=3.0, help="assumed milliseconds per step of one device")
    parser.add_argument(
        "--fixed", type=float, default=2.0, help="assumed part of it that does not shrink, milliseconds"
    )
    parser.add_argument("--bandwidth", type=float, default=20.0, help="assumed GB/s between devices")
    parser.add_argument("--latency", type=float, default=15.0, help="assumed microseconds per hop")
    parser.add_argument("--interval", type=float, default=5.0, help="minutes between checkpoints")
    options = parser.parse_args()
    here = measure(options.batch, options.steps)
    share = 100 * here.writing / (60 * options.interval)
    print(
        f"measured, {torch.get_num_threads()} threads: {here.weights:,} weights, {here.norms} BatchNorms, "
        f"{1e3 * here.step:.0f} ms per step of {options.batch}; a checkpoint has {here.checkpoint / 1e6:.1f} MB and "
        f"takes {1e3 * here.writing:.0f} ms, {share:.2g}% of the time with one every {options.interval:g} minutes\n"
    )
    print(
        f"computed: one device takes {options.device_step:g} ms per step, {options.fixed:g} ms of which do not shrink; "
        f"{options.bandwidth:g} GB/s and {options.latency:g} microseconds per hop\n"
    )
    print("| devices | examples on each | ms per step | of which exchange | speed of one run | runs side by side |")
    print("|---:|---:|---:|---:|---:|---:|")
    for devices in DEVICES:
        between = 1e3 * exchange(devices, here.weights, here.norms, options.bandwidth * 1e9, options.latency * 1e-6)
        step = options.fixed + (options.device_step - options.fixed) / devices + between
        each = options.batch / devices
        shown = f"{each:g}" if each >= 1 else "too few"
        print(f"| {devices} | {shown} | {step:.2f} | {between:.2f} | {options.device_step / step:.2f} | {devices} |")


if __name__ == "__main__":
    main()
