"""A campaign: many attacks of one kind, each with a seed of its own, and a line per failure that repeats it."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from faults.scenarios import SCENARIOS, Place, Wrong

Attack = Callable[[Place, str, Path, random.Random], Counter[str]]
"""(place, scenario, a folder that does not exist yet, randomness) -> what was done, counted. Raises `Wrong`."""


@dataclass
class Tally:
    """What a campaign did, and what went wrong."""

    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def attack_once(attack: Attack, place: Place, number: int, seed: int, only: str | None = None) -> Counter[str]:
    """Carry out one attack; its scenario and everything about it follow from the seed and the number."""
    names = list(SCENARIOS)
    name = only or names[number % len(names)]
    out = place.folder / f"run-{number}"
    try:
        return attack(place, name, out, random.Random(f"{seed}-{number}"))
    except Wrong as error:
        raise Wrong(f"{name}: {error}") from error
    finally:
        shutil.rmtree(out, ignore_errors=True)


def campaign(
    attack: Attack, place: Place, count: int, seed: int, unit: str, jobs: int = 1, only: str | None = None
) -> Tally:
    """Attack until `count` of `unit` are done, `jobs` at a time."""
    for name in [only] if only else SCENARIOS:
        place.prepare(name)
    tally, number = Tally(), 0
    running: dict[Future[Counter[str]], int] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            while len(running) < jobs and tally.done[unit] < count:
                running[pool.submit(attack_once, attack, place, number, seed, only)] = number
                number += 1
            if not running:
                return tally
            for one in wait(running, return_when=FIRST_COMPLETED).done:
                case = running.pop(one)
                try:
                    tally.done.update({**one.result(), "cases": 1})
                except Wrong as error:
                    tally.failures.append(f"case {case}: {error}")
                    tally.done.update({"cases": 1, unit: 1})


def main(attack: Attack, script: str, count: int, unit: str, about: str) -> int:
    """Run a campaign from the command line; the exit code is 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--count", type=int, default=count, help=f"{unit} in all; {count} by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SCENARIOS, help="one kind of run; all in turn by default")
    parser.add_argument("--case", type=int, help="only this case")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time; 2 by default")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="narrows-faults-") as folder:
        place = Place(Path(folder))
        if options.case is not None:
            place.prepare(options.only or list(SCENARIOS)[options.case % len(SCENARIOS)])
            try:
                print(dict(attack_once(attack, place, options.case, options.seed, options.only)))
            except Wrong as error:
                print(error)
                return 1
            return 0
        print(f"{script}: seed {options.seed}, {options.count} {unit}", flush=True)
        tally = campaign(attack, place, options.count, options.seed, unit, options.jobs, options.only)
    only = f" --only {options.only}" if options.only else ""
    for failure in tally.failures:
        case = failure.split(":")[0].removeprefix("case ")
        print(f"{failure}\n  again: python tests/faults/{script} --seed {options.seed} --case {case}{only}")
    done = ", ".join(f"{number} {what}" for what, number in sorted(tally.done.items()))
    print(f"{script}: {done}; {len(tally.failures)} failures; {time.monotonic() - started:.0f} s", flush=True)
    return int(bool(tally.failures))


def entry(attack: Attack, script: str, count: int, unit: str, about: str | None) -> None:
    """Run a campaign and end the program."""
    sys.exit(main(attack, script, count, unit, about or ""))
