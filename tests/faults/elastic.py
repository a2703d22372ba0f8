"""Kill one of two training processes at a random moment; the launcher starts both again, and nothing is lost.

    python tests/faults/elastic.py --count 10 --seed 0
    python tests/faults/elastic.py --case 3             one case again

torchrun restarts all processes when one has died. They send themselves the same command with --resume, so the run
continues from its last checkpoint. In the end every file must be equal to that of a run with two processes that was
never disturbed, and what had to be trained again is no more than lies between two checkpoints.
"""

import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.scenarios import HANGS, SCENARIOS, SHARED, Done, Place, Wrong, compare, contents, ended
from narrows.runs.folder import RunFolder

LAUNCH = [
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc_per_node",
    "2",
    "--max-restarts",
    "3",
    "-m",
    "narrows",
]
CHECKPOINT_EVERY, LOG_EVERY = 25, 5
"""As `SHARED` has them."""


def kill_one(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Kill a process of one run, at a moment between the first batch and the last, and compare what is left."""
    if SCENARIOS[name][0] != "train":
        return Counter()
    expected = undisturbed(place, name)
    process = place.open(command(place, name, out), launcher=LAUNCH)
    reached = rng.uniform(0, 1) * max(expected_steps(place, name) - LOG_EVERY, 1)
    workers = wait_for(process.pid, RunFolder(out), reached)
    if workers:
        rng.choice(workers).kill()
    trained = last_step(RunFolder(out))
    done = ended(process)
    if done.code != 0:
        raise Wrong(f"the launcher ended with code {done.code}: {done.err[-2000:]}")
    compare(contents(out), expected)
    counts = Counter({"kills": len(workers) > 0})
    if workers and (lost := trained - continued_from(done)) > CHECKPOINT_EVERY + LOG_EVERY:
        raise Wrong(f"{lost} batches were trained again, more than lie between two checkpoints")
    return counts


def command(place: Place, name: str, out: Path) -> list[str]:
    """Return the command of a scenario with --resume; n is in a file, as the launcher takes --n for its own."""
    (place.folder / "n.toml").write_text("n = 4\n")
    options = [option for option in SHARED if not option.startswith("--n=")]
    return [*SCENARIOS[name], *options, "--config=n.toml", f"--out={out}", "--resume"]


def undisturbed(place: Place, name: str) -> dict[str, str]:
    """Return what a run with two processes leaves that was not disturbed."""
    key, out = f"{name}, two processes", place.folder / f"undisturbed-two-{name}"
    if key not in place.undisturbed:
        done = ended(place.open(command(place, name, out), launcher=LAUNCH))
        if done.code != 0:
            raise Wrong(f"the undisturbed run ended with code {done.code}: {done.err[-2000:]}")
        place.undisturbed[key] = contents(out)
    return place.undisturbed[key]


def expected_steps(place: Place, name: str) -> int:
    """Return how many batches the undisturbed run has."""
    return last_step(RunFolder(place.folder / f"undisturbed-two-{name}"))


def last_step(folder: RunFolder) -> int:
    """Return the batch of the last row of metrics; 0 if there is none."""
    rows = folder.read_rows() if folder.metrics.exists() else []
    return rows[-1].step if rows else 0


def wait_for(launcher: int, folder: RunFolder, step: float) -> list[psutil.Process]:
    """Wait until a run has reached this batch, and return its processes; none if it has ended before."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        try:
            workers = [one for one in psutil.Process(launcher).children() if "narrows" in one.cmdline()]
        except psutil.Error:
            return []
        if len(workers) == 2 and last_step(folder) >= step and folder.metrics.exists():
            return workers
        if folder.result.exists():
            return []
        time.sleep(0.01)
    raise Wrong("the run does not go on")


def continued_from(done: Done) -> int:
    """Return the batch after which a run says that it continues; 0 if it started again."""
    found = re.findall(r"continuing after batch ([\d,]+)", done.out)
    return int(found[-1].replace(",", "")) if found else 0


if __name__ == "__main__":
    entry(kill_one, "elastic.py", 10, "kills", __doc__)
