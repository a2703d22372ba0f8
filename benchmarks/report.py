"""How long a run's report takes, and how large it is: for the demo's model, and for one with 512 dimensions.

Then what one look at a training run costs with --live: the page and the terminal's curves, after many rows.

python benchmarks/report.py

The models are trained for a few batches only: a report's cost depends on their size, not on what they have learnt.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import narrows
from narrows._util.files import write_atomic
from narrows.report.live.follow import Follower
from narrows.report.live.page import page
from narrows.report.live.screen import draw
from narrows.report.run_page import write_report
from narrows.runs.folder import RunFolder
from narrows.runs.records import DecisionRow, MetricRow
from narrows.training.config import to_dict

DEMO = narrows.TrainConfig(tau=30.0, n=10, width=16, steps=20)
ROWS = (80, 1_000, 20_000)
"""The demo has 80 rows; a million batches have 20,000."""
LOOKS = 10


def main() -> None:
    """Print one line per model, and one line per length of run."""
    data = narrows.load("dsprites", source="drawn")
    for config in (DEMO, replace(DEMO, n=512)):
        with tempfile.TemporaryDirectory() as folder:
            outcome = narrows.train(config, Path(folder) / "run", data=data)
            result, run = outcome.result, outcome.folder
            start, work = time.perf_counter(), time.process_time()
            path = write_report(run, data)
            seconds, work = time.perf_counter() - start, time.process_time() - work
            size = path.stat().st_size / 1e6
            print(f"{result.dims} dimensions: {seconds:.1f} s ({work:.1f} s of the processor), {size:.2f} MB")
    for rows in ROWS:
        look(rows)


def look(count: int) -> None:
    """Print what one look costs at a run with `count` rows, when the earlier rows have been read."""
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path) / "run")
        folder.path.mkdir()
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
            snapshot = follower.look()
            assert snapshot.run is not None
            content = page(snapshot, snapshot.run, live=True).html()
            write_atomic(folder.report, content)
            middle = time.perf_counter()
            draw(follower.look(), 100, 30)
            seconds["page"] += middle - start
            seconds["terminal"] += time.perf_counter() - middle
            size = len(content.encode())
        times = ", ".join(f"{name} {1e3 * spent / LOOKS:.0f} ms" for name, spent in seconds.items())
        print(f"a look after {count:,} rows: {times}; the page has {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
