"""Several training processes: what they agree on, and how they part."""

import gc

import torch
from torch import Tensor


def mean_over_processes(value: Tensor) -> Tensor:
    """Average over all training processes, so that each holds the same constraint; alone, the value itself."""
    if not _together():
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / torch.distributed.get_world_size()


def leave_group() -> None:
    """End a process's membership in an orderly way; alone, do nothing. Let go of wrapped models before.

    Gloo's threads keep tensors of the last exchange. If the wrapped model that owns them lives until Python ends, a
    thread may ask for the interpreter when it is gone, and the process aborts after all its work is done.
    """
    if _together():
        gc.collect()
        torch.distributed.destroy_process_group()


def _together() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
