"""Start two commands at once in one folder: one of them trains, the other is refused in one line, nothing is lost.

    python tests/faults/together.py --count 30 --seed 0
    python tests/faults/together.py --case 17               one case again

Both start the same run, or both resume a run that was killed.
"""

import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.damage import killed
from faults.scenarios import Place, Wrong, compare, contents, ended, expect

REFUSED = ("is being trained by another process", "exists and is not empty", "has just begun a run in")


def collide(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Start two processes that want the same folder."""
    command = place.start(name, out)
    if rng.random() < 0.5:
        shutil.copytree(killed(place, name), out)
        command = ["resume", str(out)]
    first = place.open(command)
    time.sleep(rng.choice((0.0, rng.uniform(0, 0.1), rng.uniform(0, 3))))
    second = place.open(command)
    endings = [ended(first), ended(second)]
    refused = [done for done in endings if done.code != 0]
    if len(refused) > 1:
        raise Wrong(f"neither has trained: {[done.err for done in endings]}")
    for done in refused:
        expect(done, 2)
        if not any(reason in done.err for reason in REFUSED):
            raise Wrong(f"it does not say that another process is at work: {done.err!r}")
    compare(contents(out), place.undisturbed[name])
    return Counter({"pairs": 1, "refused": len(refused)})


if __name__ == "__main__":
    entry(collide, "together.py", 30, "pairs", __doc__)
