"""A soak: training, reports, explorer requests and resumes in a loop, for an hour, with flat memory and no leftovers.

    python tests/faults/soak.py --minutes 60 --seed 0 --out soak.csv

Two processes live as long as the soak: one that trains, reports, encodes, decodes and samples again and again, and a
real `narrows explore` under requests. Beside them, runs are killed at random times and resumed, and must end with the
bytes of an undisturbed run. Every few seconds the resident set, the open files and the threads of both processes are
written to a table. The soak passes if

    memory     the median of the last sixth is at most 5% above that of the sixth that follows the warm-up, a sixth
               itself (ten minutes each in an hour),
    handles    and threads: the median of the last sixth is not above the largest of that first sixth,
    leftovers  the temporary folder is empty, the cache has the files it had after the warm-up, and no half-written
               file lies in a run's folder.

Less than five minutes are a smoke test, which looks for errors and leftovers only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.activities import Activity, Explorer, Kills, Wrong, environment, make_data, work_in_one_process

PARTS = 6
LIMIT = 1.05
SHORTEST = 300
"""Seconds below which a soak does not judge what grows: processes are still warming up."""
SECONDS = 3.0
"""Between two samples."""


class Sample(NamedTuple):
    """One process at one time."""

    seconds: float
    process: str
    rss: int
    handles: int
    threads: int


class Sampler:
    """Samples of long-lived processes, in memory and in a .csv file."""

    def __init__(self, path: Path, processes: dict[str, int]) -> None:
        self.processes = {name: psutil.Process(number) for name, number in processes.items()}
        self.samples: list[Sample] = []
        self.start = time.monotonic()
        self.file = path.open("w", buffering=1)
        print(*Sample._fields, sep=",", file=self.file)

    def take(self) -> None:
        """Add one sample of each process."""
        for name, process in self.processes.items():
            with process.oneshot():
                sample = Sample(
                    round(time.monotonic() - self.start, 1),
                    name,
                    process.memory_info().rss,
                    process.num_fds(),
                    process.num_threads(),
                )
            self.samples.append(sample)
            print(*sample, sep=",", file=self.file)

    def verdicts(self) -> list[tuple[str, str, float, float, bool]]:
        """Return (process, what, at first, at last, whether that is flat)."""
        end = max(sample.seconds for sample in self.samples)
        part = end / PARTS
        lines = []
        for name in self.processes:
            mine = [sample for sample in self.samples if sample.process == name]
            first = [sample for sample in mine if part <= sample.seconds < 2 * part]
            last = [sample for sample in mine if sample.seconds >= end - part]
            if not first or not last:
                lines.append((name, "samples", len(first), len(last), False))
                continue
            early, late = (median(sample.rss for sample in some) / 1e6 for some in (first, last))
            lines.append((name, "resident MB", early, late, late <= LIMIT * early))
            for what in ("handles", "threads"):
                most = max(getattr(sample, what) for sample in first)
                now = median(getattr(sample, what) for sample in last)
                lines.append((name, what, most, now, now <= most))
        return lines


def soak(folder: Path, seconds: float, seed: int, out: Path) -> int:
    """Soak for a time; print what was done and whether everything stayed flat; return the exit code."""
    for name in ("temporary", "cache", "home", "library"):
        (folder / name).mkdir()
    os.environ.update(environment(folder))
    make_data(folder / "data.npy")
    kills = Kills(folder, seed)
    explorer = Explorer(folder / "undisturbed-fast", seed)
    command = [sys.executable, __file__, "--library", str(folder), "--seconds", str(seconds), "--seed", str(seed)]
    library = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    counts: dict[str, int] = {}
    assert library.stdout is not None
    threading.Thread(target=lambda: [counts.update(json.loads(line)) for line in library.stdout], daemon=True).start()
    sampler = Sampler(out, {"library": library.pid, "explorer": explorer.process.pid})
    activities = [Activity("explorer", explorer.visit), Activity("kills", kills.once)]
    for activity in activities:
        activity.start()
    problems, cached = [], None
    while library.poll() is None and not any(activity.error for activity in activities):
        sampler.take()
        if cached is None and time.monotonic() - sampler.start > seconds / PARTS:
            cached = files(folder / "cache")
        time.sleep(SECONDS)
    for activity in activities:
        activity.asked.set()
    for activity in activities:
        activity.join(120)
        if activity.error:
            problems.append(f"{activity.name}: {type(activity.error).__name__}: {activity.error}")
    try:
        explorer.end()
    except (Wrong, subprocess.TimeoutExpired) as error:
        problems.append(str(error))
    if library.poll() is None:
        library.kill()
    elif library.returncode:
        problems.append(f"the process that trains ended with code {library.returncode}")
    problems += [f"left in the temporary folder: {name}" for name in files(folder / "temporary")]
    problems += [f"new in the cache: {name}" for name in sorted(set(files(folder / "cache")) - set(cached or []))]
    done = sum((activity.done for activity in activities), Counter(counts))
    print("  ".join(f"{what}: {count:,}" for what, count in done.items()))
    print(f"{'process':12}{'what':14}{'at first':>10}{'at last':>10}")
    for name, what, early, late, flat in sampler.verdicts():
        judged = seconds >= SHORTEST
        print(
            f"{name:12}{what:14}{early:10.1f}{late:10.1f}  {('flat' if flat else 'GROWS') if judged else 'too short'}"
        )
        if judged and not flat:
            problems.append(f"the {what} of the {name} grow from {early:.1f} to {late:.1f}")
    print(*problems, sep="\n")
    print(f"{'failed' if problems else 'passed'}: {sampler.samples[-1].seconds / 60:.1f} minutes, seed {seed}, {out}")
    return int(bool(problems))


def files(folder: Path) -> list[str]:
    """Return the files and folders in a folder, relative to it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("soak.csv"), help="the table of samples")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.library:
        work_in_one_process(given.library, given.seed, given.seconds)
        return 0
    print(f"soak of {given.minutes:g} minutes, seed {given.seed}; samples in {given.out}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        return soak(Path(folder), 60 * given.minutes, given.seed, given.out.absolute())


if __name__ == "__main__":
    sys.exit(main())
