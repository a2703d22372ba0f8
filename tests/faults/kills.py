"""Kill runs with SIGKILL at any moment, from the first millisecond on; each must end as if nothing had happened.

    python tests/faults/kills.py --count 500 --seed 0
    python tests/faults/kills.py --case 17               one case again

A run is killed one to four times: after a random time, or as soon as one of its files is being written. Then its user
goes on, by the same command or by `narrows resume`, whichever comes to mind first, and follows the advice if that was
the wrong one. In the end every file must be equal to that of an undisturbed run, and nothing may be left over.

When a process is killed depends on the machine, so a failure may need several tries to come again.
"""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.scenarios import HANGS, Place, ended, expect

LONGEST = 4.5
"""Seconds after which a run is killed at the latest; most have ended by then."""


def kill(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Kill one run up to four times, then let it end."""
    command, counts = place.start(name, out), Counter[str]()
    for _ in range(rng.randint(1, 4)):
        process = place.open(command)
        if rng.random() < 0.3:
            wait_for_a_write(process, out, rng)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, LONGEST))
        process.kill()
        done = ended(process)
        if done.code != -signal.SIGKILL:
            if done.code == 2:  # the same command, where a run has begun
                command = ["resume", str(out)]
                continue
            expect(done, 0)
            break
        counts["kills"] += 1
        counts["before anything was written"] += not out.exists() or not any(out.iterdir())
        command = rng.choice((place.start(name, out), ["resume", str(out)]))
    place.finish(name, out, again=rng.random() < 0.5)
    return counts


def wait_for_a_write(process: "subprocess.Popen[str]", out: Path, rng: random.Random) -> None:
    """Wait until one of the run's files is being written, for the first time or later."""
    end, times = time.monotonic() + HANGS, rng.choice((1, 1, 2, 4, 8, 16))
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):  # folders come and go
            if any(out.rglob("*.part")):
                times -= 1
                if times <= 0:
                    return
        time.sleep(0.0005)


if __name__ == "__main__":
    entry(kill, "kills.py", 500, "kills", __doc__)
