"""The time of a step, the cost of the gates, and a comparison with plain implementations.

    make bench          # or: python benchmarks/step.py [--json FILE] [--quick] [--only SHAPE] [--rounds N]

Each subject lives in a process of its own, with its own allocator settings, and all are measured in turn, round after
round, so that a busy machine disturbs all alike. After a few rounds all of them start anew: where a process happens to
have its memory makes it some percent faster or slower for as long as it lives. Times are of a whole step with its data:
gather the batch, forward, backward, update. Ratios are medians over the rounds, with their range.

    settled     ours, gates at pi = 0.999 or 0.001, half of them open: a run after its first thousands of batches
    fast        the fast recipe: hard gates, averaged weights, a held-out batch every fourth step
    fresh       ours, gates at their start, pi = 0.95: where most examples need the second decoder pass
    plain       ours without gates and bound: a plain VAE, the same networks
    literal     Algorithm 1 transcribed line by line (rivals/literal.py)
    pythae      pythae's VAE in its own trainer (rivals/pythae_vae.py; pip install 'narrows[bench]')
    sgemm       a product of two 2048 x 2048 matrices of floats: what the machine can do
    cores       1.6 MB that one core has written, read by the other: near cores share a cache, far ones do not
"""

import argparse
import json
import multiprocessing as mp
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

N, BATCH = 10, 64
IMAGES = 2_000
SHAPES = {"64x64x1": (1, 64, 64), "64x64x3": (3, 64, 64), "28x28x1": (1, 28, 28)}
SETTLED, FRESH = 1.0, 0.42  # logits: pi = sigmoid(7 * logit)
GEMM = 2048
EXCHANGED, EXCHANGES = 400_000, 100
ROUNDS, ROUNDS_A_START = 12, 3


@dataclass(frozen=True)
class Subject:
    """The kind and size of step that one process measures."""

    kind: str
    shape: tuple[int, int, int] = (1, 64, 64)
    n: int = N
    batch: int = BATCH


def images_of(shape: tuple[int, int, int]) -> np.ndarray:
    """Return random images, (N, H, W, C) uint8."""
    channels, height, width = shape
    return np.random.default_rng(0).integers(0, 256, (IMAGES, height, width, channels), dtype=np.uint8)


def logits_of(kind: str, n: int) -> Any:
    """Return the gates' logits: fresh, or settled with half of them open."""
    import torch

    return torch.full((n,), FRESH) if kind == "fresh" else torch.where(torch.arange(n) % 2 == 0, SETTLED, -SETTLED)


def ours(subject: Subject) -> Callable[[], None]:
    """Return our step; the gates are reset before each step."""
    import torch

    from narrows.constraint import Geco
    from narrows.data import ArrayExamples, Batches
    from narrows.model.vae import gated_vae
    from narrows.networks import NetworkConfig
    from narrows.recipes.optimiser import make_optimiser
    from narrows.recipes.paper import Narrowing, draw_noise

    examples = ArrayExamples(images_of(subject.shape), 1 / 255)
    batches = Batches(np.arange(IMAGES), subject.batch, seed=0)
    narrowing = Narrowing(gated_vae(NetworkConfig("conv", subject.shape, subject.n)), Geco(20.0))
    narrowing.hit.fill_(True)
    logits = logits_of(subject.kind, subject.n)
    optimiser = make_optimiser(narrowing)
    generator = torch.Generator().manual_seed(0)
    half = subject.kind == "bfloat16"

    def step() -> None:
        with torch.no_grad():
            narrowing.model.gates.logits.copy_(logits)
        x = examples.batch(batches.next())
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss, _ = narrowing(x, draw_noise(len(x), subject.n, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        narrowing.constraint.project()

    return step


def fast(subject: Subject) -> Callable[[], None]:
    """Return the fast recipe's step with `after_step`; as many gates are open as in `settled`."""
    import torch

    from narrows.data import ArrayExamples, Batches
    from narrows.model.vae import gated_vae
    from narrows.networks import NetworkConfig
    from narrows.recipes.fast import Fast
    from narrows.recipes.optimiser import make_optimiser

    examples = ArrayExamples(images_of(subject.shape), 1 / 255)
    batches = Batches(np.arange(IMAGES), subject.batch, seed=0)
    model = gated_vae(NetworkConfig("conv", subject.shape, subject.n))
    model.gates.close(range(1, subject.n, 2))

    def held_out(count: int, generator: torch.Generator) -> torch.Tensor:
        return examples.batch(torch.randint(IMAGES, (count,), generator=generator).numpy())

    recipe = Fast(model, 20.0, held_out, (IMAGES, IMAGES))
    optimiser = make_optimiser(recipe)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        x = examples.batch(batches.next())
        loss, _ = recipe(x, recipe.noise(len(x), generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        recipe.after_step(optimiser)

    return step


def plain(subject: Subject) -> Callable[[], None]:
    """Return the step of a plain VAE with our networks, data and optimiser."""
    import torch

    from narrows.data import ArrayExamples, Batches
    from narrows.model.vae import VAE, standard_normal
    from narrows.networks import NetworkConfig, build
    from narrows.objective import kl_elements, squared_error

    examples = ArrayExamples(images_of(subject.shape), 1 / 255)
    batches = Batches(np.arange(IMAGES), subject.batch, seed=0)
    encoder, decoder, scaling = build(NetworkConfig("conv", subject.shape, subject.n))
    model = VAE(encoder, decoder, subject.n, scaling=scaling)
    if subject.kind == "compiled":
        model.encoder.compile()
        model.decoder.compile()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        x = examples.batch(batches.next())
        posterior = model.encode(x)
        reconstruction = model.decode(posterior.draw(standard_normal(posterior.mean, generator)))
        loss = (squared_error(x, reconstruction) + kl_elements(*posterior).sum(1)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad()

    return step


def exchange(numbers: Any) -> Callable[[], None]:
    """Return a step in which each of two cores reads what the other has written, some hundred times."""
    import torch

    half = len(numbers) // 2
    swapped = torch.empty_like(numbers)

    def step() -> None:
        for _ in range(EXCHANGES):
            torch.add(numbers, 1, out=swapped)  # the first half by one core, the second by the other
            torch.add(swapped[:half], swapped[half:], out=numbers[:half])
            numbers[:half].zero_()

    return step


def make_run(subject: Subject) -> Callable[[int], None]:
    """Return a function that runs some steps of a subject."""
    import torch

    torch.manual_seed(0)
    makers = {"fast": fast, "plain": plain, "compiled": plain, "settled": ours, "fresh": ours, "bfloat16": ours}
    if subject.kind in makers:
        from narrows._util.allocator import keep_memory

        keep_memory()
        step = makers[subject.kind](subject)
    elif subject.kind == "literal":
        from rivals.literal import Literal

        step = Literal(images_of(subject.shape), subject.n, logits_of("settled", subject.n), subject.batch).step
    elif subject.kind == "pythae":
        from rivals.pythae_vae import Pythae

        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (its progress bars)
        return Pythae(images_of(subject.shape), subject.n, subject.batch).run
    elif subject.kind == "cores":
        step = exchange(torch.rand(EXCHANGED))
    else:
        a, b = torch.rand(2, GEMM, GEMM)

        def step() -> None:
            torch.mm(a, b)

    def run(steps: int) -> None:
        for _ in range(steps):
            step()

    return run


def count_multiply_adds(shape: tuple[int, int, int]) -> dict[str, int]:
    """Count the multiply-adds of one plain step, forward and backward, with both forms of the upsampling layers."""
    import torch
    from torch import nn

    from narrows.networks import NetworkConfig, build
    from narrows.networks.upsampling import UpsampleConv

    counts = {"transposed": 0, "products": 0}
    encoder, decoder, _ = build(NetworkConfig("conv", shape, N))
    first = next(layer for layer in encoder.modules() if isinstance(layer, nn.Conv2d))

    def count(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        passes = 2 if layer is first else 3  # the images need no gradient
        if isinstance(layer, UpsampleConv):
            pixels = inputs[0].numel() // inputs[0].shape[1]
            counts["products"] += passes * pixels * layer.weight.numel()
            counts["transposed"] += passes * pixels * layer.weight[:, :, 0, 0].numel() * layer.taps[0].numel()
        elif isinstance(layer, nn.Conv2d | nn.Linear):
            for form in counts:
                counts[form] += passes * output.numel() * layer.weight[0].numel()

    for layer in (*encoder.modules(), *decoder.modules()):
        layer.register_forward_hook(count)
    decoder(encoder(torch.rand(BATCH, *shape))[:, :N])
    return counts


def work(subject: Subject, pipe: Connection) -> None:
    """Build a subject in its process, then run as many steps as asked for and send back the time."""
    run = make_run(subject)
    while steps := pipe.recv():
        start = time.perf_counter()
        run(steps)
        pipe.send((time.perf_counter() - start) / steps)


def measure(subjects: dict[str, Subject], rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the seconds per step of every subject, one number per round, measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for begin in range(0, rounds, ROUNDS_A_START):
        pipes, processes = start(subjects, steps)
        for _ in range(begin, min(begin + ROUNDS_A_START, rounds)):
            for name, pipe in pipes.items():
                pipe.send(steps)
                times[name].append(pipe.recv())
        for pipe in pipes.values():
            pipe.send(0)
        for process in processes:
            process.join()
    return times


def start(subjects: dict[str, Subject], steps: int) -> tuple[dict[str, Connection], list[Any]]:
    """Start every subject's process and let it warm up."""
    context = mp.get_context("spawn")
    pipes, processes = {}, []
    for name, subject in subjects.items():
        pipes[name], theirs = context.Pipe()
        process = context.Process(target=work, args=(subject, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes[name].send(steps)
        pipes[name].recv()
        processes.append(process)
    return pipes, processes


def ratio(top: list[float], bottom: list[float]) -> dict[str, float]:
    """Return the median of the ratios of two subjects, round by round, and their range."""
    ratios = [a / b for a, b in zip(top, bottom, strict=True)]
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def shown(r: dict[str, float]) -> str:
    """Format a ratio with its range."""
    return f"{r['median']:.2f} ({r['low']:.2f} to {r['high']:.2f})"


def compare(label: str, shape: tuple[int, int, int], rounds: int, steps: int, rivals: list[str]) -> dict[str, Any]:
    """Measure everything on images of one shape, print it, and return it."""
    kinds = ["settled", "fast", "fresh", "plain", *rivals, "sgemm", "cores"]
    times = measure({kind: Subject(kind, shape) for kind in kinds}, rounds, steps)
    best = {kind: 1e3 * min(t) for kind, t in times.items()}
    print(f"\n### {label}, batch {BATCH}, n = {N}\n\n| | best ms | images/s |\n|---|---|---|")
    for kind in kinds[:-2]:
        print(f"| {kind} | {best[kind]:.1f} | {BATCH / best[kind] * 1e3:,.0f} |")
    ratios = {
        "settled / plain": ratio(times["settled"], times["plain"]),
        "fast / plain": ratio(times["fast"], times["plain"]),
        "fresh / plain": ratio(times["fresh"], times["plain"]),
        **{f"{rival} / settled": ratio(times[rival], times["settled"]) for rival in rivals},
    }
    for name, r in ratios.items():
        print(f"| {name} | {shown(r)} | |")
    needed = count_multiply_adds(shape)
    gemm = [GEMM**3 / t for t in times["sgemm"]]
    print(f"| sgemm, multiply-adds a second | {max(gemm) / 1e9:.0f} G | |")
    fractions = {}
    for form, count in needed.items():
        fractions[form] = ratio([count / t for t in times["settled"]], gemm)
        print(f"| settled / sgemm, {count / 1e9:.2f} G multiply-adds ({form}) | {shown(fractions[form])} | |")
    far = sorted(1e6 * t / EXCHANGES for t in times["cores"])
    middle = statistics.median(far)
    print(f"| 1.6 MB from core to core | {middle:.0f} us ({far[0]:.0f} to {far[-1]:.0f}) | |", flush=True)
    return {"best ms": best, "ratios": ratios, "multiply-adds": needed, "settled / sgemm": fractions, "seconds": times}


def sizes(rounds: int, steps: int) -> dict[str, Any]:
    """Measure the step against the number of latents and the batch."""
    latents, batches = (8, 64, 512), (16, 64, 256)
    results: dict[str, Any] = {}
    print("\n### Latent dimensions and batch: best ms a step (us an image), 64x64x1, settled\n")
    print(f"| | {' | '.join(f'batch {b}' for b in batches)} |\n|---|{'---|' * len(batches)}")
    for n in latents:
        times = measure({str(b): Subject("settled", n=n, batch=b) for b in batches}, rounds, steps)
        best = {b: 1e3 * min(times[str(b)]) for b in batches}
        print(f"| n = {n} | {' | '.join(f'{best[b]:.1f} ({1e3 * best[b] / b:.0f})' for b in batches)} |", flush=True)
        results[str(n)] = best
    return results


def beyond(rounds: int, steps: int) -> dict[str, Any]:
    """Measure two possible speedups: bfloat16, and torch.compile of a plain VAE's encoder and decoder."""
    results: dict[str, Any] = {}
    print("\n### Beyond, batch 64\n\n| | bfloat16 / settled | compiled / plain |\n|---|---|---|")
    for label in ("64x64x1", "28x28x1"):
        kinds = ("settled", "bfloat16", "plain", "compiled")
        times = measure({kind: Subject(kind, SHAPES[label]) for kind in kinds}, rounds, steps)
        half, compiled = ratio(times["bfloat16"], times["settled"]), ratio(times["compiled"], times["plain"])
        print(f"| {label} | {shown(half)} | {shown(compiled)} |", flush=True)
        results[label] = {"bfloat16 / settled": half, "compiled / plain": compiled, "seconds": times}
    return results


def main() -> None:
    """Measure, print Markdown, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write all times here")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs")
    parser.add_argument("--only", choices=list(SHAPES), help="the comparison on images of this shape, nothing else")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    rounds, steps = (2, 1) if options.quick else (options.rounds, 20)
    rivals = ["literal"]
    try:
        import pythae  # noqa: F401

        rivals.append("pythae")
    except ImportError:
        print("pythae is not installed (pip install 'narrows[bench]'): measured without it")
    import torch

    machine = (
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    print(f"{machine}; {rounds} rounds of {steps} steps, {-(-rounds // ROUNDS_A_START)} starts")
    results: dict[str, Any] = {"machine": machine}
    for label in [options.only] if options.only else SHAPES:
        results[label] = compare(label, SHAPES[label], rounds, steps, rivals)
    if not options.only:
        results["sizes"] = sizes(max(2, rounds // 3), steps)
        results["beyond"] = beyond(rounds, steps)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
