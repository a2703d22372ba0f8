"""Training on a GPU that is not there (fake_cuda.py): nothing is on the wrong device, and the host waits when it must.

Runs and steps are compared with the same on the CPU. The waits are the whole list: what a step may ask the device for,
and how often.
"""

import warnings
from collections import Counter

import accelerate
import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn

from fake_cuda import CUDA, fake_cuda, numbers
from narrows import Fast, GatedVAE, Geco, HiddenNarrowing, Narrowing, gate
from narrows._util.waits import HostWaits
from narrows.data import from_array
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.controller import Controller, ControllerConfig
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import draw_noise
from narrows.training import setup, trainer
from narrows.training.config import TrainConfig
from narrows.training.listeners import Listener
from narrows.training.setup import make_plan
from narrows.training.sinks import MemorySink
from narrows.training.trainer import Trainer
from networks_of_users import TwoHeads

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plane():
    """500 vectors of 20 values, near a plane of three dimensions."""
    rng = np.random.default_rng(0)
    return (rng.random((500, 3)) @ rng.random((3, 20)) / 3).astype(np.float32)


@pytest.fixture
def cuda(monkeypatch):
    """Inside the test, CUDA is there, and accelerate takes it."""

    def make_accelerator(config):
        return accelerate.Accelerator(mixed_precision="bf16" if config.precision == "bfloat16" else "no")

    for module in (setup, trainer):
        monkeypatch.setattr(module, "make_accelerator", make_accelerator)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", str(CUDA))
    AcceleratorState._reset_state(True)
    with fake_cuda(), HostWaits("cuda") as waits:
        yield waits
    AcceleratorState._reset_state(True)


def on_cpu(make):
    """Return what `make` returns on a machine without CUDA."""
    AcceleratorState._reset_state(True)
    return make()


def prepared(data, **settings):
    """Return a trainer of a small run."""
    config = TrainConfig(**{"tau": 0.2, "n": 6, "width": 4, "batch": 16, "log_every": 25, "eval_every": 50, **settings})
    return Trainer(make_plan(config.checked(), from_array(data, config.values)), Listener())
