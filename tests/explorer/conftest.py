"""Explorers to ask."""

from collections.abc import Callable

import pytest

from explorers import untrained
from narrows.explorer.models import Explorer


@pytest.fixture(scope="session")
def make_explorer() -> Callable[..., Explorer]:
    return untrained


@pytest.fixture(scope="session")
def explorer() -> Explorer:
    return untrained()
