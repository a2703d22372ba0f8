"""Files from the network: verified, resumed, and never half there.

`fetch` promises that `folder / name` is either absent or the right file, byte for byte:

- Bytes are gathered in partial/NAME.part. Only when their checksum is right does one rename give them their name.
- A broken connection is asked for the rest only (HTTP Range, RFC 9110, section 14). What was received outlives
  the process, whether it failed, was interrupted or was killed: the next call goes on from there. If the pieces
  do not add up to the right checksum, the file is downloaded once more from the start.
- Mirrors are tried in order, the one named by NARROWS_MIRROR before all others. Any of them may go on where another
  one stopped, since they are held to the same checksum.
- One process downloads at a time; the others wait at partial/NAME.lock and then find the file. The operating system
  frees the lock of a process that dies.
- A file that you put there yourself is checked like any other, and never overwritten or removed.

requests speaks HTTP, filelock keeps the processes apart.
"""

import contextlib
import errno
import gzip
import hashlib
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from narrows._version import __version__
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    import requests
    from filelock import BaseFileLock

_TIMEOUT = (10, 30)  # seconds to connect, and between two pieces of data
_ATTEMPTS = 4  # in a row without a new byte, before a mirror is given up
_REQUESTS = 100  # to one mirror, however much each of them brought
_PAUSE = 0.5  # seconds before the second attempt; doubled for each further one
_PIECE = 1 << 16
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a set: its name in the cache, where it is to be had, tried in order, and how it is known."""

    name: str
    urls: tuple[str, ...]
    checksum: str  # "sha256:..." or "md5:..."
    size: int | None = None  # in bytes, where it is known
    unpacked: str = ""  # checksum of what a .gz file holds: one that was packed anew is as good


def fetch(file: RemoteFile, folder: Path, progress: Progress = silent) -> Path:
    """Return `folder / file.name`, downloaded first where it is not there yet."""
    assert Path(file.name).name == file.name, "a file's name is not a path"
    download = _Download(file, folder, progress)
    if not download.in_place():
        download.run()
    return download.target


class _Failed(Exception):
    """A mirror that cannot be used; the text says why."""


class _Cut(_Failed):
    """A mirror that began to answer and then stopped."""


class _DiskFailure(Exception):
    """The disk, not the network, is at fault."""

    def __init__(self, error: OSError, needed: int = 0) -> None:
        self.error = error
        self.needed = needed


@contextlib.contextmanager
def _disk(needed: int = 0) -> Iterator[None]:
    """Tell errors of the disk from those of the network, which are OSErrors too."""
    try:
        yield
    except OSError as error:
        raise _DiskFailure(error, needed) from error


@dataclass(frozen=True)
class _Download:
    file: RemoteFile
    folder: Path
    progress: Progress

    @property
    def target(self) -> Path:
        return self.folder / self.file.name

    @property
    def partial(self) -> Path:
        return self.folder / "partial"

    @property
    def part(self) -> Path:
        return self.partial / f"{self.file.name}.part"

    def in_place(self) -> bool:
        """Tell whether the file is there; a wrong one is the user's to remove."""
        if not os.path.exists(self.target):
            return False
        try:
            found = self._checksum(self.target)
        except OSError as error:
            raise NarrowsError(
                f"cannot read {self.target} ({error.strerror}); make it readable, or remove it to fetch it again"
            ) from None
        if found != self.file.checksum.lower() and not self._packed_anew():
            raise NarrowsError(
                f"{self.target} has the checksum {found}, expected {self.file.checksum}; it is left as it is: "
                "remove it and narrows fetches it again"
            )
        return True

    def run(self) -> None:
        """Download the file, unless another process does."""
        try:
            with self._alone():
                if not self.in_place():
                    self._check_room(self.file.size)
                    self._from_mirrors()
        except _DiskFailure as failure:
            raise self._disk_error(failure) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        path = self.partial / f"{self.file.name}.lock"
        lock = self._lock(path)
        try:
            yield
        except _DiskFailure:
            with contextlib.suppress(OSError):
                self.part.unlink()
            raise
        finally:
            with contextlib.suppress(OSError):
                if not self._received():
                    self.part.unlink(missing_ok=True)
                path.unlink()  # whoever waits sees that this lock has lost its name, and takes a new one
            lock.release()
            with contextlib.suppress(OSError):
                self.partial.rmdir()
                self.folder.rmdir()  # both only if they are empty

    def _lock(self, path: Path) -> "BaseFileLock":
        from filelock import FileLock, Timeout

        lock, wait = FileLock(path), 0
        for _ in range(_REQUESTS):
            try:
                with _disk():
                    self.partial.mkdir(parents=True, exist_ok=True)
                    lock.acquire(timeout=wait)
                return lock
            except _DiskFailure as failure:
                last = failure
            if isinstance(last.error, Timeout):
                self.progress(f"waiting for another process to finish downloading {self.file.name}", 0, 0)
                wait = -1
            elif not isinstance(last.error, (FileNotFoundError, FileExistsError)):  # else the folder just went away
                break
        raise last

    def _from_mirrors(self) -> None:
        own = os.environ.get("NARROWS_MIRROR")
        urls = (f"{own.rstrip('/')}/{self.file.name}", *self.file.urls) if own else self.file.urls
        reasons = []
        for url in urls:
            try:
                self._from_mirror(url)
                return
            except _Failed as failure:
                reasons.append(f"{_shown(url)} ({failure})")
        kept = ""
        if self._received():
            kept = f"; the {_mb(self._received())} received are kept, and the next try goes on from there"
        raise NarrowsError(
            f"cannot download {self.file.name}: {', '.join(reasons) or 'no address is known'}{kept}; "
            f"check the network, or put the file yourself at {self.target} ({self.file.checksum})"
        )

    def _from_mirror(self, url: str) -> None:
        """Bring the file in place from this mirror."""
        for _ in range(2):
            in_one_piece = self._resumed(url)
            with _disk():
                found = self._checksum(self.part)
                if found == self.file.checksum.lower():
                    self.part.replace(self.target)
                    return
                self.part.unlink()
            if in_one_piece:
                break
        raise _Failed(f"checksum {found}, expected {self.file.checksum}")

    def _resumed(self, url: str) -> bool:
        """Complete the part, over as many connections as it takes; tell whether it was one.

        A mirror that never answered is left at once; one that began to is asked again.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise _Failed("not an http or https address")
        furthest, failures, begun = self._received(), 0, False
        for _ in range(_REQUESTS):
            try:
                return self._request(url)
            except _Failed as failure:
                begun = begun or isinstance(failure, _Cut)
                last = failure
            failures = failures + 1 if self._received() <= furthest else 1
            furthest = max(furthest, self._received())
            if not begun or failures >= _ATTEMPTS:
                break
            time.sleep(_PAUSE * 2 ** (failures - 1))
        raise last

    def _request(self, url: str) -> bool:
        """Ask once for what is missing; tell whether that was everything."""
        import requests
        import urllib3

        start = self._received()
        headers = {"User-Agent": f"narrows/{__version__}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        answered, total = False, 0
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                if start and response.status_code == 416:  # there is nothing after the part: the checksum decides
                    return False
                if response.status_code not in (200, 206):
                    raise _Failed(f"HTTP {response.status_code}")
                answered = True
                begin, total = _extent(response)
                total = total or self.file.size or 0
                if begin not in (0, start):
                    self._forget()
                    raise _Cut("it sent another part of the file than it was asked for")
                self._write(response.raw.stream(_PIECE, decode_content=False), begin, total)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if not answered:
                raise _Failed(_reason(error)) from None
            raise self._cut(total) from None
        if self._received() < total:
            raise self._cut(total)
        return begin == 0

    def _cut(self, total: int) -> _Cut:
        return _Cut(f"connection lost after {_mb(self._received())}" + (f" of {_mb(total)}" if total else ""))

    def _write(self, pieces: Iterator[bytes], begin: int, total: int) -> None:
        what = f"downloading {self.file.name}"
        done, told = begin, time.monotonic()
        with _disk():
            file = self.part.open("ab" if begin else "wb", buffering=0)
        with file:
            self._check_room(total)
            self.progress(what, done, total)
            for piece in pieces:
                rest = memoryview(piece)
                with _disk(total):
                    while rest:
                        rest = rest[file.write(rest) :]
                done += len(piece)
                if time.monotonic() - told >= 0.1:
                    told = time.monotonic()
                    self.progress(what, done, total)
            with _disk(total):
                os.fsync(file.fileno())
        self.progress(what, done, total)

    def _received(self) -> int:
        try:
            return self.part.stat().st_size
        except OSError:
            return 0

    def _forget(self) -> None:
        with _disk():
            self.part.unlink(missing_ok=True)

    def _checksum(self, path: Path) -> str:
        algorithm = self.file.checksum.partition(":")[0].lower()
        with path.open("rb") as file:
            return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"

    def _packed_anew(self) -> bool:
        """Tell whether the file that is there holds the right bytes, packed by another hand."""
        if not self.file.unpacked:
            return False
        algorithm, _, expected = self.file.unpacked.partition(":")
        try:
            with gzip.open(self.target) as file:
                return hashlib.file_digest(file, algorithm).hexdigest() == expected
        except (OSError, EOFError, zlib.error):
            return False

    def _check_room(self, size: int | None) -> None:
        with _disk():
            usage = shutil.disk_usage(self.folder)
        missing = (size or 0) - self._received()
        if usage.total and missing > usage.free:
            raise self._no_room(missing, f"{_mb(usage.free)} free")

    def _no_room(self, needed: int | None, why: str) -> NarrowsError:
        needs = f"needs {_mb(needed)}, " if needed else ""
        return NarrowsError(
            f"no room for {self.file.name} in {self.folder} ({needs}{why}); "
            "make room or set NARROWS_CACHE to another folder"
        )

    def _disk_error(self, failure: _DiskFailure) -> NarrowsError:
        error, why = failure.error, failure.error.strerror or str(failure.error)
        if error.errno in _NO_ROOM:
            if error.errno == errno.ENOSPC and self.folder.exists():
                why = f"{_mb(shutil.disk_usage(self.folder).free)} free"
            return self._no_room(failure.needed or self.file.size, why)
        return NarrowsError(
            f"cannot keep {self.file.name} in {self.folder} ({why}); set NARROWS_CACHE to a folder that can be written"
        )


def _extent(response: "requests.Response") -> tuple[int, int]:
    """Return where in the file the answer begins, -1 where it does not say, and the file's length, 0 if unknown."""
    length = response.headers.get("Content-Length", "")
    length = int(length) if length.isdigit() else 0
    if response.status_code == 200:
        return 0, length
    stated = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if not stated:
        return -1, 0
    begin, total = int(stated[1]), stated[2]
    return begin, int(total) if total.isdigit() else length and begin + length


def _reason(error: BaseException) -> str:
    """Say in a few words what is wrong with the connection."""
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


def _shown(url: str) -> str:
    """Return the address without passwords and keys."""
    return re.sub(r"//[^/]*@", "//", url).partition("?")[0]


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
