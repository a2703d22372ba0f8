"""The parts of a run that are built: the untrained model, compiled networks, and the device with its processes."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import accelerate
import numpy as np
import torch
from torch import nn

from narrows._util.errors import NarrowsError, setting
from narrows._util.launch import check_launch, waiting_for_others
from narrows._util.processes import join_group
from narrows._util.text import printable
from narrows.data import Data
from narrows.data.mixed import MixedExamples
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import Decoder, NetworkConfig, Scaling
from narrows.recipes.registry import RECIPES
from narrows.training.config import TrainConfig
from narrows.training.moments import Moments
from narrows.training.setup import FEW_ROWS, output_of

MANY_DIMENSIONS = 32
"""Images: with more dimensions, the hidden layers of 128 units pass too little without such a path (decision D19)."""


LONG_WAIT = timedelta(hours=4)
"""How long processes wait for each other: the first one validates while the others wait."""

Build = Callable[[tuple[int, ...], int], tuple[nn.Module, nn.Module]]
"""A user's function (shape of one example, n) -> (encoder, decoder); `GatedVAE` says what the two must do."""


def make_model(
    config: TrainConfig, data: Data, measured: Moments, build: Build | NetworkConfig | None = None
) -> GatedVAE:
    """Build the untrained model; its weights depend on the seed alone.

    Arguments:
        config: The settings, with every `auto` decided.
        data: What will be trained on.
        measured: Their moments.
        build: Makes the user's own networks, or describes built-in ones; by default the settings and data decide.
    """
    assert config.network != "auto"
    assert config.n != "auto"
    shape = data.examples.shape
    output = output_of(config, data)
    if config.network == "mlp":
        direct = len(shape) == 1 and len(data.examples) < FEW_ROWS
    else:
        direct = config.n > MANY_DIMENSIONS and not RECIPES[config.recipe].papers_networks
    masked = data.missing > 0
    own = None if isinstance(build, NetworkConfig) else build
    if masked and own is not None:
        raise NarrowsError(
            f"{setting('missing', 'mask')} is for built-in networks: networks of your own would have to take NaN; "
            f"leave {setting('network')} out, or fill the values in"
        )
    blocks = data.examples.widths if isinstance(data.examples, MixedExamples) else ()
    if blocks and own is not None:
        raise NarrowsError(
            f"{data.name} has categories, which are for built-in networks; leave {setting('network')} out, or encode "
            f"them as numbers"
        )
    if data.batches and own is not None:
        raise NarrowsError(
            f"a batch is for built-in networks, whose decoder is told it; leave {setting('network')} out"
        )
    shape = tuple(side - data.batches for side in shape)
    network = NetworkConfig(config.network, shape, config.n, config.width, output, direct, blocks, masked, data.batches)
    if isinstance(build, NetworkConfig):
        network = replace(build, n=config.n, output=output)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = gated_vae(network) if own is None else _around(own, network)
    if output == "linear":
        spread = torch.tensor(measured.variance / measured.observed).sqrt().float()
        model.scaling.fit(measured.mean, spread)
    elif measured.counts is not None:
        counts = measured.counts
        model.scaling.fit(torch.from_numpy(counts.shift).float(), torch.tensor(counts.spread).float())
        parts = (torch.from_numpy(part).float() for part in (counts.proportion, counts.dispersion))
        model.scaling.fit_counts(counts.size, *parts)
    elif isinstance(model.decoder, Decoder):
        model.decoder.start_at(torch.logit(measured.mean.clamp(0.01, 0.99)))
    if not model.checked:
        model.check(data.examples.batch(np.arange(2)))
    return model


def _around(build: Build, network: NetworkConfig) -> GatedVAE:
    networks = build(network.shape, network.n)
    if not isinstance(networks, tuple) or len(networks) != 2:
        raise NarrowsError(
            f"{setting('network')} must be a function that returns an encoder and a decoder; it returned "
            f"{networks!r:.200}"
        )
    return GatedVAE(*networks, network.n, scaling=Scaling(network.output, network.shape))


def compile_networks(model: GatedVAE) -> None:
    """Compile the networks in place, so that their parameters keep their names; copies of the model are not compiled.

    Raises:
        NarrowsError: torch.compile does not work on this machine.
    """
    device = next(model.parameters()).device
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own parts, about each other
            torch.compile(torch.sin)(torch.zeros(1, device=device))
    except Exception as error:  # of a compiler that may be any program
        needed = "Triton" if device.type == "cuda" else "a C++ compiler"
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise NarrowsError(
            f"{setting('compile')} needs {needed} that torch can use ({printable(reason)}); install it, or leave "
            f"{setting('compile')} out"
        ) from error
    model.encoder.compile()
    model.decoder.compile()


def make_accelerator(config: TrainConfig) -> accelerate.Accelerator:
    """Return accelerate's handle on device, precision and processes; the first call meets the other processes."""
    check_launch()
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(config.device, True):
        raise NarrowsError(
            f"{setting('device', config.device)} is not available on this machine; use "
            f"{setting('device', 'cpu')} or auto"
        )
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # Estimates and certificates are in double precision, which MPS has not: auto does not choose it. Several processes
    # on CPUs find each other only if accelerate is told that it has no accelerator.
    cpu = config.device == "cpu" or (config.device == "auto" and not available["cuda"])
    precision = "bf16" if config.precision == "bfloat16" else "no"
    with waiting_for_others():
        join_group("nccl" if available["cuda"] and not cpu else "gloo", LONG_WAIT)
        accelerator = accelerate.Accelerator(cpu=cpu, mixed_precision=precision)
    if config.batch % accelerator.num_processes:
        raise NarrowsError(
            f"{setting('batch', config.batch)} cannot be shared evenly among {accelerator.num_processes} processes"
        )
    return accelerator
