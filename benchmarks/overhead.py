"""What part of a run's time goes into finding directions and measuring held-out examples, and not into batches.

python benchmarks/overhead.py FOLDER      MNIST (its four .gz files), tau = 10, n = 32; about two minutes on one core

Measure while nothing else runs.
"""

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from narrows._util.allocator import keep_memory
from narrows.data.named import mnist
from narrows.recipes.fast import Fast
from narrows.recipes.monitor import Monitor
from narrows.recipes.turning import Turning
from narrows.training.config import TrainConfig
from narrows.training.selection import Selection
from narrows.training.start import train

seconds: dict[str, float] = defaultdict(float)


def timed(owner: Any, method: str, name: str) -> None:
    """Add the time that calls of this method take to `seconds[name]`."""
    plain: Callable[..., Any] = getattr(owner, method)

    def wrapper(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            made = plain(*arguments, **named)
        finally:
            seconds[name] += time.perf_counter() - start
        return _timed_items(made, name) if isinstance(made, Iterator) else made

    setattr(owner, method, wrapper)


def _timed_items(items: Iterator[Any], name: str) -> Iterator[Any]:
    """Yield the items of a generator, which works while it is read."""
    while True:
        start = time.perf_counter()
        item = next(items, None)
        seconds[name] += time.perf_counter() - start
        if item is None:
            return
        yield item


def main() -> None:
    """Train once and print the shares of the time."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python benchmarks/overhead.py FOLDER (with MNIST's four .gz files)")
    keep_memory()
    timed(Turning, "costs", "directions: proposing them, and the joint cost of closing 1, 2, ... of them")
    timed(Turning, "apply", "directions: changing coordinates")
    timed(Fast, "_settle", "directions: settling the codes twice, with the panel's comparisons in it")
    timed(Monitor, "measure", "measuring the panel")
    timed(Monitor, "calibrate", "comparing the panel with 2,048 examples")
    timed(Monitor, "follow", "averaging weights")
    timed(Selection, "consider", "full validation passes")
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(tau=10.0, n=32, threads=1, device="cpu")
        result = train(config, Path(folder) / "run", mnist.read(Path(sys.argv[1]))).result
    print(f"{result.dims} dimensions, {result.steps:,} batches in {result.seconds:.0f} s")
    for name, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{spent / result.seconds:6.1%}  {name}")


if __name__ == "__main__":
    main()
