"""Several training processes: what they exchange, and an orderly end."""

import gc
import math
from typing import Any

import torch
from torch import Tensor


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
