"""Counting how often the host waits for a device."""

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ANSWERS = {
    "_local_scalar_dense",  # .item(), bool(), float()
    "_linalg_eigh",  # its errors
    "_unique",
    "_unique2",
    "equal",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
"""Operations whose result the host needs before it can go on."""
PACKAGE = Path(__file__).parents[1]


class HostWaits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts, by the function of narrows that asked, how often the host waits for what is queued on a device.

    A copy between host and device waits too, unless it is told not to. Where the device is the CPU nothing waits, and
    only the operations that would wait elsewhere are counted.

    Arguments:
        device: The device, as its type: "cuda".
    """

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self.places: Counter[str] = Counter()
        """Number of waits by place, such as "recipes.paper.Narrowing.second_errors"."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is not torch.ops.prim.device.default and self._waits(func, args, kwargs, result):
            self.places[_place()] += 1
        return result

    def _waits(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> bool:
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        devices = [value.device.type for value in given]
        name = func._schema.name.removeprefix("aten::")
        if name in ANSWERS:
            return self.device in devices
        if name in ("index", "index_put", "index_put_"):
            return self.device in devices and any(one.dtype == torch.bool for one in given[1:])
        if name not in ("_to_copy", "copy_"):
            return False
        blocking = not (kwargs.get("non_blocking") or (name == "copy_" and True in args[2:]))
        return blocking and len({*devices, result.device.type}) > 1


def _place() -> str:
    """Return the function of narrows that is being executed, or "" outside of it."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents and path != Path(__file__):
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            return f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"
        frame = frame.f_back
    return ""
