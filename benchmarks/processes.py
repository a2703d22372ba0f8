"""The cost of BatchNorm over the joined batch: a step of several processes with it, and with each process's own rows.

    python benchmarks/processes.py      # or: --processes 4 --shape 28x28x1 --rounds 8

Algorithm 1 with settled gates on 64x64x1 images, a batch of 64 in all, one thread per process, over gloo on one
machine. The two ways take turns in the same processes, round after round, so that a busy machine disturbs both alike.
Bytes are computed from the network: what a process contributes to the exchanges of one step, before the backend copies
it on.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from unittest import mock

import torch
from torch import nn
from torch.multiprocessing.spawn import spawn

from narrows._util.allocator import keep_memory
from narrows._util.processes import leave_group, own_share, process_count
from narrows.constraint import Geco
from narrows.model.vae import GatedVAE, gated_vae
from narrows.networks import NetworkConfig, batchnorm
from narrows.recipes.base import Noise
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise
from step import BATCH, SHAPES, N, logits_of

Shape = tuple[int, int, int]
WAYS: dict[str, Callable[[], int]] = {"each its own rows": lambda: 1, "joined batch": process_count}
"""How many processes BatchNorm is told that there are."""
STEPS = 10


def make_model(shape: Shape) -> GatedVAE:
    """Return the paper's network, with half of the gates open for good."""
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("conv", shape, N))
    model.gates.logits.data.copy_(logits_of("settled", N))
    return model


def make_steps(shape: Shape) -> Callable[[int], None]:
    """Return a function that trains that many steps."""
    narrowing = Narrowing(make_model(shape), Geco(20.0))
    narrowing.hit.fill_(True)
    optimiser = make_optimiser(narrowing, 1e-6)
    wrapped = nn.parallel.DistributedDataParallel(narrowing) if process_count() > 1 else narrowing
    generator = torch.Generator().manual_seed(0)
    x = own_share(torch.rand(BATCH, *shape, generator=generator)).contiguous(memory_format=torch.channels_last)

    def steps(count: int) -> None:
        for _ in range(count):
            loss, _ = wrapped(x, Noise(*map(own_share, draw_noise(BATCH, N, generator))))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()

    return steps


def work(rank: int, count: int, shape: Shape, rounds: int, folder: str) -> None:
    """Measure both ways in turn; the first process prints the times."""
    keep_memory()
    torch.set_num_threads(1)
    if count > 1:
        torch.distributed.init_process_group("gloo", f"file://{folder}/group", world_size=count, rank=rank)
    run = make_steps(shape)
    times: dict[str, list[float]] = {way: [] for way in (WAYS if count > 1 else ["one process"])}
    for number in range(rounds + 1):
        for way in times:
            start = time.perf_counter()
            with mock.patch.object(batchnorm, "process_count", WAYS.get(way, process_count)):
                run(STEPS)
            if number:  # the first round warms up
                times[way].append((time.perf_counter() - start) / STEPS * 1e3)
    if rank == 0:
        for way, each in times.items():
            middle, low, high = statistics.median(each), min(each), max(each)
            print(f"| {count} | {way} | {middle:.1f} | {low:.1f} to {high:.1f} |", flush=True)
    del run
    leave_group()


def describe_exchanges(shape: Shape) -> None:
    """Print what one process contributes to the exchanges of a step."""
    model = make_model(shape)
    norms = [module for module in model.modules() if isinstance(module, batchnorm.BatchNorm)]
    channels = sum(len(norm.weight) for norm in norms)
    weights = sum(p.numel() for p in model.parameters())
    print(f"\nstatistics: {2 * len(norms)} exchanges for {len(norms)} layers with {channels} channels together:")
    print(f"  forward {3 * 8 * channels:,} bytes (mean, variance and count as doubles)")
    print(f"  backward {2 * 4 * channels:,} bytes (two sums as floats)")
    print(f"gradients: {4 * weights:,} bytes ({weights:,} weights)")


def main() -> None:
    """Print a table of times per step, and the exchanges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="64x64x1")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    print(f"{options.shape}, batch {BATCH}\n")
    print("| processes | BatchNorm over | ms per step, median | range |\n|---|---|---|---|")
    for count in (1, options.processes):
        with tempfile.TemporaryDirectory() as folder:
            spawn(work, (count, shape, options.rounds, folder), nprocs=count)  # type: ignore[no-untyped-call]
    describe_exchanges(shape)


if __name__ == "__main__":
    main()
