"""Kill a node of a Ray cluster in the middle of a sweep, and then the sweep; the same command must end it, bit for bit.

    python tests/faults/nodes.py --seed 0

Three nodes with one core each run on this machine, and a sweep of 12 runs on them. When some runs are done, the raylet
of one node and its workers get SIGKILL; when another run is done, so does the sweep itself. The same command with
--resume gets SIGTERM when one more run is done, and must say how to go on. Sent once more, it must give 12 rows, each
model with the bytes of the local engine's, and no run that was done may have been trained again.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.scenarios import HANGS, Place, Wrong, ended, expect

SWEEP = """
data = "plane.npy"
values = "any"
explained = [0.8, 0.9]
seed = [0, 1, 2, 3, 4, 5]
n = 4
width = 2
batch = 16
steps = 1500
device = "cpu"
eval_every = 50
checkpoint_every = 50
"""
RUNS = 12


def main() -> int:
    """Run the scenario, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    rng = random.Random(parser.parse_args().seed)
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="narrows-nodes-") as folder:
        place = Place(Path(folder))
        (place.folder / "sweep.toml").write_text(SWEEP)
        local, remote = place.folder / "local", place.folder / "ray"
        expect(place.run(["sweep", "sweep.toml", f"--out={local}"]), 0)
        print(f"local engine: {len(done(local))} of {RUNS} runs done", flush=True)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
            cluster.wait_for_nodes()
            command = ["sweep", "sweep.toml", f"--out={remote}", "--engine=ray", f"--address={cluster.address}"]
            disturb(place, command, remote, rng.choice(nodes), rng)
            before = {name: (remote / name / "result.json").stat().st_mtime_ns for name in done(remote)}
            left = {path.parent.parent.name for path in remote.glob("*/checkpoints/*.ckpt")} - before.keys()
            print(f"left: {len(before)} runs done, {len(left)} with a checkpoint", flush=True)
            stop(place, [*command, "--resume"], remote)
            expect(place.run([*command, "--resume"]), 0)
        finally:
            cluster.shutdown()
        rows = json.loads((remote / "table.json").read_text())
        if [row["status"] for row in rows] != ["done"] * RUNS:
            raise Wrong(f"rows are missing: {rows}")
        again = [name for name, time in before.items() if (remote / name / "result.json").stat().st_mtime_ns != time]
        different = [row["run"] for row in rows if model(local / row["run"]) != model(remote / row["run"])]
        if again or different:
            raise Wrong(f"trained again: {again}; models that differ: {different}")
    print(f"{RUNS} rows, all models bit for bit those of the local engine, no run that was done trained again")
    return 0


def disturb(place: Place, command: list[str], out: Path, node: Any, rng: random.Random) -> None:
    """Start a sweep, kill a node once some runs are done and it has a run, and the sweep once one more is done."""
    driver = place.open(command)
    count = rng.randint(1, 3)
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    wait_until(driver, lambda: len(done(out)) >= count and bool(runs_of(raylet)))
    workers, runs = raylet.children(), runs_of(raylet)
    for process in (raylet, *workers):
        process.kill()
    _, alive = psutil.wait_procs(runs, timeout=HANGS)
    if alive:
        raise Wrong("a run has outlived its node")
    count = len(done(out))
    print(f"{count} runs done: killed a node with {len(runs)} run on it", flush=True)
    wait_until(driver, lambda: len(done(out)) > count)
    driver.kill()
    driver.communicate()
    print(f"{len(done(out))} runs done: killed the sweep", flush=True)


def stop(place: Place, command: list[str], out: Path) -> None:
    """Continue a sweep, and stop it by SIGTERM once one more run is done."""
    driver, count = place.open(command), len(done(out))
    wait_until(driver, lambda: len(done(out)) > count)
    driver.send_signal(signal.SIGTERM)
    said = ended(driver)
    expect(said, 128 + signal.SIGTERM)
    if "stopped by SIGTERM; continue with: narrows sweep" not in said.out:
        raise Wrong(f"the message leads nowhere: {said.out}")
    print(f"{len(done(out))} runs done: stopped the sweep", flush=True)


def runs_of(raylet: psutil.Process) -> list[psutil.Process]:
    """Return the processes that train on a node."""
    found = []
    for process in raylet.children(recursive=True):
        try:
            if any("narrows.sweeps.process" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:  # it has just ended
            continue
    return found


def done(out: Path) -> list[str]:
    """Return the runs that the table has as done."""
    try:
        rows = json.loads((out / "table.json").read_text())
    except FileNotFoundError:
        return []
    return [row["run"] for row in rows if row["status"] == "done"]


def wait_until(driver: Any, holds: Callable[[], bool]) -> None:
    """Wait for a condition while the sweep goes on."""
    end = time.monotonic() + HANGS
    while not holds():
        if driver.poll() is not None:
            raise Wrong(f"the sweep has ended too early: {driver.communicate()}")
        if time.monotonic() > end:
            raise Wrong("the sweep hangs")
        time.sleep(0.05)


def model(run: Path) -> bytes:
    """Return the bytes of a run's model."""
    return (run / "model.safetensors").read_bytes()


if __name__ == "__main__":
    sys.exit(main())
