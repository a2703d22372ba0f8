"""Several training processes: what they agree on and exchange, and an orderly end.

All processes run the same lines. So what one of them finds out alone, or what goes wrong in one of them alone, must be
made known to the others before they wait for it in vain.
"""

import contextlib
import gc
import math
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributed import DistError, PrefixStore, ReduceOp, TCPStore  # type: ignore[attr-defined]

from narrows._util.errors import NarrowsError
from narrows._util.launch import ProcessLost

Made = TypeVar("Made")


def join_group(backend: str, timeout: timedelta) -> None:
    """Meet the other processes that a launcher started; with one process, or a second time, do nothing.

    torchrun keeps one store for all its restarts, in which the addresses of processes that have ended stay. So each
    restart gets a part of its own. On several machines the counts of restarts differ from one to the next, and torchrun
    must be told to begin a new store each time (docs/scale.md).
    """
    if "RANK" not in os.environ or torch.distributed.is_initialized():
        return
    failed: list[Exception] = []
    thread = threading.Thread(target=_join_group, args=(backend, timeout, failed), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)  # signals are acted on between two of these waits; the meeting itself does not heed them
    if failed:
        raise failed[0]


def _join_group(backend: str, timeout: timedelta, failed: list[Exception]) -> None:
    try:
        place: dict[str, Any] = {}
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
            rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            shared = TCPStore(*address, count, is_master=False, timeout=timeout)
            restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            place = {
                "store": PrefixStore(f"restart {restart}", shared),
                "rank": rank,
                "world_size": count,
            }
        torch.distributed.init_process_group(backend, timeout=timeout, **place)
    except Exception as error:  # raised again where the thread was started
        failed.append(error)


def on_first_process(make: Callable[[], Made]) -> Made:
    """Call `make` on the first process only, and return its result, or raise its error, on all of them."""
    if not _several():
        return make()
    attempt = [_attempt(make) if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(attempt)
    return _outcome(attempt[0])


def on_each_process(make: Callable[[], Made]) -> Made:
    """Call `make` on every process and return its result, or raise the first error of any process on all of them."""
    if not _several():
        return make()
    made, error = _attempt(make)
    errors: list[Exception | None] = [None] * process_count()
    torch.distributed.all_gather_object(errors, error)
    return _outcome((made, next((one for one in errors if one is not None), None)))


def _attempt(make: Callable[[], Made]) -> tuple[Made | None, Exception | None]:
    try:
        return make(), None
    except (NarrowsError, OSError) as error:
        return None, error


def _outcome(attempt: tuple[Made | None, Exception | None] | None) -> Made:
    assert attempt is not None
    made, error = attempt
    if error is not None:
        raise error
    return made  # type: ignore[return-value]  # None only where `make` returns it


@contextlib.contextmanager
def others_needed(way_on: Callable[[], str]) -> Iterator[None]:
    """Turn the many exceptions that the end of another process causes into one.

    Arguments:
        way_on: Returns what to do then, the end of a sentence.

    Raises:
        ProcessLost: Another process has ended.
    """
    try:
        yield
    except RuntimeError as error:
        if not _several() or not _is_lost(error):
            raise
        raise ProcessLost(f"another of the {process_count()} training processes has ended; {way_on()}") from None


def _is_lost(error: RuntimeError) -> bool:
    return isinstance(error, DistError) or any(word in str(error) for word in ("gloo", "NCCL", "TCPStore"))


class Vote:
    """The largest of the numbers that the processes give after each batch, known to all of them one batch later.

    The exchange runs on the CPU beside the next batch, so nobody waits for it.
    """

    def __init__(self) -> None:
        self._group = torch.distributed.new_group(backend="gloo") if _several() else None
        self._pending: tuple[torch.distributed.Work, Tensor] | None = None

    def result(self, number: int) -> int:
        """Give this batch's number; return the largest of the batch before, or, with one process, this number."""
        if self._group is None:
            return number
        before = self._finish()
        votes = torch.tensor([number])
        work = torch.distributed.all_reduce(votes, ReduceOp.MAX, self._group, async_op=True)
        assert work is not None
        self._pending = work, votes
        return before

    def close(self) -> None:
        """Wait for the last exchange; another process may have ended."""
        with contextlib.suppress(RuntimeError):
            self._finish()

    def _finish(self) -> int:
        if self._pending is None:
            return 0
        (work, votes), self._pending = self._pending, None
        work.wait()
        return int(votes)


def mean_over_processes(value: Tensor) -> Tensor:
    """Return the average over all training processes, so that each has the same constraint; with one, the value."""
    return sum_over_processes(value) / process_count() if _several() else value


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum over all training processes; with one, the value."""
    if not _several():
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total


def gather_from_processes(value: Tensor) -> Tensor:
    """Return the values of all training processes, (processes, *shape), the same on each."""
    if not _several():
        return value[None]
    gathered = [torch.empty_like(value) for _ in range(process_count())]
    torch.distributed.all_gather(gathered, value)
    return torch.stack(gathered)


def process_count() -> int:
    """Return the number of training processes."""
    return torch.distributed.get_world_size() if _several() else 1


def own_share(rows: Any) -> Any:
    """Return this process's rows of a tensor or array that all processes have; with one, all rows.

    Every row is in as many shares as every other, and all shares are equally long. So a mean over processes is the mean
    over all rows, also where the number of processes does not divide that of the rows, or is larger.
    """
    if not _several():
        return rows
    shares = math.gcd(len(rows), process_count())
    length = len(rows) // shares
    return rows[length * (torch.distributed.get_rank() % shares) :][:length]


def leave_group() -> None:
    """Leave the group of training processes; with one process, do nothing. Delete wrapped models before.

    Gloo's threads keep tensors of the last exchange. If the wrapped model that owns them lives until Python ends, a
    thread may need the interpreter when it is gone, and the process aborts after all its work is done.
    """
    if _several():
        gc.collect()
        torch.distributed.destroy_process_group()


def _several() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
