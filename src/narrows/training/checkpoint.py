"""Checkpoints: the complete state of a run in one file, written atomically; the last two are kept.

A file is a magic word, the SHA-256 of what follows, and torch's own format, which is read with `weights_only`, so a
checkpoint can hold data but no code. A damaged file is recognised by its digest, and a file that somebody else made by
its content, which is compared with a description of a run's state (state.py). The checkpoint before it is then used.
"""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from narrows._util.errors import NarrowsError
from narrows._util.files import check_regular, write_atomic

NAME = b"narrows checkpoint "
MAGIC = NAME + b"9\n"
KEEP = 2
Check = Callable[[Any], None]
"""Raises a NarrowsError if a state cannot be right, and `OtherRun` if it is another run's."""


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write the state after `step` batches and remove all but the last two checkpoints."""
    path = folder / f"batch-{step:09d}.ckpt"
    write_state(path, state)
    for old in list_checkpoints(folder)[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write one state with its digest, completely or not at all."""
    content = io.BytesIO()
    torch.save(state, content)
    payload = content.getvalue()
    write_atomic(path, MAGIC + hashlib.sha256(payload).digest() + payload)


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest first."""
    return sorted(p for p in folder.glob("batch-*.ckpt") if re.fullmatch(r"batch-\d{9,}\.ckpt", p.name))


def load_newest(folder: Path, check: Check) -> tuple[dict[str, Any], list[str]]:
    """Return the newest good state, and one line per damaged file that was skipped.

    Arguments:
        folder: The folder of the checkpoints.
        check: Raises a NarrowsError if a state cannot be right.

    Raises:
        OtherRun: The newest good checkpoint is of a run with other settings or data.
        NarrowsError: There is no good checkpoint, or another version wrote it.
    """
    passed: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            return read_checkpoint(path, check), passed
        except Damaged as error:
            passed.append(str(error))
    again = f"start it again with `narrows train --config {folder.parent / 'config.json'}`"
    if passed:
        raise NarrowsError(f"{'; '.join(passed)}; no earlier one is good, so this run cannot be resumed: {again}")
    raise NarrowsError(f"{folder} holds no checkpoint, so this run cannot be resumed: {again}")


class Damaged(NarrowsError):
    """A checkpoint that is incomplete, or whose content cannot be right."""


class OtherRun(NarrowsError):
    """A checkpoint of a run with other settings or data than those at hand."""


def read_checkpoint(path: Path, check: Check | None = None) -> dict[str, Any]:
    """Return a checkpoint's state.

    Raises:
        Damaged: It cannot be read, is incomplete, or does not pass `check`.
        OtherRun: `check` says so.
        NarrowsError: Another version wrote it.
    """
    check_regular(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"the checkpoint {path} cannot be read ({error.strerror})") from None
    magic = re.match(NAME + rb"\d{1,9}\n", content)
    head = magic.end() + 32 if magic else 0
    payload = content[head:]
    if magic is None or content[magic.end() : head] != hashlib.sha256(payload).digest():
        raise Damaged(f"the checkpoint {path} is damaged")
    if magic.group() != MAGIC:
        raise NarrowsError(
            f"the checkpoint {path} was written by another version of narrows; resume with that version, or start again"
        )
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True, map_location="cpu")
    except Exception as error:  # the file is whole, but not what torch wrote: pickle and zip raise anything
        raise Damaged(f"the checkpoint {path} is damaged ({type(error).__name__})") from None
    if check is not None:
        try:
            check(state)
        except OtherRun:
            raise
        except NarrowsError as error:
            raise Damaged(f"the checkpoint {path} is damaged ({error.marked})") from None
    return state
