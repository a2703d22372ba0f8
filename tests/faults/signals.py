"""Send SIGINT and SIGTERM at any moment, once or twice; each stop says in one line how to go on, and nothing is lost.

    python tests/faults/signals.py --count 200 --seed 0
    python tests/faults/signals.py --case 17               one case again

Before Python has loaded the first lines of narrows, a signal acts as on any program: nothing is said, and nothing was
begun.
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
from faults.scenarios import Done, Place, Wrong, advice, ended

LONGEST = 4.5
"""Seconds after which the first signal comes at the latest; most runs have ended by then."""
FIRST = 0.15
"""Seconds in which Python itself starts: every fourth signal comes then."""


def send(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Stop one run by one or two signals, then let it end."""
    number = rng.choice((signal.SIGINT, signal.SIGTERM))
    process, counts = place.open(place.start(name, out)), Counter[str]()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, FIRST if rng.random() < 0.25 else LONGEST))
    for _ in range(rng.choice((1, 1, 2))):
        if process.poll() is None:
            process.send_signal(number)
            counts["signals"] += 1
        time.sleep(rng.choice((0.0, 0.01, 0.1)))
    done = ended(process)
    counts["runs that had ended"] += done.code == 0
    check(done, number, out, counts)
    place.finish(name, out, again=rng.random() < 0.5)
    return counts


def check(done: Done, number: signal.Signals, out: Path, counts: Counter[str]) -> None:
    """Raise unless the program ended as it should: with the answer, or by the signal and with one line about it."""
    said = f"code {done.code}, stderr {done.err!r}, stdout {done.out[-300:]!r}"
    if done.code == 0:
        return
    if done.code == -number:
        counts["before narrows was loaded"] += 1
        if out.exists() or "training/signals.py" in done.err:
            raise Wrong(f"the signal was not handled: {said}")
        return
    lines = [line for line in (done.out + done.err).splitlines() if "stopped by" in line]
    if done.code != 128 + number or "Traceback" in done.err + done.out or len(lines) != 1:
        raise Wrong(f"expected code {128 + number} and one line: {said}")
    if "after batch" in lines[0] and not advice(lines[0]) and "start it again" not in lines[0]:
        raise Wrong(f"it does not say how to go on: {said}")


if __name__ == "__main__":
    entry(send, "signals.py", 200, "signals", __doc__)
