"""From settings and data to the parts of a run: everything that is decided before the first batch."""

import hashlib
from dataclasses import dataclass, replace

import accelerate
import numpy as np
import torch
from torch import Tensor

from narrows.algorithm import Narrowing
from narrows.constraint import Geco, GecoConfig
from narrows.data import SETS, Data, Examples, absolute
from narrows.errors import NarrowsError
from narrows.model import gated_vae
from narrows.networks import LARGEST_SIDE, SMALLEST_SIDE, NetworkConfig, has_conv_plan
from narrows.training.config import SMALLEST, TrainConfig
from narrows.training.units import ColumnScaling

PAPER_TAU = {"dsprites": 20.0}
"""Of the paper's first experiment."""
RELATIVE = GecoConfig(relative_scale=1.0, highest=100.0)
"""Of the relative constraint (decision D12; measured by benchmarks/relative_scale.py)."""
RELATIVE_AIM = 0.95
"""The constraint holds the error at its bound; the certificate needs the whole interval within tau (decision D18)."""
MOMENT_EXAMPLES = 20_000
FINGERPRINT_EXAMPLES = 4_096


@dataclass(frozen=True)
class Moments:
    """Mean of each value and total variance (summed over values) of the training data."""

    mean: Tensor
    variance: float


def moments(examples: Examples, index: np.ndarray) -> Moments:
    """Measure the data from at most 20,000 evenly spaced examples."""
    index = index[:: max(1, len(index) // MOMENT_EXAMPLES)]
    total = torch.zeros(examples.shape, dtype=torch.float64)
    squares = torch.zeros(examples.shape, dtype=torch.float64)
    origin = examples.batch(index[:1])[0]  # an offset near the data keeps the variance exact
    for chunk in np.array_split(index, max(1, len(index) // 64)):
        x = examples.batch(chunk).double().sub_(origin)
        total += x.sum(0)
        squares += x.square_().sum(0)
    mean = total / len(index)
    variance = (squares / len(index) - mean.square()).clamp(min=0).sum().item()
    return Moments((mean + origin).float(), variance)


def resolve(config: TrainConfig, data: Data, measured: Moments) -> TrainConfig:
    """Decide every `auto`, so that the stored settings say what was done."""
    tau = config.tau if config.tau is not None else PAPER_TAU.get(config.data)
    if tau is None and measured.variance < SMALLEST:
        raise NarrowsError(f"{data.name}: all examples are (nearly) the same; give any --tau from {SMALLEST:g} on")
    if tau is None:
        raise NarrowsError(
            f"--tau is needed for {data.name}: the largest squared error an input you accept; for scale, decoding "
            f"everything to the mean has an error of {measured.variance:.4g}, so 5% of that is --tau "
            f"{measured.variance * 0.05:.3g}"
        )
    shape = data.examples.shape
    spread = (measured.variance / measured.mean.numel()) ** 0.5
    largest = measured.mean.abs().max().item()
    if 0 < spread < 1e-4 * largest:
        raise NarrowsError(
            f"{data.name}: values around {largest:.4g} that vary by {spread:.2g} cannot be told apart well in single "
            f"precision; subtract each column's mean first (a table's columns are, without --scaling none)"
        )
    size = "x".join(map(str, shape))
    if config.network == "conv" and not has_conv_plan(shape):
        raise NarrowsError(
            f"--network conv is for images with sides of {SMALLEST_SIDE} to {LARGEST_SIDE}; these examples are {size}; "
            f"use --network mlp"
        )
    network = config.network
    if network == "auto" and data.is_image and max(shape[1:]) > LARGEST_SIDE:
        raise NarrowsError(
            f"{data.name}: images of {size} are larger than {LARGEST_SIDE} pixels a side; make them smaller, or use "
            f"--network mlp"
        )
    if network == "auto":
        network = "conv" if has_conv_plan(shape) else "mlp"
    constraint = config.constraint
    if constraint == "auto":
        constraint = "plain" if config.data in SETS else "relative"
    aim = config.aim if config.aim is not None else (1.0 if constraint == "plain" else RELATIVE_AIM)
    return replace(
        config,
        data=absolute(config.data),
        source=data.origin or config.source if config.data in SETS else "auto",
        scaling=column_scaling(config, data),
        tau=tau,
        network=network,
        constraint=constraint,
        aim=aim,
    )


def column_scaling(config: TrainConfig, data: Data) -> ColumnScaling:
    """Decide how columns are scaled: those of tables have units of their own, those of arrays share one."""
    if config.scaling == "auto":
        return "standard" if data.columns else "none"
    return config.scaling


def make_narrowing(config: TrainConfig, data: Data, measured: Moments) -> Narrowing:
    """Build the untrained model and its constraint. Initial weights depend on the seed alone."""
    assert config.tau is not None
    assert config.aim is not None
    assert config.network != "auto"
    shape = data.examples.shape
    output = "sigmoid" if data.is_image and data.values == "unit" else "linear"
    network = NetworkConfig(config.network, shape, config.n, config.width, output)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            model = gated_vae(network)
        except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
            raise NarrowsError(
                f"a model with --n {config.n} and --width {config.width} does not fit into memory; use smaller ones"
            ) from error
    if output == "linear":
        spread = torch.tensor(measured.variance / measured.mean.numel()).sqrt().float()
        model.scaling.fit(measured.mean, spread)
    else:
        model.decoder.start_at(torch.logit(measured.mean.clamp(0.01, 0.99)))
    geco = RELATIVE if config.constraint == "relative" else GecoConfig()
    return Narrowing(model, Geco(config.aim * config.tau, geco), config.estimator)


def make_accelerator(config: TrainConfig) -> accelerate.Accelerator:
    """Ask accelerate for device, precision and processes."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(config.device, True):
        raise NarrowsError(f"--device {config.device} is not there on this machine; use --device cpu or auto")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    accelerator = accelerate.Accelerator(
        cpu=config.device == "cpu", mixed_precision="bf16" if config.precision == "bfloat16" else "no"
    )
    if config.batch % accelerator.num_processes:
        raise NarrowsError(
            f"--batch {config.batch} cannot be shared evenly among {accelerator.num_processes} processes"
        )
    return accelerator


def fingerprint(data: Data) -> str:
    """Return a digest of size, shape, columns and up to 4,096 evenly spaced examples: the same data give the same."""
    examples = data.examples
    index = np.unique(np.linspace(0, len(examples) - 1, FINGERPRINT_EXAMPLES).astype(np.int64))
    digest = hashlib.sha256(f"{len(examples)} {examples.shape} {data.columns}".encode())
    for start in range(0, len(index), 64):
        digest.update(examples.batch(index[start : start + 64]).contiguous().numpy().tobytes())
    return digest.hexdigest()
