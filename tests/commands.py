"""The real command in its own process, and the settings of a run that takes a second."""

import fcntl
import inspect
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from narrows.training.config import TrainConfig


def small(**changes: object) -> list[str]:
    """Settings of a run that takes a second, with some of them changed."""
    settings = {
        "threads": 1,
        "device": "cpu",
        "recipe": "paper",
        "batch": 16,
        "n": 4,
        "width": 2,
        "log_every": 7,
        "eval_every": 20,
        "checkpoint_every": 40,
        **changes,
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


SMALL = small()
HANGS = 1_800
"""Seconds after which a process counts as hanging; no test depends on how fast the machine is."""
STOPS_ITSELF = """
import os, sys
from narrows.cli import main
from narrows.training.trainer import Trainer

number, step, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
train_batch = Trainer.train_batch

def train_and_stop(trainer):
    train_batch(trainer)
    if trainer.step == step and str(trainer.sink.folder.path) == folder:
        os.kill(os.getpid(), number)

Trainer.train_batch = train_and_stop
sys.argv = ["narrows", *sys.argv[4:]]
sys.exit(main())
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "narrows", *map(str, arguments)]


def run(*arguments: object, cwd: Path | None = None, errors: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real command in its own process; `errors` says how output that is not UTF-8 is decoded."""
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, errors=errors, cwd=cwd, env=environment, timeout=HANGS
    )


def in_a_terminal(*arguments: object, size: tuple[int, int] | None = None) -> tuple[int, str]:
    """Run the command on a terminal of its own, with this many lines and columns if given.

    Returns its exit code and what the terminal got.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    if size is not None:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    return process.wait(), seen.decode(errors="replace")


def run_until(number: int, step: int, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the real command in its own process, which gets a real signal after batch `step` of the run in `folder`."""
    script = [sys.executable, "-c", STOPS_ITSELF, str(int(number)), str(step), str(folder), *map(str, arguments)]
    return subprocess.run(script, capture_output=True, text=True, timeout=HANGS)


def option_help(name: str) -> str:
    """Return what `narrows train --help` says about a setting: the line below its field."""
    source = inspect.getsource(TrainConfig)
    return re.search(rf'\n    {name}: [^\n]*\n    """(.*?)"""', source, re.DOTALL).group(1)
