"""Several training processes: averages over all of them, and an orderly end."""

import gc

import torch
from torch import Tensor


def mean_over_processes(value: Tensor) -> Tensor:
    """Return the average over all training processes, so that each has the same constraint; with one, the value."""
    if not _several():
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / process_count()


def process_count() -> int:
    """Return the number of training processes."""
    return torch.distributed.get_world_size() if _several() else 1


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
