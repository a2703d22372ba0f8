"""Let the disk run full at any byte: one clear line, nothing lost, and the run ends as usual once there is space.

    python tests/faults/disks.py --count 100 --seed 0
    python tests/faults/disks.py --case 17               one case again

Where this process may mount a file system (root on Linux), the run's folder is on a real one of a few kilobytes, a
tmpfs. Elsewhere no file may grow beyond a random size (RLIMIT_FSIZE), which fails in the same places.
"""

import contextlib
import functools
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.scenarios import Done, Place, Wrong, expect

LARGEST = 600
"""Kilobytes of the largest disk; a whole run needs more, with its report."""


def fill(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Train on a disk that is too small, make it larger, and let the run end."""
    kilobytes = rng.choice((rng.randint(4, 60), rng.randint(4, LARGEST)))
    counts = Counter({"full disks": 1})
    if can_mount():
        with small_disk(out.parent / f"{out.name}-disk", kilobytes) as disk:
            check(place.run(place.start(name, disk / "run")), disk / "run", counts)
            mount("-o", "remount,size=64m", str(disk))
            place.finish(name, disk / "run", again=rng.random() < 0.5)
    else:
        size = rng.randint(1, kilobytes * 1000)
        done = place.run(
            place.start(name, out), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size,) * 2)
        )
        check(done, out, counts)
        place.finish(name, out, again=rng.random() < 0.5)
    return counts


def check(done: Done, out: Path, counts: Counter[str]) -> None:
    """Raise unless a run ended with its answer, perhaps without pictures, or with one line that leads on."""
    if done.code == 0:
        counts["runs that had ended"] += 1
        lines = done.err.splitlines()
        if any(not line.startswith("narrows: warning: the ") for line in lines) or "None" in done.err:
            raise Wrong(f"unclear warnings: {done.err!r}")
        return
    expect(done, 2)
    if "No space left on device" not in done.err and "File too large" not in done.err:
        raise Wrong(f"the line does not name the cause: {done.err!r}")
    if (
        f"narrows resume {out}" not in done.err
        and "start it again" not in done.err
        and "choose another" not in done.err
    ):
        raise Wrong(f"the line does not lead on: {done.err!r}")


@functools.cache
def can_mount() -> bool:
    """Return whether this process may mount a file system; containers often refuse that even to root."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder) / "disk", 4):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a file system of this size for the block."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def mount(*arguments: str) -> None:
    """Call mount."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    entry(fill, "disks.py", 100, "full disks", __doc__)
