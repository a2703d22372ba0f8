"""The engine: tasks in processes of their own, several at a time, on this machine (local.py) or on Ray (cluster.py).

A task that fails, crashes or is killed is an answer like any other and stops nothing. The first SIGINT or SIGTERM asks
the tasks that run to end, for which they have as long as they need; the second kills them.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from narrows._util.checks import COUNT, FROM_ZERO, TEXT, argument, one_of
from narrows._util.errors import NarrowsError, setting
from narrows.sweeps.process import Call, Ended
from narrows.training.signals import Interrupted, StopRequest

EngineName = Literal["local", "ray"]
ENGINES = ("local", "ray")
POLL = 0.2
"""Seconds between two looks at whether a signal came."""


class Task(NamedTuple):
    """One thing to do."""

    name: str
    call: Call
    """What its process calls; safe to be called again after it was killed."""


@dataclass(frozen=True)
class Resources:
    """What one task takes."""

    cpus: int = 1
    """Cores; also its threads, unless its settings say otherwise."""
    gpus: float = 0
    """GPUs, or a share of one; only Ray gives each task its own."""


@dataclass(frozen=True)
class Engine:
    """Where tasks run, and how many at a time."""

    name: EngineName = "local"
    jobs: int | None = None
    """Tasks at a time; by default as many as there are cores for, or on an existing cluster as it takes."""
    address: str | None = None
    """Ray: the cluster to use, HOST:PORT; by default RAY_ADDRESS, else one is started on this machine."""
    task: Resources = field(default_factory=Resources)

    def checked(self) -> "Engine":
        """Return the engine as plain values; raise if it cannot be used."""
        name = argument("engine", self.name, one_of(ENGINES))
        jobs = argument("jobs", self.jobs, COUNT, or_none=True)
        address = argument("address", self.address, TEXT, or_none=True)
        task = Resources(argument("cpus", self.task.cpus, COUNT), argument("gpus", self.task.gpus, FROM_ZERO))
        if name == "local" and task.cpus > cores():
            raise NarrowsError(f"cpus must be at most {cores()} on this machine; it is {task.cpus}")
        if address is not None and name != "ray":
            raise NarrowsError(f"{setting('address')} is for {setting('engine', 'ray')}; add it, or leave it out")
        if task.gpus and name != "ray":
            raise NarrowsError(
                f"{setting('gpus')} is for {setting('engine', 'ray')}, which gives each run its own; leave it out, and "
                f"all runs use the same device"
            )
        return Engine(name, jobs, address, task)

    def check_reachable(self) -> None:
        """Raise if Ray is needed and not installed, or no cluster answers at the address."""
        if self.name == "ray":
            from narrows.sweeps.cluster import check_reachable

            check_reachable(self.address)

    def jobs_here(self) -> int:
        """Return how many tasks run at a time if they run on this machine."""
        return self.jobs or max(1, cores() // self.task.cpus)

    def at_a_time(self, count: int) -> int:
        """Return how many of `count` tasks may run at a time; Ray knows how many its nodes have room for."""
        return self.jobs_here() if self.name == "local" else self.jobs or count


class Pool(Protocol):
    """Tasks that run somewhere; leaving its `with` block waits for those that were stopped."""

    def __enter__(self) -> "Pool": ...

    def __exit__(self, *exception: object) -> None: ...

    def submit(self, task: Task) -> None:
        """Start a task, or let it wait for room."""

    def ended(self, seconds: float) -> Iterator[tuple[Task, Ended]]:
        """Yield the tasks that have ended, after waiting for the next one for at most this long."""

    def stop(self, number: int) -> None:
        """Send the processes of all tasks a signal; a task that waits for room never starts."""


def cores() -> int:
    """Return how many cores this process may use; within a container or a job of Slurm they are not all there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_tasks(tasks: Sequence[Task], engine: Engine, folder: Path, on_end: Callable[[Task, Ended], object]) -> None:
    """Run tasks, and tell `on_end` how each ended, in the order in which they do.

    Arguments:
        tasks: What to do.
        engine: Where.
        folder: The folder of the whole; what a task prints is in its logs/NAME.txt.
        on_end: Called in this thread. If it raises, the tasks that run are asked to end, and the exception goes on.

    Raises:
        NarrowsError: The engine cannot be used.
        Interrupted: A signal came, and everything that ran has ended.
    """
    if not tasks:
        return
    waiting = deque(tasks)
    with _pool(engine, folder) as pool, StopRequest() as stop:
        running, limit, sent = 0, engine.at_a_time(len(tasks)), 0
        try:
            while running or (waiting and not sent):
                while waiting and running < limit and not sent:
                    pool.submit(waiting.popleft())
                    running += 1
                for task, ended in pool.ended(POLL):
                    running -= 1
                    if not ended.stopped or not sent:
                        on_end(task, ended)
                if stop.signal and not sent:
                    sent = stop.signal
                    pool.stop(sent)
        except Exception:
            pool.stop(signal.SIGTERM)
            raise
        except BaseException:  # a second signal
            pool.stop(signal.SIGKILL)
            raise
    if sent:
        raise Interrupted(0, folder, sent)


def _pool(engine: Engine, folder: Path) -> Pool:
    logs = folder.absolute() / "logs"
    if engine.name == "ray":
        from narrows.sweeps.cluster import RayPool

        return RayPool(engine, logs)
    from narrows.sweeps.local import LocalPool

    return LocalPool(engine, logs)
