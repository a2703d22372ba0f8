"""What a whole run loses with the transposed convolution alone: run with both forms, in turn, each in its own process.

python benchmarks/upsampling.py
"""

import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

SETS: dict[str, dict[str, Any]] = {
    "dsprites, width 16": {"data": "dsprites", "tau": 30.0, "n": 10, "width": 16, "steps": 250},
    "mnist, width 32": {"data": "mnist", "tau": 10.0, "n": 32, "steps": 300},
    "dsprites, width 32": {"data": "dsprites", "tau": 20.0, "n": 10, "steps": 150},
}
ROUNDS = 3


def run(name: str, form: str) -> None:
    """Train once and print the seconds it took."""
    import narrows
    from narrows._util.allocator import keep_memory
    from narrows.networks.upsampling import UpsampleConv

    keep_memory()
    if form == "transposed":
        UpsampleConv._has_products = lambda self, x: False  # type: ignore[method-assign]
    config = narrows.TrainConfig(**SETS[name], eval_every=10**6)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        narrows.train(config, f"{folder}/run")
        print(time.perf_counter() - start)


def main() -> None:
    """Print the seconds of each form, and the median of their ratios."""
    print("| run | products, s | transposed, s | ratio |\n|---|---|---|---|")
    for name in SETS:
        seconds: dict[str, list[float]] = {"products": [], "transposed": []}
        for turn in range(ROUNDS):
            for form in sorted(seconds, reverse=turn % 2 == 1):
                command = [sys.executable, __file__, name, form]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds[form].append(float(done.stdout.split()[-1]))
        products, transposed = (" ".join(f"{value:.1f}" for value in seconds[form]) for form in seconds)
        ratio = statistics.median(b / a for a, b in zip(*seconds.values(), strict=True))
        print(f"| {name} | {products} | {transposed} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:]) if len(sys.argv) > 1 else main()
