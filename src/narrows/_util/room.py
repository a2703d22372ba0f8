"""Room on disk and in memory, asked for before anything is written or allocated.

A file of a kilobyte can declare an array of a terabyte. What it declares is compared with what this machine has free,
so that a strange file ends in one line and neither fills the disk nor has processes killed for memory.
"""

import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

resource: Any
try:
    import resource
except ImportError:  # not a POSIX system
    resource = None

SPARE_BYTES, SPARE_SHARE = 10**9, 0.05
"""What stays free on every disk: a gigabyte, or a share of a disk that is small."""
_CGROUPS = Path("/sys/fs/cgroup")


def amount(nbytes: float) -> str:
    """Format a number of bytes for the user: "40 GB", "1.5 GB", "0.3 MB", "1,432 bytes"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if nbytes >= 0.1 * size:
            number = f"{nbytes / size:,.1f}"
            return f"{number.removesuffix('.0')} {unit}"
    return f"{int(nbytes):,} bytes"


def bytes_in(text: str | int) -> int | None:
    """Return the number of bytes that a text such as "2GB", "500 MB" or "1432" names; None if it names none."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kMGT]?B|bytes)?\s*", str(text), re.IGNORECASE)
    if found is None:
        return None
    units = {"": 1, "BYTES": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    return int(float(found[1]) * units[(found[2] or "").upper()])


def free_disk(folder: Path) -> int:
    """Return how many bytes may be written to the disk of `folder`; some are always left for others."""
    usage = shutil.disk_usage(folder)
    if not usage.total:  # some network disks do not say
        return sys.maxsize
    return max(0, int(usage.free - min(SPARE_BYTES, SPARE_SHARE * usage.total)))


def check_disk(nbytes: int, folder: Path) -> None:
    """Raise the system's own error of a full disk, before anything is written, if `folder` has no room."""
    free = free_disk(folder)
    if nbytes > free:
        raise OSError(errno.ENOSPC, f"it needs {amount(nbytes)}, and {amount(free)} are free")


def free_memory() -> int:
    """Return how many bytes this process may still allocate: what the machine has, within its own and other limits."""
    return min([int(psutil.virtual_memory().available), *_left_in_groups(), *_left_to_process()])


def _left_to_process() -> Iterator[int]:
    """Yield what is left of this process's limit of address space (`ulimit -v`), if it has one."""
    if resource is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - int(psutil.Process().memory_info().vms))


def _left_in_groups() -> Iterator[int]:
    """Yield what is left of each memory limit of the control groups (version 2) that this process is in."""
    with contextlib.suppress(OSError, ValueError):
        line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        group = _CGROUPS / os.path.normpath(line.removeprefix("0::")).lstrip("/.")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(_CGROUPS):
                break
            with contextlib.suppress(OSError, ValueError, StopIteration):
                limit = int((folder / "memory.max").read_text())  # "max" for none
                used = int((folder / "memory.current").read_text())
                facts = dict(fact.split() for fact in (folder / "memory.stat").read_text().splitlines())
                yield max(0, limit - used + int(facts.get("inactive_file", 0)))
