"""Send the same command (with --resume) twenty times, with SIGKILL at random moments in between; it must end the run.

    python tests/faults/again.py --count 10 --seed 0
    python tests/faults/again.py --case 3               one case again

This is what a scheduler does that starts a job again whenever its machine is taken away. In the end every file must be
equal to that of an undisturbed run, and sending the command once more must print the same answer and change nothing.
"""

import contextlib
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.kills import LONGEST
from faults.scenarios import Place, Wrong, compare, contents, ended, expect

TIMES = 20


def send_again(place: Place, name: str, out: Path, rng: random.Random, times: int = TIMES) -> Counter[str]:
    """Send the command of one run again and again, kill it each time but the last, and compare what is left."""
    command, counts = [*place.start(name, out), "--resume"], Counter({"runs": 1})
    for _ in range(times - 1):
        process = place.open(command)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0, LONGEST))
        process.kill()
        done = ended(process)
        counts["kills"] += done.code == -signal.SIGKILL
        if done.code != -signal.SIGKILL:
            expect(done, 0)
    expect(place.run(command), 0)
    left = contents(out, left_out=("request.json", "plain/request.json"))
    expected = {file: one for file, one in place.undisturbed[name].items() if not file.endswith("request.json")}
    compare(left, expected)
    before = contents(out)
    expect(place.run(command), 0)
    if contents(out) != before:
        raise Wrong("sending the command to a run that has ended changed its folder")
    return counts


if __name__ == "__main__":
    entry(send_again, "again.py", 10, "runs", __doc__)
