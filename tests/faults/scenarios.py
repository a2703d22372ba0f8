"""Small runs of every kind, the commands that continue them, and whether two of them are equal to the last bit."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from narrows.runs.records import MetricRow
from narrows.training.checkpoint import list_checkpoints, read_checkpoint

SHARED = [
    *("--threads=1", "--device=cpu", "--batch=16", "--width=2", "--n=4"),
    *("--log-every=5", "--eval-every=20", "--checkpoint-every=25"),
]
SCENARIOS = {
    "fast": ["train", "plane.npy", "--values=any", "--explained=0.9", "--steps=250"],
    "paper": ["train", "plane.npy", "--values=any", "--explained=0.9", "--steps=200", "--recipe=paper"],
    "images": ["train", "squares.npy", "--tau=20", "--steps=120"],
    "front": ["front", "plane.npy", "--values=any", "--taus=3,9", "--steps=150"],
    "as-good-as": ["train", "plane.npy", "--values=any", "--as-good-as=2", "--steps=120"],
}
"""What is trained, by name; each takes a few seconds."""
HANGS = 300
"""Seconds after which a command hangs; it takes a hundredth of that on a machine that has nothing else to do."""
PAGES = ("report.html", "curves.png", "curves.svg", "front.png", "front.svg")
"""What is drawn when a run has ended. Its bytes are not compared, but every file must be whole."""


class Wrong(Exception):
    """Something that must never happen."""


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Place:
    """A folder with data, an environment of its own, and one undisturbed run per scenario."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_data(folder)
        home = str(folder / "home")
        names = ("NARROWS_CACHE", "TMPDIR", "MPLCONFIGDIR", "HF_HOME")
        self.environment = {**os.environ, **dict.fromkeys(names, home), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        (folder / "home").mkdir()
        self.undisturbed: dict[str, dict[str, str]] = {}

    def prepare(self, name: str) -> None:
        """Train the undisturbed run of a scenario, unless that has been done."""
        if name not in self.undisturbed:
            out = self.folder / f"undisturbed-{name}"
            expect(self.run(self.start(name, out)), 0)
            self.undisturbed[name] = contents(out)

    def start(self, name: str, out: Path) -> list[str]:
        """Return the command that starts a scenario in a folder."""
        return [*SCENARIOS[name], *SHARED, f"--out={out}"]

    def open(
        self, command: list[str], launcher: Sequence[str] = ("-m", "narrows"), **settings: Any
    ) -> subprocess.Popen[str]:
        """Start a command in its own process, or by a launcher that starts several."""
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        arguments = [sys.executable, *launcher, *command]
        return subprocess.Popen(arguments, cwd=self.folder, env=self.environment, **streams, **settings)

    def run(self, command: list[str], **settings: Any) -> Done:
        """Run a command to its end."""
        return ended(self.open(command, **settings))

    def finish(self, name: str, out: Path, again: bool) -> None:
        """Continue a run that was stopped in any way, as its user would, and compare it with the undisturbed one.

        Arguments:
            name: The scenario.
            out: Its folder.
            again: Whether the user begins with the same command again, instead of `narrows resume`.
        """
        start, resume = self.start(name, out), ["resume", str(out)]
        done = self.run(start if again else resume)
        if done.code == 2:  # one line says what to do
            expect(done, 2)
            advised = f"narrows resume {out}" in done.err
            if not advised and "start it again with the same command" not in done.err:
                raise Wrong(f"the message leads nowhere: {done.err}")
            done = self.run(resume if advised else start)
        expect(done, 0)
        compare(contents(out), self.undisturbed[name])


def make_data(folder: Path) -> None:
    """Write points on a plane in space, and images with a bright square."""
    rng = np.random.default_rng(0)
    np.save(folder / "plane.npy", (rng.normal(size=(600, 2)) @ rng.normal(size=(2, 8))).astype(np.float32))
    x = np.zeros((300, 16, 16), np.uint8)
    for image, (row, column, size) in zip(x, rng.integers((1, 1, 2), (8, 8, 8), (300, 3)), strict=True):
        image[row : row + size, column : column + size] = 255
    np.save(folder / "squares.npy", x)


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait for a process, and return what it said."""
    try:
        out, err = process.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Wrong(f"{shlex.join(map(str, process.args))} hangs") from None  # type: ignore[arg-type]
    return Done(process.returncode, out, err)


def expect(done: Done, code: int) -> None:
    """Raise unless a command ended with this exit code and no traceback; 2 comes with exactly one line."""
    said = f"code {done.code}, stderr {done.err!r}, stdout {done.out[-300:]!r}"
    if done.code != code or "Traceback" in done.err + done.out:
        raise Wrong(f"expected code {code}: {said}")
    if code == 2 and not (done.err.startswith("narrows: error: ") and done.err.count("\n") == 1):
        raise Wrong(f"expected one line: {said}")


def contents(out: Path, left_out: Collection[str] = ()) -> dict[str, str]:
    """Return a digest of everything that a run or a front leaves, except times; raise if a file is half-written.

    All checkpoints but the last may differ: a signal leaves one where there would be none. Files in `left_out` are not
    looked at.
    """
    found: dict[str, str] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix == ".part":
            raise Wrong(f"{name} is left over")
        if name in left_out or path.is_dir() or path in list_checkpoints(path.parent)[:-1]:
            continue
        found[name] = _whole(path) if path.name in PAGES else digest(_read(path))
    return found


def _read(path: Path) -> Any:
    """Return what a file holds, without the times in it."""
    if path.name == "metrics.csv":
        return [_without_seconds(line) for line in path.read_text().split("\n")]
    if path.name == "result.json":
        return {**json.loads(path.read_text()), "seconds": 0}
    if path.suffix == ".ckpt":
        state = {**read_checkpoint(path), "seconds": 0}
        lines = [_without_seconds(line) for line in state["records"]["metrics.csv"]]
        return {**state, "records": {**state["records"], "metrics.csv": lines}}
    return path.read_bytes()


def _without_seconds(line: str) -> str:
    cells, place = line.split(","), MetricRow.columns().index("seconds")
    return ",".join(cells[:place] + cells[place + 1 :])


def _whole(path: Path) -> str:
    """Return "whole", or raise if a page or a picture is not."""
    try:
        if path.suffix == ".png":
            with Image.open(path) as image:
                image.load()
        elif path.suffix == ".svg":
            xml.etree.ElementTree.parse(path)
        elif not path.read_text().rstrip().endswith("</html>"):
            raise Wrong("its end is missing")
    except Exception as error:
        raise Wrong(f"{path.name} is half-written ({error})") from error
    return "whole"


def digest(value: Any) -> str:
    """Return a digest of nested data: equal for equal data, whatever file they came from."""
    total = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, Mapping):
            for key in sorted(one, key=str):
                add(key)
                add(one[key])
        elif isinstance(one, list | tuple):
            for part in one:
                add(part)
        elif isinstance(one, torch.Tensor):
            total.update(f"{one.dtype}{tuple(one.shape)}".encode() + one.contiguous().numpy().tobytes())
        else:
            total.update(one if isinstance(one, bytes) else f"{type(one).__name__} {one!r}".encode())
        total.update(b"\0")

    add(value)
    return total.hexdigest()


def compare(found: dict[str, str], expected: dict[str, str]) -> None:
    """Raise unless a run left the same files, with the same content, as the undisturbed one."""
    for what, names in (("missing", expected.keys() - found.keys()), ("too many", found.keys() - expected.keys())):
        if names:
            raise Wrong(f"{what}: {', '.join(sorted(names))}")
    different = [name for name in expected if found[name] != expected[name]]
    if different:
        raise Wrong(f"differs from the undisturbed run: {', '.join(different)}")


def advice(text: str) -> str:
    """Return the command that a message advises, without the program's name; empty if there is none."""
    found = re.search(r"narrows (resume \S+)", text)
    return found.group(1) if found else ""
