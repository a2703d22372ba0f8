"""Keep the memory of big tensors between steps, where the C library would return it to the system after each.

glibc returns blocks above 128 KiB to the system when they are freed, so that every step of training faults its
activations in again page by page: a third of a step on a CPU. With higher thresholds the memory is reused.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LIMIT = 1 << 30
LARGE = 1 << 26
"""Bytes of a block that glibc maps unless its threshold was raised: its own limit is 32 MiB."""


def keep_memory() -> bool:
    """Raise glibc's thresholds to 1 GiB for this process; return whether that was possible (Linux with glibc)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return False
    return all(mallopt(option, LIMIT) == 1 for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))


def keeps_memory() -> bool:
    """Return whether freed memory stays in this process, by asking glibc where a large block comes from."""
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    kinds = {"mallinfo2": ctypes.c_size_t, "mallinfo": ctypes.c_int}
    name = next((name for name in kinds if hasattr(library, name)), None)
    if library is None or name is None:
        return False
    count = getattr(library, name)
    count.restype = type("MallInfo", (ctypes.Structure,), {"_fields_": [("numbers", kinds[name] * 10)]})
    library.malloc.restype = ctypes.c_void_p
    before = count().numbers[3]  # hblks, the number of blocks that are mapped
    block = library.malloc(ctypes.c_size_t(LARGE))
    mapped = count().numbers[3] > before
    library.free(ctypes.c_void_p(block))
    return not mapped
