"""Damage one file of a run; every command says so in one line or copes, and the run ends as if nothing had happened.

    python tests/faults/damage.py --count 100 --seed 0
    python tests/faults/damage.py --case 17               one case again

The run has ended, or was killed in the middle. One of its files is truncated, emptied, overwritten, deleted or, where
that can be noticed, changed in one byte. A message may advise to delete a file, which is then done; where it advises
nothing, the file comes back from a backup.
"""

import json
import random
import re
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.campaign import entry
from faults.scenarios import HANGS, Place, Wrong, compare, contents, ended, expect

PARTS = {"front": "tau-9", "as-good-as": ""}
"""Where a run of several parts is killed: in the second of them."""
DAMAGE: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "truncated": lambda content, rng: content[: rng.randrange(len(content) or 1)],
    "emptied": lambda content, rng: b"",
    "overwritten": lambda content, rng: rng.randbytes(len(content)),
    "nested": lambda content, rng: b"[" * 100_000,
    "other JSON": lambda content, rng: json.dumps(rng.choice([[], {}, 3, None, {"n": "four"}])).encode(),
    "other table": lambda content, rng: b"a,b\n1,2\nx," + b"9" * 400 + b"\n",
    "deleted": lambda content, rng: None,
    "one byte": lambda content, rng: _flipped(content, rng),
}
LOCK = threading.Lock()


def damage(place: Place, name: str, out: Path, rng: random.Random) -> Counter[str]:
    """Damage one file, ask every command about the run, and let it end."""
    ended_before = rng.random() < 0.4
    source = place.folder / f"undisturbed-{name}" if ended_before else killed(place, name)
    shutil.copytree(source, out)
    victim = rng.choice([path for path in sorted(out.rglob("*")) if path.is_file()])
    kinds = [kind for kind in DAMAGE if kind != "one byte" or victim.suffix == ".ckpt"]
    kind, backup = rng.choice(kinds), victim.read_bytes()
    content = DAMAGE[kind](backup, rng)
    victim.unlink()
    if content is not None:
        victim.write_bytes(content)
    case = f"{victim.relative_to(out)} {kind}, {'ended' if ended_before else 'killed'} before"
    try:
        for command in ("show", "report"):
            done = place.run([command, str(out)])
            expect(done, done.code and 2)
        repair(place, out, victim, backup)
        left = set()
        if part_has_ended(source / victim.relative_to(out)) and _content(victim) in (content, None):
            left = {str(victim.relative_to(out))}  # only figures need it
        compare(
            contents(out, left), {path: value for path, value in place.undisturbed[name].items() if path not in left}
        )
    except Wrong as error:
        raise Wrong(f"{case}: {error}") from error
    return Counter({"damaged files": 1, kind: 1})


def repair(place: Place, out: Path, victim: Path, backup: bytes) -> None:
    """Resume the run, and do what the message says if it refuses."""
    done = place.run(["resume", str(out)])
    if done.code == 2:
        expect(done, 2)
        named = re.search(r"delete (?!it)(\S+) and resume|(?:error: |; )(\S+) is damaged.*delete it", done.err)
        if named:
            path = Path(named.group(1) or named.group(2))
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        else:
            victim.write_bytes(backup)
        done = place.run(["resume", str(out)])
    expect(done, 0)


def part_has_ended(path: Path) -> bool:
    """Return whether a file belongs to a run, or a part of one, that has its answer."""
    folder = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    return (folder / "result.json").exists()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def killed(place: Place, name: str) -> Path:
    """Return a run of this kind that was killed in the middle."""
    with LOCK:
        out = place.folder / f"killed-{name}"
        if not out.exists():
            process = place.open(place.start(name, out))
            wanted, end = out / PARTS.get(name, "") / "checkpoints" / "batch-000000075.ckpt", time.monotonic() + HANGS
            while not wanted.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.001)
            process.kill()
            ended(process)
        return out


def _flipped(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


if __name__ == "__main__":
    entry(damage, "damage.py", 100, "damaged files", __doc__)
