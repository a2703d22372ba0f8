"""Speed and memory of the data: the loader against a training step and torch's DataLoader, and the memory of runs.

    python benchmarks/data.py [FOLDER]

Everything is measured in one process, interleaved, so that a busy machine disturbs all measurements alike: a batch of
64 from our loader, the same batch from torch's DataLoader over a per-item Dataset of the same array, and a training
step (width 32) on it. Then come runs of 200 batches on all of dSprites and Shapes3D, one process each, with the peak
resident memory that Linux reports; Shapes3D also as one mapped file of 5.9 GB, written to FOLDER (by default a
temporary one).
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from narrows._util.allocator import keep_memory
from narrows.constraint import Geco
from narrows.data import Batches, Examples, load
from narrows.data.cache import write_array
from narrows.data.examples import in_batches
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise

BATCH, ROUNDS, PER_ROUND = 64, 15, 10


class PerItem(Dataset[Tensor]):
    """A usual torch dataset: one example at a time from the same store, collated by the DataLoader."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, i: int) -> Tensor:
        return self.examples.batch(np.array([i]))[0]


def endless(loader: "DataLoader[Tensor]") -> Iterator[Tensor]:
    """Repeat the loader without end."""
    while True:
        yield from loader


def make_step(shape: tuple[int, ...]) -> Callable[[Tensor], None]:
    """Return a function that does one training step, with gates that are decided."""
    torch.manual_seed(0)
    narrowing = Narrowing(gated_vae(NetworkConfig("conv", shape, n=10)), Geco(20.0))
    with torch.no_grad():
        narrowing.model.gates.logits.copy_(torch.tensor([7.0] * 5 + [-7.0] * 5))
    optimiser = make_optimiser(narrowing, 1e-3)
    generator = torch.Generator().manual_seed(0)

    def step(x: Tensor) -> None:
        loss, _ = narrowing(x, draw_noise(len(x), 10, generator))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def timed(call: Callable[[], object]) -> float:
    """Return the mean time of PER_ROUND calls, in milliseconds."""
    start = time.perf_counter()
    for _ in range(PER_ROUND):
        call()
    return (time.perf_counter() - start) / PER_ROUND * 1e3


def compare(name: str, examples: Examples) -> dict[str, float]:
    """Return the median times of the loader, torch's loader and a step, interleaved."""
    batches = Batches(np.arange(len(examples)), BATCH, seed=0)
    items = PerItem(examples)
    plain = endless(DataLoader(items, BATCH, shuffle=True, drop_last=True))
    workers = endless(DataLoader(items, BATCH, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True))
    step = make_step(examples.shape)
    held = examples.batch(batches.next())

    pool = ThreadPoolExecutor(1)
    ahead = [pool.submit(lambda: examples.batch(batches.next()))]

    def prefetched() -> None:
        x = ahead.pop().result()
        ahead.append(pool.submit(lambda: examples.batch(batches.next())))
        step(x)

    ways: dict[str, Callable[[], object]] = {
        "loader": lambda: examples.batch(batches.next()),
        "DataLoader": lambda: next(plain),
        "DataLoader, 2 workers": lambda: next(workers),
        "step": lambda: step(held),
        "loader and step": lambda: step(examples.batch(batches.next())),
        "loader in a thread and step": prefetched,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, call in ways.items():
            times[way].append(timed(call))
    medians = {way: float(np.median(t)) for way, t in times.items()}
    share = float(np.median(np.array(times["loader"]) / np.array(times["step"])))
    thread = float(np.median(np.array(times["loader in a thread and step"]) / np.array(times["loader and step"])))
    print(f"\n{name}: {len(examples):,} examples of {'x'.join(map(str, examples.shape))}, batches of {BATCH}")
    for way, t in medians.items():
        print(f"    {way:28} {t:8.3f} ms   {1e3 / t:8.0f} batches/s")
    print(f"    the loader takes {share:.2%} of a step; with a thread, a step takes {thread:.3f} of the time without")
    return {**medians, "share": share, "thread": thread}


PEAK = """
import sys
from narrows._util.allocator import keep_memory
from narrows.cli import main
keep_memory()
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def peak_memory(*arguments: str) -> float:
    """Return the peak resident memory, in megabytes, of `narrows train` for 200 batches in another process."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["train", *arguments, "--tau", "30", "--steps", "200", "--eval-every", "100"]
        command += ["--out", str(Path(folder) / "run")]
        done = subprocess.run([sys.executable, "-c", PEAK, *command], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1]) / 1024


def write_all(examples: Examples, path: Path) -> None:
    """Write every image of a set to one .npy file, as an official file would be cached."""
    channels, height, width = examples.shape
    batches = in_batches(examples, np.arange(len(examples)), rows=2000)
    chunks = (x.permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).numpy() for _, x in batches)
    with path.open("wb") as file:
        write_array(file, (height, width, channels), np.dtype(np.uint8), chunks)


def main() -> None:
    """Print the tables, and the same as JSON in the last line."""
    keep_memory()
    results: dict[str, object] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    sprites, shapes = load("dsprites", source="drawn"), load("shapes3d", source="drawn")
    results["dsprites"] = compare("dsprites, drawn (packed bits, mapped)", sprites.examples)
    results["shapes3d"] = compare("shapes3d, drawn (coloured per batch)", shapes.examples)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        path = Path(folder) / "shapes3d.npy"
        write_all(shapes.examples, path)
        results["shapes3d mapped"] = compare("shapes3d, one mapped file of 5.9 GB", load(path).examples)
        memory = {
            "dsprites": peak_memory("dsprites", "--source", "drawn"),
            "shapes3d": peak_memory("shapes3d", "--source", "drawn"),
            "shapes3d mapped": peak_memory(str(path)),
        }
    print("\npeak resident memory of `narrows train` (width 32, 200 batches, two passes over the validation split):")
    for name, megabytes in memory.items():
        print(f"    {name:28} {megabytes:8.0f} MB")
    results["peak MB"] = memory
    print(json.dumps(results))


if __name__ == "__main__":
    main()
