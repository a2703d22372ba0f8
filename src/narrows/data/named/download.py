"""Files from the network: verified, resumed, and never half-written.

`fetch` guarantees that `folder / name` is either absent or the right file, byte for byte:

- The bytes are collected in a partial file and take their name only when the checksum is right.
- A broken connection asks the same server for the rest (HTTP Range, RFC 9110, section 14). The partial file outlives
  the process, so the next call continues where a failed, interrupted or killed one stopped. If the checksum of a
  resumed file is wrong, the file is downloaded once more from the start.
- The mirrors are tried one after the other, the one named by NARROWS_MIRROR first. Each has its own partial file.
- One process downloads at a time; the others wait for its lock and then find the file.
- A file that you put there yourself is checked like any other, and never overwritten or removed.
"""

import contextlib
import gzip
import hashlib
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, counted, silent
from narrows._util.room import check_disk
from narrows._version import __version__

if TYPE_CHECKING:
    from filelock import AcquireReturnProxy

_TIMEOUT = (10, 30)  # seconds to connect, and between two pieces of data
_ATTEMPTS = 4  # requests in a row without a new byte, before a mirror is given up
_PAUSE = 0.5  # seconds before the second attempt; doubled for each further one
_PIECE = 1 << 16


@dataclass(frozen=True)
class RemoteFile:
    """One file of a named set."""

    name: str
    """Its name in the cache."""
    urls: tuple[str, ...]
    """Its addresses, tried in this order."""
    checksum: str
    """"sha256:..." or "md5:..."."""
    size: int | None = None
    """Bytes, where known."""
    unpacked: str = ""
    """The checksum of a .gz file's content: a copy that was compressed by another program is accepted too."""


def fetch(file: RemoteFile, folder: Path, progress: Progress = silent) -> Path:
    """Return `folder / file.name`, and download it first if it is missing.

    Raises:
        NarrowsError: The file there is a wrong one, no mirror delivers it, or the disk cannot take it.
    """
    assert Path(file.name).name == file.name, "a file's name is not a path"
    target = folder / file.name
    if _is_in_place(file, target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(file, folder, progress):
            if not _is_in_place(file, target):
                _from_mirrors(file, target, progress)
    except OSError as error:  # of the disk: an error of the network is a _Failed
        _remove_parts(target)
        raise NarrowsError(
            f"cannot keep {file.name} in {folder} ({error.strerror or error}); "
            "make room there, or set NARROWS_CACHE to another folder"
        ) from None
    return target


def _lock(file: RemoteFile, folder: Path, progress: Progress) -> "AcquireReturnProxy[Any]":
    """Wait until no other process downloads the file; the system frees the lock of a process that dies."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / f".{file.name}.lock")
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        progress(f"waiting for another process to finish downloading {file.name}", 0, 0)
        return lock.acquire()


class _Failed(Exception):
    """A mirror did not deliver the file; the text says why."""


class _Cut(_Failed):
    """A mirror began to answer and then stopped."""


def _is_in_place(file: RemoteFile, target: Path) -> bool:
    """Tell whether the right file is there; raise if it is a wrong one, which is the user's to remove."""
    if not os.path.exists(target):
        return False
    try:
        found = _checksum(target, file.checksum)
    except OSError as error:
        raise NarrowsError(
            f"cannot read {target} ({error.strerror}); make it readable, or remove it to fetch it again"
        ) from None
    if found == file.checksum.lower():
        return True
    with contextlib.suppress(OSError, EOFError, zlib.error):  # a .gz file may be compressed in another way
        if file.unpacked and _checksum(target, file.unpacked, gzip.open) == file.unpacked:
            return True
    raise NarrowsError(
        f"{target} has the checksum {found}, expected {file.checksum}; it is left as it is: "
        "remove it and narrows fetches it again"
    )


def _checksum(path: Path, like: str, opened: Callable[[Path, str], Any] = open) -> str:
    """Return the file's checksum, with the algorithm of `like`."""
    algorithm = like.partition(":")[0].lower()
    with opened(path, "rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _from_mirrors(file: RemoteFile, target: Path, progress: Progress) -> None:
    mirror = os.environ.get("NARROWS_MIRROR")
    urls = (f"{mirror.rstrip('/')}/{file.name}", *file.urls) if mirror else file.urls
    reasons, parts = [], []
    for url in urls:
        tag = hashlib.sha256(url.encode()).hexdigest()[:8]
        parts.append(target.with_name(f".{file.name}.{tag}.part"))
        try:
            _from_mirror(file, url, parts[-1], progress)
        except _Failed as failure:
            shown = re.sub(r"//[^/]*@", "//", url).partition("?")[0]  # without passwords and keys
            reasons.append(f"{shown} ({failure})")
            continue
        parts[-1].replace(target)
        _remove_parts(target)
        return
    received = max(map(_size, parts), default=0)
    kept = f"; the {_mb(received)} received are kept, and the next try continues from there" if received else ""
    raise NarrowsError(
        f"cannot download {file.name}: {', '.join(reasons) or 'no address is known'}{kept}; "
        f"check the network, or put the file yourself at {target} ({file.checksum})"
    )


def _from_mirror(file: RemoteFile, url: str, part: Path, progress: Progress) -> None:
    """Ask for the rest of `part` until it is complete, and check it; a file in several pieces gets a second chance."""
    resumed, again, failures = _size(part) > 0, False, 0
    while True:
        before = _size(part)
        try:
            _request(file, url, part, progress)
        except _Cut:
            failures = failures + 1 if _size(part) <= before else 1
            if failures == _ATTEMPTS:
                raise
            resumed = True
            time.sleep(_PAUSE * 2 ** (failures - 1))
            continue
        found = _checksum(part, file.checksum)
        if found == file.checksum.lower():
            return
        part.unlink()
        if again or not resumed:
            raise _Failed(f"checksum {found}, expected {file.checksum}")
        again, failures = True, 0


def _request(file: RemoteFile, url: str, part: Path, progress: Progress) -> None:
    """Ask once for what is missing in `part`."""
    import requests
    import urllib3

    start, total = _size(part), 0
    headers = {"User-Agent": f"narrows/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    answered = False
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            status = response.status_code
            if start and status == 416:  # nothing follows: the checksum decides
                return
            if status not in (200, 206):
                raise _Failed(f"HTTP {status}")
            answered = True
            if status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                part.unlink(missing_ok=True)
                raise _Cut("it sent another part of the file than it was asked for")
            begin = start if status == 206 else 0
            length = response.headers.get("Content-Length", "")
            total = begin + int(length) if length.isdigit() else file.size or 0
            _write(file, part, response.raw.stream(_PIECE, decode_content=False), begin, total, progress)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        if not answered:
            raise _Failed(_reason(error)) from None
        total = max(total, _size(part) + 1)
    if _size(part) < total:
        raise _Cut(f"connection lost after {_mb(_size(part))}")


def _write(file: RemoteFile, part: Path, pieces: Iterator[bytes], begin: int, total: int, progress: Progress) -> None:
    check_disk(total - begin, part.parent)
    with part.open("ab" if begin else "wb") as out:
        for piece in counted(pieces, total, f"downloading {file.name}", progress, begin):
            out.write(piece)
            out.flush()
        os.fsync(out.fileno())


def _remove_parts(target: Path) -> None:
    for part in target.parent.glob(f".{target.name}.*.part"):
        part.unlink(missing_ok=True)


def _reason(error: BaseException) -> str:
    """Return in a few words what is wrong with the connection."""
    import requests
    import urllib3

    if isinstance(error, (requests.Timeout, urllib3.exceptions.TimeoutError)):
        return "no answer in time"
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())[:120]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
