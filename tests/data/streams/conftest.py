"""Shards of a few kilobytes, on disk, on a web server and in a bucket."""

import io

import numpy as np
import pytest

from http_server import LocalServer
from narrows.data.streams import stream, transfer

COUNTS = (90, 40, 120, 50, 100, 60, 80, 60)
"""Rows of each shard: 600 in all."""


def as_file(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def _small(tmp_path, monkeypatch):
    """A cache of its own, no pauses, any time to answer, and a sample that leaves most rows to the shards."""
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(transfer, "PAUSE", 0)
    monkeypatch.setattr(transfer, "FIRST_ANSWER", 600)
    monkeypatch.setattr(stream, "SAMPLE_ROWS", 40)


@pytest.fixture(scope="session")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (sum(COUNTS), 6, 5, 3), np.uint8)


@pytest.fixture
def parts(tmp_path, pictures):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i, part in enumerate(np.split(pictures, np.cumsum(COUNTS)[:-1])):
        np.save(folder / f"part-{i}.npy", part)
    return folder


@pytest.fixture
def web(parts):
    with LocalServer({path.name: path.read_bytes() for path in parts.iterdir()}) as server:
        yield server
