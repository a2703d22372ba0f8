"""From settings and data to the parts of a run: everything that is decided before the first batch."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import accelerate
import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

from narrows.constraint import Geco, GecoConfig
from narrows.data import SETS, Data, Examples, absolute
from narrows.errors import NarrowsError
from narrows.gates import L0Gates
from narrows.model import GatedVAE, gated_vae
from narrows.networks import LARGEST_SIDE, SMALLEST_SIDE, Decoder, Encoder, NetworkConfig, Scaling, has_conv_plan
from narrows.training.config import PROMISES, SMALLEST, TrainConfig
from narrows.training.units import ColumnScaling

Made = TypeVar("Made")
PAPER_TAU = {"dsprites": 20.0}
PAPER_N = {"dsprites": 10}
PAPER_STEPS = 50_000
"""Of the paper's first experiment."""
DEFAULT_N = 32
RELATIVE = GecoConfig(relative_scale=1.0, highest=100.0)
"""Of the relative constraint (decision D12; measured by benchmarks/relative_scale.py)."""
RELATIVE_AIM = 0.95
"""The constraint holds the error at its bound; the certificate needs the whole interval within tau (decision D18)."""
MOMENT_EXAMPLES = 20_000
FINGERPRINT_EXAMPLES = 4_096
FEW_ROWS = 5_000
"""Vectors: below this, hidden layers learn too little to do without a linear path past them (decision D17)."""


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
    tau = promised(config, data, measured)
    if config.error == "cross-entropy" and data.values != "unit":
        raise NarrowsError(f"{data.name}: --error cross-entropy needs values in [0, 1], in units of their own")
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
    paper = config.recipe == "paper"
    constraint = config.constraint
    if constraint == "auto":
        constraint = "plain" if paper and config.data in SETS else "relative"
    aim = config.aim
    if paper and aim is None:
        aim = 1.0 if constraint == "plain" else RELATIVE_AIM
    n = config.n
    if n == "auto":
        n = PAPER_N.get(config.data) or min(DEFAULT_N, int(np.prod(shape)))
    return replace(
        config,
        data=absolute(config.data),
        source=data.origin or config.source if config.data in SETS else "auto",
        scaling=column_scaling(config, data),
        tau=tau,
        tau_per_value=None,
        explained=None,
        n=n,
        steps=PAPER_STEPS if paper and config.steps == "auto" else config.steps,
        network=network,
        constraint=constraint,
        aim=aim,
    )


def promised(config: TrainConfig, data: Data, measured: Moments) -> float | None:
    """Return tau, in whatever words the promise was given; None for a plain VAE without one."""
    values = measured.mean.numel()
    given = any(getattr(config, name) is not None for name in PROMISES)
    if not given and config.data in PAPER_TAU and config.error == "squared":
        return PAPER_TAU[config.data]
    if config.tau is not None:
        return config.tau
    if config.tau_per_value is not None:
        return config.tau_per_value * values
    if config.recipe == "plain" and config.explained is None:
        return None
    if measured.variance < SMALLEST:
        raise NarrowsError(
            f"{data.name}: the examples that train are (nearly) the same, with a variance of {measured.variance:.2g} "
            f"in all; give --tau, or multiply them by a large number if they do differ"
        )
    if config.explained is not None:
        return max((1 - config.explained) * measured.variance, SMALLEST)
    raise NarrowsError(
        f"what error is accepted? {data.name} needs --tau (the error of one input), --tau-per-value, --explained or "
        f"--as-good-as; for scale, decoding everything to the mean has a squared error of {measured.variance:.4g}, so "
        f"--explained 0.95 is --tau {measured.variance * 0.05:.3g}"
    )


def column_scaling(config: TrainConfig, data: Data) -> ColumnScaling:
    """Decide how columns are scaled: those of tables have units of their own, those of arrays share one."""
    if config.scaling == "auto":
        return "standard" if data.columns else "none"
    return config.scaling


Build = Callable[[tuple[int, ...], int], tuple[Encoder, Decoder]]
"""Makes untrained networks for examples of this shape with so many latent dimensions: a user's own."""


def make_model(config: TrainConfig, data: Data, measured: Moments, build: Build | None = None) -> GatedVAE:
    """Build the untrained model, around a user's own networks if there are; weights depend on the seed alone."""
    assert config.network != "auto"
    assert config.n != "auto"
    shape = data.examples.shape
    output = "sigmoid" if data.values == "unit" and (data.is_image or config.error == "cross-entropy") else "linear"
    direct = config.network == "mlp" and len(shape) == 1 and len(data.examples) < FEW_ROWS
    network = NetworkConfig(config.network, shape, config.n, config.width, output, direct)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            model = gated_vae(network) if build is None else None
        except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
            raise NarrowsError(
                f"a model with --n {config.n} and --width {config.width} does not fit into memory; use smaller ones"
            ) from error
        if model is None:
            assert build is not None
            model = _around(build, network)
    if output == "linear":
        spread = torch.tensor(measured.variance / measured.mean.numel()).sqrt().float()
        model.scaling.fit(measured.mean, spread)
    else:
        model.decoder.start_at(torch.logit(measured.mean.clamp(0.01, 0.99)))
    return model


def _around(build: Build, network: NetworkConfig) -> GatedVAE:
    """Return a model around a user's networks; refuse what cannot be trained, gated and cut."""
    made = build(network.shape, network.n)
    if not isinstance(made, tuple) or len(made) != 2:
        raise NarrowsError(f"network: a factory must return an encoder and a decoder; it returned {made!r:.200}")
    encoder, decoder = made
    parts = ((encoder, "encoder", Encoder, "head"), (decoder, "decoder", Decoder, "stem"))
    for part, name, kind, layer in parts:
        if not isinstance(part, kind):
            raise NarrowsError(
                f"network: the {name} must be a narrows.networks.{kind.__name__}; it is a {type(part).__name__}"
            )
        if not isinstance(getattr(part, layer, None), nn.Linear):
            raise NarrowsError(f"network: the {name} {type(part).__name__} needs a torch.nn.Linear called {layer!r}")
    sizes = (encoder.head.out_features, decoder.stem.in_features)
    if sizes != (2 * network.n, network.n):
        raise NarrowsError(
            f"network: with {network.n} latent dimensions the encoder's head must have {2 * network.n} outputs and the "
            f"decoder's stem {network.n} inputs; they have {sizes[0]} and {sizes[1]}"
        )
    x, z = torch.zeros(2, *network.shape), torch.zeros(2, network.n)
    _probe("encoder", encoder, "forward(x)", (2, 2 * network.n), x)
    _probe("decoder", decoder, "forward(z, record=None, reuse=None)", tuple(x.shape), z, None, None)
    return GatedVAE(encoder, decoder, Scaling(network.output, network.shape), L0Gates(network.n))


@torch.no_grad()
def _probe(name: str, part: nn.Module, call: str, expected: tuple[int, ...], given: Tensor, *more: None) -> None:
    """Send two examples through a user's network: what does not fit is found before training, not after."""
    whose = f"network: the {name} {type(part).__name__}, called as {call}, must make {expected} of {tuple(given.shape)}"
    modes = {module: module.training for module in part.modules()}
    try:
        made = part.eval()(given, *more)
    except Exception as error:  # it is the user's code
        reason = str(error).partition("\n")[0]
        raise NarrowsError(f"{whose}; it failed with {type(error).__name__}: {reason}") from error
    finally:
        for module, mode in modes.items():
            module.training = mode
    shape = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
    if shape != expected:
        raise NarrowsError(f"{whose}; it makes {shape}")


def make_geco(config: TrainConfig) -> Geco:
    """Return the paper's constraint, plain or relative."""
    assert config.tau is not None
    assert config.aim is not None
    return Geco(config.aim * config.tau, RELATIVE if config.constraint == "relative" else GecoConfig())


def make_accelerator(config: TrainConfig) -> accelerate.Accelerator:
    """Ask accelerate for device, precision and processes."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(config.device, True):
        raise NarrowsError(f"--device {config.device} is not there on this machine; use --device cpu or auto")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # Without an accelerator accelerate has to be told so: only then do several processes on CPUs find each other.
    cpu = config.device == "cpu" or (config.device == "auto" and not any(available.values()))
    accelerator = accelerate.Accelerator(cpu=cpu, mixed_precision="bf16" if config.precision == "bfloat16" else "no")
    if config.batch % accelerator.num_processes:
        raise NarrowsError(
            f"--batch {config.batch} cannot be shared evenly among {accelerator.num_processes} processes"
        )
    return accelerator


def on_first_process(config: TrainConfig, make: Callable[[], Made]) -> Made:
    """Do something once, however many processes train, and let all have what came out."""
    accelerator = make_accelerator(config)
    made: list[Any] = [make() if accelerator.is_main_process else None]
    result: Made = (broadcast_object_list(made) if accelerator.num_processes > 1 else made)[0]
    return result


def fingerprint(data: Data) -> str:
    """Return a digest of size, shape, columns and up to 4,096 evenly spaced examples: the same data give the same."""
    examples = data.examples
    index = np.unique(np.linspace(0, len(examples) - 1, FINGERPRINT_EXAMPLES).astype(np.int64))
    digest = hashlib.sha256(f"{len(examples)} {examples.shape} {data.columns}".encode())
    for start in range(0, len(index), 64):
        digest.update(examples.batch(index[start : start + 64]).contiguous().numpy().tobytes())
    return digest.hexdigest()
