"""Explorers of small untrained models: their responses must not depend on what a model has learnt."""

from pathlib import Path

import torch

from narrows.explorer.inputs import Inputs
from narrows.explorer.models import Explored, Explorer
from narrows.inference.trained import Trained
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig


def untrained(shape: tuple[int, ...] = (1, 16, 16), n: int = 3, held: int = 40, **about: object) -> Explorer:
    """An explorer with one model of `n` dimensions and random test inputs in bytes."""
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("mlp", shape, max(n, 1), 8, "sigmoid")).narrow(range(n)).eval()
    x = torch.randint(0, 256, (held, *shape)) / 255
    inputs = Inputs(x)
    trained = Trained(Path("model.safetensors"), model, {"tau": 5.0, **about}, None)
    return Explorer("noise", [Explored(trained, None, inputs)], inputs)


def untrained_front(*sizes: int) -> Explorer:
    """An explorer with a model of each size, for tau = 5, 6, ..."""
    made = [untrained(n=n, tau=5.0 + i) for i, n in enumerate(sizes)]
    inputs = made[0].inputs
    return Explorer("noise", [Explored(one.model(0).trained, None, inputs) for one in made], inputs)
