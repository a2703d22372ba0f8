"""Several processes that form a group, as training processes do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from narrows._util.processes import leave_group


def in_group(count: int, function: Callable[..., Any], folder: Path, *arguments: Any) -> list[Any]:
    """Call a module's function in `count` processes that form a group, and return what each of them returned."""
    torch.multiprocessing.spawn(_member, (count, function, str(folder), arguments), nprocs=count)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(count)]


def _member(rank: int, count: int, function: Callable[..., Any], folder: str, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/group", world_size=count, rank=rank)
    torch.save(function(*arguments), f"{folder}/{rank}.pt")
    leave_group()
