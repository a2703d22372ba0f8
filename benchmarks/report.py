"""How long a run's report takes, and how large it is: the demo's model, and one with 512 dimensions.

python benchmarks/report.py

The models are trained for a few batches only: what a report costs depends on their size, not on what they have learnt.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import narrows
from narrows.report.run_page import write_report

DEMO = narrows.TrainConfig(tau=30.0, n=10, width=16, steps=20)


def main() -> None:
    """Print a line a model."""
    data = narrows.load("dsprites", origin="drawn")
    for config in (DEMO, replace(DEMO, n=512)):
        with tempfile.TemporaryDirectory() as folder:
            result, run = narrows.train(config, Path(folder) / "run", data=data)
            start, work = time.perf_counter(), time.process_time()
            path = write_report(run, data)
            seconds, work = time.perf_counter() - start, time.process_time() - work
            size = path.stat().st_size / 1e6
            print(f"{result.dims} dimensions: {seconds:.1f} s ({work:.1f} s of the processor), {size:.2f} MB")


if __name__ == "__main__":
    main()
