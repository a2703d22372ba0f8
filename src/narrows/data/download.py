"""Files from the network: verified, resumed, and never half there."""

from dataclasses import dataclass
from pathlib import Path

from narrows.data.progress import Progress, silent


@dataclass(frozen=True)
class RemoteFile:
    """One file of a set: its name in the cache, where it is to be had, tried in order, and how it is known."""

    name: str
    urls: tuple[str, ...]
    checksum: str  # "sha256:..." or "md5:..."
    size: int | None = None  # in bytes, where it is known


def fetch(file: RemoteFile, folder: Path, progress: Progress = silent) -> Path:
    """Return `folder / file.name`, downloaded first where it is not there yet."""
    raise NotImplementedError
