"""Mutated files against every reader of foreign bytes: each case is accepted, or refused by one line.

    python tests/faults/mutations.py --count 10000 --seed 0      spread evenly over all targets
    python tests/faults/mutations.py --only npz --case 17        one case again, with what was refused and why
    python tests/faults/mutations.py --only npz --engine atheris --count 100000
    python tests/faults/mutations.py --list

Cases run in a process of their own, so that a crash is noticed, counted and repeatable; the next process goes on with
the next case. With atheris (`pip install atheris`) libFuzzer chooses the mutations by the code they reach.
"""

import argparse
import faulthandler
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import data_targets, explorer_targets, run_targets
from faults.sandbox import Ending, Sandbox
from faults.target import Target

TARGETS = {target.name: target for module in (run_targets, data_targets, explorer_targets) for target in module.TARGETS}
COUNT, SEED = 10_000, 0
HANGS = 60
"""Seconds without a sign of life, after which a process is killed: its case hangs where Python cannot interrupt it."""


@dataclass
class Tally:
    """The cases of one target."""

    endings: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    """The number of each failed case, and what went wrong."""


def repeat(target: str, number: int, seed: int) -> str:
    """Return the command that repeats one case."""
    return f"python tests/faults/mutations.py --seed {seed} --only {shlex.quote(target)} --case {number}"


def run(names: Sequence[str], numbers: range, seed: int, folder: Path) -> Iterator[tuple[str, int, Ending]]:
    """Yield (target, number, ending) of all cases; number -1 stands for the valid files, which must be accepted."""
    todo = [(name, number) for name in names for number in (-1, *numbers)]
    while todo:
        for name, number, ending in _run_process(todo, seed, folder):
            yield name, number, ending
            todo.pop(0)


def _run_process(todo: list[tuple[str, int]], seed: int, folder: Path) -> Iterator[tuple[str, int, Ending]]:
    """Run cases in one process until it has done all of them or ends in the middle of one."""
    environment = {**Sandbox.environment(folder), "MUTATIONS": json.dumps([str(folder), seed])}
    command = [sys.executable, "-W", "ignore", __file__, "--worker"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
        threading.Thread(target=_feed, args=(process.stdin, list(todo)), daemon=True).start()
        for name, number in list(todo):
            try:
                line = lines.get(timeout=HANGS)
            except queue.Empty:
                process.kill()
                yield name, number, Ending("failed", f"no sign of life for {HANGS} s")
                return
            if not line:
                code = process.wait()
                errors.seek(0)
                said = errors.read().decode(errors="replace").partition("Extension modules:")[0]
                how = f"{signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                yield name, number, Ending("failed", f"crash, {how}: {said[-2_000:]!r}")
                return
            yield name, number, Ending(*json.loads(line))
        process.kill()


def _forward(source: IO[bytes], lines: "queue.Queue[str]") -> None:
    for line in source:
        lines.put(line.decode())
    lines.put("")


def _feed(sink: IO[bytes], todo: list[tuple[str, int]]) -> None:
    try:
        sink.write(json.dumps(todo).encode())
        sink.close()
    except BrokenPipeError:
        pass


def work() -> None:
    """Be the process that runs the cases given on standard input, and print one line for each."""
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is not an answer
    folder, seed = json.loads(os.environ["MUTATIONS"])
    sandbox = Sandbox(Path(folder))
    for name, number in json.load(sys.stdin):
        ending = check_seeds(sandbox, TARGETS[name]) if number < 0 else sandbox.run(TARGETS[name], seed, number)
        print(json.dumps(ending), file=answers)
    os._exit(0)  # threads of libraries may still be reading ahead


def check_seeds(sandbox: Sandbox, target: Target) -> Ending:
    """Read the valid files of a target, which must be accepted: otherwise its mutations would prove nothing."""
    for name in sandbox.make_seeds(target):
        ending = sandbox.read(target, name)
        if ending.kind != "accepted":
            return Ending("failed", f"the valid file {name} is not accepted: {ending.why}")
    return Ending("accepted")


def tally(names: Sequence[str], numbers: range, seed: int, folder: Path, show: bool = True) -> dict[str, Tally]:
    """Run all cases and count how they end; print failures as they come."""
    tallies = {name: Tally() for name in names}
    for name, number, ending in run(names, numbers, seed, folder):
        if number >= 0:
            tallies[name].endings[ending.kind] += 1
        if ending.kind == "failed":
            tallies[name].failures.append((number, ending.why))
            if show:
                print(f"{name} {number}: {ending.why}\n    {repeat(name, number, seed)}", flush=True)
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """Return the counts, one line per target."""
    lines = [f"{'target':18}{'cases':>8}{'refused':>9}{'accepted':>10}{'failures':>10}"]
    total = Tally()
    for name, one in [*tallies.items(), ("all", total)]:
        counts = one.endings
        cases = sum(counts.values())
        lines.append(f"{name:18}{cases:8,}{counts['refused']:9,}{counts['accepted']:10,}{len(one.failures):10,}")
        total.endings.update(counts)
        total.failures.extend(one.failures)
    return "\n".join(lines)


def fuzz(name: str, seed: int, count: int) -> None:
    """Let atheris mutate the first valid file of a target, in this process, until a case fails."""
    try:
        import atheris
    except ImportError:
        raise SystemExit("atheris is not installed: pip install atheris, or leave --engine out") from None
    folder = Path(tempfile.gettempdir()) / "narrows-atheris"  # libFuzzer ends the process: the next one clears it
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ.update(Sandbox.environment(folder))
    sandbox, target = Sandbox(folder), TARGETS[name]
    names = sandbox.make_seeds(target)
    for module in [module for module in sys.modules if module.startswith("narrows.")]:
        for value in list(vars(sys.modules[module]).values()):
            if callable(value) and getattr(value, "__module__", "") == module and hasattr(value, "__code__"):
                value.__code__ = atheris.instrument_func(value).__code__

    def one_case(content: bytes) -> None:
        victim = names[len(content) % len(names)]
        ending = sandbox.read(target, victim, content)
        if ending.kind == "failed":
            (folder / "failure").write_bytes(content)
            raise RuntimeError(f"{target.name}, {victim}: {ending.why}; the bytes are in {folder / 'failure'}")

    corpus = folder / "corpus"
    corpus.mkdir()
    for place, seed_name in enumerate(names):
        (corpus / str(place)).write_bytes((sandbox.seeds / name / seed_name).read_bytes())
    options = [
        f"-runs={count}",
        f"-seed={seed + 1}",
        "-max_len=200000",
        "-rss_limit_mb=0",
        "-timeout=60",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one_case)
    atheris.Fuzz()


def main() -> int:
    """Run what the command line asks for; the exit code is 1 if a case failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, help=f"cases in all; {COUNT:,} by default")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", choices=TARGETS, help="one target; all by default")
    parser.add_argument("--case", type=int, help="only this case of the target")
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
    if options.list:
        print("\n".join(TARGETS))
        return 0
    if (options.case is not None or options.engine == "atheris") and options.only is None:
        parser.error("name the target with --only")
    if options.engine == "atheris":
        fuzz(options.only, options.seed, options.count)
        return 0
    return _run_here(options)


def _run_here(options: Any) -> int:
    names = [options.only] if options.only else list(TARGETS)
    first, count = (0, -(-options.count // len(names))) if options.case is None else (options.case, 1)
    numbers = range(first, first + count)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        print(f"seed {options.seed}, {len(numbers):,} cases for each of {len(names)} targets", flush=True)
        if options.case is not None:
            name, number, ending = list(run(names, numbers, options.seed, Path(folder)))[-1]
            print(f"{name} {number}: {ending.kind}\n{ending.why}")
            return int(ending.kind == "failed")
        tallies = tally(names, numbers, options.seed, Path(folder))
    print(f"\n{table(tallies)}\n{time.monotonic() - start:.0f} s, seed {options.seed}")
    return int(any(one.failures for one in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
