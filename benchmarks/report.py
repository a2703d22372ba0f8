"""How long a run's report takes, and how large it is: the demo's model, and one with 512 dimensions.

Then what one look at a run at work costs with --live: the page and the terminal's curves, after many rows.

python benchmarks/report.py

The models are trained for a few batches only: what a report costs depends on their size, not on what they have learnt.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import narrows
from narrows.files import write_atomic
from narrows.report.following import Follower
from narrows.report.live_page import page
from narrows.report.run_page import write_report
from narrows.report.screen import view
from narrows.runs import DecisionRow, MetricRow, RunFolder
from narrows.training.config import to_dict

DEMO = narrows.TrainConfig(tau=30.0, n=10, width=16, steps=20)
ROWS = (80, 1_000, 20_000)
"""The demo has 80; 20,000 are a million batches."""
LOOKS = 10


def main() -> None:
    """Print a line a model, and a line a length of run."""
    data = narrows.load("dsprites", origin="drawn")
    for config in (DEMO, replace(DEMO, n=512)):
        with tempfile.TemporaryDirectory() as folder:
            result, run = narrows.train(config, Path(folder) / "run", data=data)
            start, work = time.perf_counter(), time.process_time()
            path = write_report(run, data)
            seconds, work = time.perf_counter() - start, time.process_time() - work
            size = path.stat().st_size / 1e6
            print(f"{result.dims} dimensions: {seconds:.1f} s ({work:.1f} s of the processor), {size:.2f} MB")
    for rows in ROWS:
        look(rows)


def look(count: int) -> None:
    """Print what a look at a run with that many rows costs, once the rows before are known."""
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path) / "run")
        folder.create()
        folder.write_config(to_dict(DEMO))
        rows = [
            MetricRow(50 * i, 30 + 900 / i, 5.0, 5, 20 / i, 0.5 + i % 7 / 50, 4.0, 6.5, 2.0 * i, 30 + 800 / i)
            for i in range(1, count + LOOKS + 1)
        ]
        for row in rows[:count]:
            folder.append_row(row)
        for gate in range(5):
            folder.append_decision(DecisionRow(100 * gate, "close", 10 - gate, 0.9, str(gate)))
        follower = Follower(folder.path)
        follower.look()
        seconds, size = {"page": 0.0, "terminal": 0.0}, 0
        for row in rows[count:]:
            folder.append_row(row)
            start = time.perf_counter()
            content = page(follower.look(), live=True)
            write_atomic(folder.report, content)
            middle = time.perf_counter()
            view(follower.look(), 100, 30)
            seconds["page"] += middle - start
            seconds["terminal"] += time.perf_counter() - middle
            size = len(content.encode())
        told = ", ".join(f"{name} {1e3 * spent / LOOKS:.0f} ms" for name, spent in seconds.items())
        print(f"a look after {count:,} rows: {told}; the page has {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
