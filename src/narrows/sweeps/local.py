"""Tasks on this machine: a thread waits for each process."""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from narrows.sweeps.engine import Engine, Task
from narrows.sweeps.process import Ended, call_alone


class LocalPool:
    """A pool of threads, each with one process at a time."""

    def __init__(self, engine: Engine, logs: Path) -> None:
        self.logs, self.threads = logs, engine.task.cpus
        self.pool = ThreadPoolExecutor(engine.jobs_here())
        self.tasks: dict[Future[Ended], Task] = {}
        self.signal = 0

    def __enter__(self) -> "LocalPool":
        return self

    def __exit__(self, *exception: object) -> None:
        self.pool.shutdown()

    def submit(self, task: Task) -> None:
        """Start a task, or let it wait for room."""
        log = self.logs / f"{task.name}.txt"
        self.tasks[self.pool.submit(call_alone, task.call, log, self.threads, lambda: self.signal)] = task

    def ended(self, seconds: float) -> Iterator[tuple[Task, Ended]]:
        """Yield the tasks that have ended, after waiting for the next one for at most this long."""
        for future in wait(self.tasks, seconds, FIRST_COMPLETED).done:
            yield self.tasks.pop(future), _answer(future)

    def stop(self, number: int) -> None:
        """Send the processes of all tasks a signal; a task that waits for room never starts."""
        self.signal = number


def _answer(future: Future[Ended]) -> Ended:
    error = future.exception()
    return future.result() if error is None else Ended(reason=f"its process could not be started: {error}")
