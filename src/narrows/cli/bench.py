"""bench: how fast this machine trains."""

import itertools
from typing import Literal

from narrows._util.printing import say
from narrows.cli.app import app
from narrows.training.config import TrainConfig


@app.command
def bench(
    *,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["float32", "bfloat16"] = "float32",
    compile: bool = False,
    steps: int = 32,
) -> None:
    """Measure a training step of both recipes on the standard networks, and print a table to paste into an issue.

    Examples:

        narrows bench
        narrows bench --device cuda --precision bfloat16

    Parameters
    ----------
    device
        Where to train; auto uses an accelerator if there is one.
    precision
        bfloat16: mixed precision.
    compile
        Compile the networks with torch.compile, which takes some minutes before the first row.
    steps
        Steps to time for each row of the table.
    """
    from narrows.training.speed import Bench

    measured = Bench(TrainConfig(device=device, precision=precision, compile=compile), steps)
    rows = measured.measure()
    first = next(rows)  # raises if there is no such device
    say(f"{measured.machine()}\n\n| examples | recipe | ms per step | examples/s | memory, MB | host waits per step |")
    say("|---|---|---|---|---|---|")
    for row in itertools.chain([first], rows):
        say(
            f"| {row.network} | {row.recipe} | {row.milliseconds:.1f} | {row.examples:,.0f} | {row.memory:,.0f} | "
            f"{row.waits:.2f} |"
        )
