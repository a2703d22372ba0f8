"""Keep big tensors' memory between steps, where the C library would give it back after each.

glibc returns blocks above 128 KiB to the system when they are freed, so that every step of training faults its
activations in again page by page: a third of a step on a CPU. With the thresholds raised the memory is reused.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LIMIT = 1 << 30

_kept = False


def memory_is_kept() -> bool:
    """Tell whether `keep_memory` was called, and could."""
    return _kept


def keep_memory() -> bool:
    """Raise glibc's thresholds to 1 GiB for this process; tell whether it could. Elsewhere it does nothing."""
    global _kept
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    _kept = all(mallopt(option, LIMIT) == 1 for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))
    return _kept
