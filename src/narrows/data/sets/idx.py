"""MNIST's file format, idx: a big-endian header and the bytes of one array, plain or gzipped.

0, 0, type code, rank        4 bytes; MNIST's images have code 8 (uint8) and rank 3: the "magic" 2051
length of each axis          4 bytes each
the values, last axis fastest
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from narrows.errors import NarrowsError

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"


def read_idx(path: str | Path) -> np.ndarray:
    """Return the array in the idx file at `path`."""
    raw = _bytes(Path(path))
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES or raw[3] == 0:
        raise NarrowsError(
            f"{path} is not an idx file (it starts with {raw[:4].hex(' ') or 'nothing'}); check the path"
        )
    rank = raw[3]
    start = 4 + 4 * rank
    if len(raw) < start:
        raise NarrowsError(f"{path} ends within its header ({len(raw)} of {start} bytes); fetch it again")
    shape = struct.unpack(f">{rank}I", raw[4:start])
    dtype = np.dtype(_TYPES[raw[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise NarrowsError(
            f"{path} has {len(raw)} bytes, but its header says {expected} for shape {shape}; fetch it again"
        )
    values = np.frombuffer(raw, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def _bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw.startswith(_GZIP_MAGIC) else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise NarrowsError(f"{path}: the gzip file is damaged ({error}); fetch it again") from None
    except OSError as error:
        raise NarrowsError(f"{path} cannot be read ({error.strerror or error}); check the path") from None
