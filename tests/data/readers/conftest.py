"""What the tests of all readers share: a cache of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
