"""Tasks on Ray: on a cluster that is there, or on one that is started on this machine and ends with the sweep.

A worker of Ray only waits for the process that does the work (process.py), so a run is the same as on the local engine,
and a crash of its process is an answer. If a whole node dies, its processes end with it, and Ray runs their tasks again
on another one, where they continue from their checkpoints.
"""

import importlib.util
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import warn
from narrows._util.text import printable
from narrows.sweeps.engine import Engine, Task
from narrows.sweeps.process import Call, Ended, call_alone
from narrows.training.signals import StopRequest

RETRIES = 10
"""How often a task is run again whose node has died."""
RETRIES_OUT_OF_MEMORY = 2
"""How often a task is run again that Ray killed because its node's memory was full; by default Ray never gives up."""
PATIENCE = 5.0
"""Seconds in which a cluster must answer."""
GRACE = 30.0
"""Seconds that tasks have to write their checkpoints if the sweep is left by an error."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""What a client of HTTP/2, on which Ray's protocol is built, says first: the preface and empty settings."""
SETTINGS = 4
"""The type of the frame that a server must answer with."""


class RayPool:
    """Tasks of Ray, each with one process."""

    def __init__(self, engine: Engine, logs: Path) -> None:
        self.engine, self.logs = engine, logs
        self.tasks: dict[Any, Task] = {}
        self.ray = _connect(engine)
        task = engine.task
        remote = self.ray.remote(num_cpus=task.cpus, num_gpus=task.gpus, max_retries=RETRIES)
        self.remote = remote(_call_on_a_node)

    def __enter__(self) -> "RayPool":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.tasks:  # left by an exception, after `stop`
            self.ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=GRACE)
        self.ray.shutdown()

    def submit(self, task: Task) -> None:
        """Start a task, or let it wait for room."""
        log = self.logs / f"{task.name}.txt"
        self.tasks[self.remote.remote(task.call, log, self.engine.task.cpus)] = task

    def ended(self, seconds: float) -> Iterator[tuple[Task, Ended]]:
        """Yield the tasks that have ended, after waiting for the next one for at most this long."""
        for reference in self.ray.wait(list(self.tasks), timeout=seconds)[0] if self.tasks else []:
            yield self.tasks.pop(reference), self._answer(reference)

    def stop(self, number: int) -> None:
        """Send the processes of all tasks a signal; a task that waits for room never starts."""
        for reference in self.tasks:
            self.ray.cancel(reference, force=number == signal.SIGKILL)

    def _answer(self, reference: Any) -> Ended:
        errors = self.ray.exceptions
        try:
            ended: Ended = self.ray.get(reference)
            return ended
        except errors.TaskCancelledError:
            return Ended(stopped=True)
        except errors.OutOfMemoryError:
            times = 1 + RETRIES_OUT_OF_MEMORY
            return Ended(reason=f"Ray killed it {times} times, because the memory of a node was full")
        except errors.RayTaskError as error:  # before its process began: narrows is not there, or another version of it
            return Ended(reason=printable(f"Ray could not run it: {type(error.cause).__name__}: {error.cause}"))
        except errors.RayError as error:
            first = str(error).strip().partition("\n")[0]
            return Ended(reason=printable(f"Ray could not run it: {type(error).__name__}: {first}"))


def _call_on_a_node(call: Call, log: Path, threads: int) -> Ended:
    """Make a call in a process of its own, in a worker of Ray, which `ray.cancel` interrupts like Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts in a shell's background inherits SIG_IGN
    with StopRequest() as stop:
        return call_alone(call, log, threads, lambda: signal.SIGTERM if stop.signal else 0)


def check_reachable(address: str | None) -> str | None:
    """Return the address of the cluster to use; None if one is to be started.

    Raises:
        NarrowsError: Ray is not installed, or no cluster answers there.
    """
    if importlib.util.find_spec("ray") is None:
        raise NarrowsError(f"{setting('engine', 'ray')} needs Ray: pip install 'narrows[ray]'")
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        _check_answers(address)
    return address


def _connect(engine: Engine) -> Any:
    """Connect to a cluster, or start one, and return the module `ray`."""
    address = check_reachable(engine.address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES_OUT_OF_MEMORY))
    import ray

    ray._private.worker._worker_logs_enabled = False  # pages about killed workers, whose tasks become rows
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            cpus = engine.jobs_here() * engine.task.cpus
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
    except (RuntimeError, ConnectionError, ValueError) as error:
        raise NarrowsError(f"Ray does not start: {printable(' '.join(str(error).split()))}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
    _check_room(ray, engine, bool(address))
    return ray


def _check_answers(address: str) -> None:
    """Raise if nothing that speaks Ray's protocol answers; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise NarrowsError(f"{setting('address')} must be HOST:PORT, as `ray start --head` prints it; it is {address}")
    remedy = f"check it, or leave {setting('address')} out and a cluster is started on this machine"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(HELLO)
            answer = connection.recv(9)
    except OSError as error:
        why = "timed out" if isinstance(error, TimeoutError) else error.strerror or error
        raise NarrowsError(f"no Ray cluster answers at {setting('address', address)} ({why}); {remedy}") from None
    if len(answer) < 9 or answer[3] != SETTINGS:
        raise NarrowsError(f"what answers at {setting('address', address)} is not a Ray cluster; {remedy}")


def _check_room(ray: Any, engine: Engine, existing: bool) -> None:
    """Raise if this machine can never have room for a task; a cluster may grow, so for that it is a warning."""
    needs = {"CPU": engine.task.cpus, "GPU": engine.task.gpus}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(kind, 0) >= count for kind, count in needs.items()) for node in nodes):
        return
    room = f"room for a run with cpus = {engine.task.cpus} and gpus = {engine.task.gpus:g}"
    if existing:
        warn(f"no node of the cluster has {room}; waiting until one joins")
        return
    ray.shutdown()
    raise NarrowsError(f"this machine does not have {room}; let a run take less")
