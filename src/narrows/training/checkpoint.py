"""Checkpoints: the complete state of a run in one file, written atomically; the last two are kept.

A file is a magic word, the SHA-256 of what follows, and torch's own format, which is read with `weights_only`, so a
checkpoint can hold data but no code. A damaged file is recognised by its digest, and the one before it is used.
"""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from narrows._util.errors import NarrowsError
from narrows._util.files import write_atomic

NAME = b"narrows checkpoint "
MAGIC = NAME + b"8\n"
KEEP = 2


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


def load_newest(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the newest good state, and one line per damaged file that was skipped."""
    passed: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        state = read_checkpoint(path)
        if state is not None:
            return state, passed
        passed.append(f"the checkpoint {path} is damaged")
    if passed:
        raise NarrowsError(f"{'; '.join(passed)}; no earlier one is good, so this run cannot be resumed")
    raise NarrowsError(f"{folder} holds no checkpoint, so this run cannot be resumed; start it again")


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return a checkpoint's state, or None if the file is incomplete; raise if another version wrote it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    magic = re.match(NAME + rb"\d+\n", content)
    if magic is None:
        return None
    head = magic.end() + 32
    payload = content[head:]
    if content[magic.end() : head] != hashlib.sha256(payload).digest():
        return None
    if magic.group() != MAGIC:
        raise NarrowsError(
            f"the checkpoint {path} was written by another version of narrows; resume with that version, or start again"
        )
    state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True, map_location="cpu")
    return state
