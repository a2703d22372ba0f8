"""The shards that are needed now and next, on the local disk: fetched in the background, mapped, and removed.

Files are named after the set, the shard and its version, so processes that train on the same set on one machine share
them. Locks of the system (flock) keep them apart, and are gone when a process dies:

- who fetches a shard holds its part file; the others wait and then find the shard under its name;
- who uses a shard holds a shared lock on it; a shard that nobody holds and nobody here wants is removed.

A process that is killed therefore leaves files that the next one uses or removes.
"""

import contextlib
import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from narrows._util.errors import NarrowsError, setting
from narrows._util.files import PART, is_leftover
from narrows._util.room import amount, check_disk
from narrows.data.streams.shards import Shard

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system: processes do not share, and leftovers stay
    fcntl = None

THREADS = 4
"""Shards that are fetched at a time."""
WAIT = 0.05
"""Seconds between two looks at a shard that another process fetches."""


@dataclass(frozen=True, eq=False)
class _Held:
    """A shard that is mapped."""

    path: Path
    file: BinaryIO
    array: np.ndarray

    def drop(self) -> None:
        """Give the shard up, and remove its file if no other process uses it."""
        _remove_unused(self.path, self.file)
        self.file.close()


class ShardCache:
    """The shards of a set as local arrays, some at a time.

    Arguments:
        shards: All shards of the set.
        names: The name of each in the folder.
        folder: Where they are kept.
        room: Bytes that they may take.
        check: Raises if a shard holds values that cannot be used.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        names: Sequence[str],
        folder: Path,
        room: int,
        check: Callable[[np.ndarray, int], None],
    ) -> None:
        self.shards, self.names, self.folder, self.room, self._check = shards, names, folder, room, check
        self._changed = threading.Condition()
        self._wanted: list[int] = []
        self._held: dict[int, _Held] = {}
        self._fetching: set[int] = set()
        self._failed: dict[int, Exception] = {}
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        weakref.finalize(self, _end, self._held, self._threads, self._ended, self._changed, folder)

    def want(self, numbers: Sequence[int]) -> None:
        """Fetch these shards in this order, in the background, and remove all others."""
        with self._changed:
            if list(numbers) == self._wanted:
                return
            self._wanted = list(numbers)
            self._failed.clear()
            for number in self._held.keys() - set(numbers):
                self._held.pop(number).drop()
            self._sweep()
            self._start()

    def rows(self, number: int) -> np.ndarray:
        """Return a shard, `(count, *row)`, mapped; wait for it, or fetch it now."""
        with self._changed:
            if number not in self._wanted:
                self._make_room(number)
            if number in self._failed:  # while nobody waited: perhaps the network is back
                del self._failed[number]
                self._start()
            while number not in self._held:
                if number in self._failed:
                    raise self._failed.pop(number)
                self._start()
                self._changed.wait(1.0)
            return self._held[number].array

    def _make_room(self, number: int) -> None:
        """Put a shard that is read out of order first; those that were wanted before go, as far as needed."""
        kept, left = [number], self.room - self.shards[number].cached
        for other in reversed(self._wanted):
            if self.shards[other].cached <= left:
                left -= self.shards[other].cached
                kept.append(other)
        self.want(kept[::-1])

    def _start(self) -> None:
        waiting = sum(self._is_waiting(number) for number in self._wanted)
        self._threads[:] = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(min(THREADS - len(self._threads), waiting)):
            thread = threading.Thread(target=self._fetch_all, daemon=True, name="narrows-shards")
            self._threads.append(thread)
            thread.start()

    def _is_waiting(self, number: int) -> bool:
        return not (number in self._held or number in self._fetching or number in self._failed)

    def _fetch_all(self) -> None:
        """Fetch shards as long as some are missing: what one thread does."""
        while not self._ended.is_set():
            with self._changed:
                number = next(filter(self._is_waiting, self._wanted), None)
                if number is None:
                    return
                self._fetching.add(number)
            held, failure = None, None
            try:
                held = self._fetch(number)
            except Exception as error:
                failure = error
            with self._changed:
                self._fetching.discard(number)
                if held is not None and (number not in self._wanted or self._ended.is_set()):
                    held.drop()
                elif held is not None:
                    self._held[number] = held
                elif failure is not None and number in self._wanted:
                    self._failed[number] = failure
                self._changed.notify_all()

    def _fetch(self, number: int) -> _Held:
        path = self.folder / self.names[number]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            while not self._ended.is_set():
                held = self._opened(path, number) or self._fetched(path, number)
                if held is not None:
                    return held
                time.sleep(WAIT)
            raise OSError(errno.ECANCELED, "it is not needed any more")
        except OSError as error:
            raise NarrowsError(
                f"{self.folder} cannot take the shard {path.name} ({error.strerror or error}); make room there, use a "
                f"smaller {setting('cache_size')}, or choose another folder with NARROWS_CACHE"
            ) from None

    def _opened(self, path: Path, number: int) -> _Held | None:
        """Map a shard that is there; return None if it is not."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        try:
            _share(file)
            if os.fstat(file.fileno()).st_nlink == 0:  # removed by another process in this moment
                file.close()
                return None
            return _Held(path, file, self.shards[number].mapped(file))
        except BaseException:
            file.close()
            raise

    def _fetched(self, path: Path, number: int) -> _Held | None:
        """Fetch a shard into its part file and give it its name; return None if another process is about it."""
        part, shard = path.with_name(f".{path.name}{PART}"), self.shards[number]
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(part.open("a+b"))
            if not _lock_now(file) or not _is_at(part, file):  # its owner may have given it its name
                return None
            if path.exists():
                part.unlink()
                return None
            file.truncate(0)
            try:
                check_disk(shard.cached, self.folder)
                with part.open("r+b") as out:
                    shard.fetch(out, self._ended)
                    out.flush()
                    os.fsync(out.fileno())
                if self._ended.is_set():
                    raise OSError(errno.ECANCELED, "it is not needed any more")
                array = shard.mapped(file)
                self._check(array, number)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            part.replace(path)
            _share(file)
            stack.pop_all()
            return _Held(path, file, array)

    def _sweep(self) -> None:
        """Remove what nobody uses and nobody here wants."""
        wanted = {self.names[number] for number in self._wanted}
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if path.name not in wanted and not (is_leftover(path) and path.name[1 : -len(PART)] in wanted):
                    _sweep_file(path)


def remove_unused(folder: Path, but: Path) -> None:
    """Remove the shards in all folders below `folder`, except `but`, that no process uses."""
    with contextlib.suppress(OSError):
        for other in folder.iterdir():
            if other != but and other.is_dir():
                for path in other.iterdir():
                    _sweep_file(path)
                with contextlib.suppress(OSError):  # in use
                    other.rmdir()


def room_error(nbytes: int, folder: Path, problem: OSError) -> NarrowsError:
    """Return the error for a disk that has less room than the cache may take."""
    return NarrowsError(
        f"the cache may take {amount(nbytes)} in {folder} ({problem.strerror}); use a smaller {setting('cache_size')}, "
        "make room, or choose another folder with NARROWS_CACHE"
    )


def _end(
    held: dict[int, _Held],
    threads: list[threading.Thread],
    ended: threading.Event,
    changed: threading.Condition,
    folder: Path,
) -> None:
    """Stop fetching and remove the shards: what happens when a cache is not used any more, or Python ends."""
    ended.set()
    with changed:
        for one in held.values():
            one.drop()
        held.clear()
        changed.notify_all()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(5.0)
    with contextlib.suppress(OSError):  # in use by another process
        folder.rmdir()


def _share(file: BinaryIO) -> None:
    """Hold an open file together with others who use it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_SH)


def _lock_now(file: BinaryIO) -> bool:
    """Hold an open file alone; return whether that was possible at once."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Return whether an open file is still the one with this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_unused(path: Path, file: BinaryIO) -> None:
    """Remove an open file unless another process holds it."""
    with contextlib.suppress(OSError):
        if fcntl is not None and _lock_now(file) and _is_at(path, file):
            path.unlink()


def _sweep_file(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("rb") as file:
        _remove_unused(path, file)
