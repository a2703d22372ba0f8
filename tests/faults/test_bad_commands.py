"""Every bad command line is answered by one line, exit code 2 and nothing else, within ten seconds and 2 GB.

A case is repeated by hand with `pytest tests/faults/test_bad_commands.py -k "group"`; a failure prints its words.
"""

import contextlib
import io
import os
import re
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from commands import command
from faults.bad_commands import GROUPS, Case
from faults.bad_files import make_files
from narrows.cli import main

SECONDS, BYTES = 10, 2 << 30
PRETENDS = re.compile(r"^(model|report|figure|table|page):|^[\d,]+ (codes|samples|examples|reconstructions)", re.M)
"""What only a command that did its work prints."""


class TooLong(BaseException):
    """A case took more than ten seconds; no handler of errors may catch it."""


@pytest.fixture(scope="session")
def pit(tmp_path_factory) -> Path:
    """The folder with all bad files."""
    folder = tmp_path_factory.mktemp("bad")
    with contextlib.redirect_stdout(io.StringIO()):
        make_files(folder)
    return folder


def content(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Give the block ten seconds, and 2 GB more than the process has."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    threads, before = torch.get_num_threads(), signal.signal(signal.SIGALRM, stop)
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        torch.set_num_threads(threads)


def wrong(code: object, out: str, err: str, pattern: str) -> str:
    """Return what is wrong with the answer to a bad command line; empty if nothing is."""
    if code != 2:
        return f"exit code {code}, not 2: {err or out[-300:]}"
    if not err.startswith("narrows: error: ") or err.count("\n") != 1 or not err.endswith("\n"):
        return f"not one line that begins with narrows: error: {err!r}"
    line = err.removeprefix("narrows: error: ").removesuffix("\n")
    if not re.search(pattern, line):
        return f"{line!r} does not match {pattern!r}"
    if not line.isprintable():
        return f"{line!r} holds what a terminal obeys"
    return f"pretends success: {out!r}" if PRETENDS.search(out) else ""


def completed(case: Case, pit: Path) -> Case:
    words, pattern = case
    return [word.replace("@", f"{pit}/") for word in words], pattern


@pytest.mark.parametrize("group", GROUPS)
def test_one_clear_line(group, pit, tmp_path, monkeypatch):
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before, failures = content(pit), []
    for words, pattern in (completed(case, pit) for case in GROUPS[group]):
        out, err, code = io.StringIO(), io.StringIO(), None
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited():
                code = main(words)
        except TooLong:
            code = "none within ten seconds"
        except BaseException as error:
            code = f"none but {type(error).__name__}: {error}"
        problem = wrong(code, out.getvalue(), err.getvalue(), pattern)
        left = sorted(path.name for path in Path.cwd().iterdir())
        if problem or left:
            failures.append(f"narrows {' '.join(words):.200}\n    {problem[:600]}{f' left {left}' if left else ''}")
            for name in left:
                subprocess.run(["rm", "-rf", name], check=True)
    assert not failures, f"{len(failures)} of {len(GROUPS[group])}:\n" + "\n".join(failures)
    assert content(pit) == before, "a file of somebody else was changed"


def test_the_table_is_large():
    cases = [tuple(words) for group in GROUPS.values() for words, _ in group]
    assert len(cases) == len(set(cases)) >= 700


ALONE = ["unknown", "combined", "config", "decode", "other commands"]
"""Groups of which a few cases run as the real program, in a process of its own with 2 GB of memory."""


@pytest.mark.parametrize("group", ALONE)
def test_the_real_program_answers_alike(group, pit, tmp_path):
    for words, pattern in [completed(case, pit) for case in GROUPS[group] if "\0" not in "".join(case[0])][::25]:
        done = subprocess.run(
            command(*words),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
            timeout=60,
        )
        assert not wrong(done.returncode, done.stdout, done.stderr, pattern), words
        assert list(tmp_path.iterdir()) == []
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < BYTES
