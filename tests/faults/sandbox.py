"""One case at a time, watched: what it raises, how long it takes, its memory, and every file that it opens for writing.

A case may end in two ways: its input is accepted, or it is refused by one line. Anything else is a failure, and so are

- a file opened for writing, moved or removed outside the cache and the temporary folder,
- a program started, a connection to another machine, a pickle that names a class,
- files left in the temporary folder, and half-written ones anywhere,
- more than 2 GB of memory, or more than 256 MB in the cache.
"""

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import psutil

from faults.target import Broken, Target, check_line, steady_clock
from narrows import NarrowsError

SECONDS = 10
MEMORY, ADDRESSES = 2 << 30, 4 << 30
"""Bytes by which the resident set and the address space may grow."""
CACHE, FILE = 256 << 20, 512 << 20
"""Bytes that the cache and a single file may take."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"}
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class"}


class Ending(NamedTuple):
    """How a case ended."""

    kind: str
    """accepted, refused or failed."""
    why: str = ""
    """The line of the refusal, or what went wrong."""


class Hanging(BaseException):
    """A case that takes too long."""


class Sandbox:
    """The folders and limits of a process that runs cases.

    Arguments:
        folder: Holds the valid files (seeds/), the copy that a case works on (work/), the cache and temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seeds, self.work, self.home = folder / "seeds", folder / "work", folder / "home"
        self.cache, self.temporary = folder / "cache", folder / "temporary"
        for path in (self.seeds, self.cache, self.temporary, self.home):
            path.mkdir(exist_ok=True)
        self.watching, self.allowed = False, [self.cache, self.temporary, self.home]
        self.seen: list[str] = []
        tempfile.tempdir = str(self.temporary)
        sys.addaudithook(self._audit)
        signal.signal(signal.SIGALRM, self._alarm)
        used = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, resource.RLIM_INFINITY))

    @staticmethod
    def environment(folder: Path) -> dict[str, str]:
        """Return the environment of such a process."""
        home = str(folder / "home")
        return {
            **os.environ, "NARROWS_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "temporary"), "HOME": home,
            "MPLCONFIGDIR": home, "HF_HOME": home, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120",
            "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_CACHE_DIR": home,
        }  # fmt: skip

    def make_seeds(self, target: Target) -> list[str]:
        """Write the valid files of a target, if they are not there; return the names of those that are mutated."""
        folder = self.seeds / target.name
        if not folder.exists():
            part = self.seeds / f".{target.name}"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            with steady_clock():
                target.make(part)
            part.rename(folder)
        return [str(path.relative_to(folder)) for path in target.files(folder)]

    def run(self, target: Target, seed: int, number: int) -> Ending:
        """Run one mutation of one file."""
        rng = Random(f"{seed}/{target.name}/{number}")
        name = rng.choice(self.make_seeds(target))
        path = self.seeds / target.name / name
        others = [other.read_bytes() for other in target.files(self.seeds / target.name) if other != path]
        return self.read(target, name, target.mutate(rng, path.read_bytes(), others), rng)

    def read(self, target: Target, name: str, content: bytes | None = None, rng: Random | None = None) -> Ending:
        """Read the file `name` of a target as it is, or with other content."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.seeds / target.name, self.work)
        victim = self.work / name
        if content is not None:
            victim.write_bytes(content)
        os.chdir(self.work)
        before = psutil.Process().memory_info().rss
        _forget_peak()
        with self._watched(target):
            ending = _ending(lambda: target.read(self.work, victim, rng or Random(0)))
        problems = [*self.seen, *self._left_over()]
        if (grown := _peak() - before) > MEMORY:
            problems.append(f"it took {grown / 1e9:.1f} GB of memory")
        return Ending("failed", "; ".join([*problems, ending.why])) if problems else ending

    @contextlib.contextmanager
    def _watched(self, target: Target) -> Iterator[None]:
        self.seen.clear()
        self.allowed[3:] = [self.work] if target.writes else []
        self.watching = True
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.watching = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if (event == "open" and arguments[2] & WRITES) or event in CHANGES:
            paths = arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]
            if event in ("os.remove", "os.rmdir") and arguments[1] >= 0:  # a name in an open folder, as rmtree has it
                paths = (os.path.join(os.readlink(f"/proc/self/fd/{arguments[1]}"), os.fsdecode(arguments[0])),)
            for path in paths:
                if isinstance(path, str | bytes | os.PathLike) and not self._may_write(os.fsdecode(path)):
                    self.seen.append(f"{event} of {os.fsdecode(path)[:200]!r}, outside the cache")
        elif event in STARTS or (event == "socket.connect" and arguments[1][0] != "127.0.0.1"):
            self.seen.append(f"{event}{arguments!r:.200}")

    def _may_write(self, path: str) -> bool:
        whole = os.path.abspath(path)
        return whole == os.devnull or any(
            whole.startswith(f"{allowed}/") or whole == str(allowed) for allowed in self.allowed
        )

    def _left_over(self) -> Iterator[str]:
        """Yield what a case left behind, and remove it."""
        for path in self.temporary.iterdir():
            yield f"{path.name} is left in the temporary folder"
        for path in (*self.work.rglob("*.part"), *self.cache.rglob("*.part")):
            yield f"{path.name} is left half-written"
        size = sum(path.stat().st_size for path in self.cache.rglob("*") if path.is_file())
        if size > CACHE:
            yield f"the cache grew by {size / 1e6:,.0f} MB"
        for folder in (self.temporary, self.cache):
            shutil.rmtree(folder)
            folder.mkdir()

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        raise Hanging(f"it takes longer than {SECONDS} s, in {_place(traceback.extract_stack(frame))}")


def _ending(read: Any) -> Ending:
    """Return how a call ends."""
    try:
        try:
            read()
        except NarrowsError as error:
            check_line(error)
            return Ending("refused", str(error))
    except (Broken, Hanging) as error:
        return Ending("failed", str(error))
    except BaseException as error:
        text = " ".join(str(error).split())[:200]
        return Ending(
            "failed", f"{type(error).__name__}: {text} in {_place(traceback.extract_tb(error.__traceback__))}"
        )
    return Ending("accepted")


def _place(frames: traceback.StackSummary) -> str:
    """Return the last place in narrows, or else the last of all."""
    ours = [frame for frame in frames if "/narrows/" in frame.filename] or list(frames)
    return f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else "an unknown place"


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the largest resident set since `_forget_peak`, in bytes; where that is unknown, since the start."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
