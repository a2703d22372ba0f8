"""What all tests share: quiet, single-threaded torch, small data on disk, and a browser with an explorer in it."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch

from narrows.explorer.models import Explorer, open_explorer
from narrows.explorer.server import Server
from pages import BROWSERS, Open, Page

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes that tests start: as many run at a time as there are cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201)


@pytest.fixture(scope="session")
def images(tmp_path_factory) -> Path:
    """300 images of 28x28 with a bright square: enough for a convolutional network to have something to learn."""
    rng = np.random.default_rng(0)
    x = np.zeros((300, 28, 28), np.uint8)
    for image, (row, column, size) in zip(x, rng.integers((2, 2, 4), (14, 14, 12), (300, 3)), strict=True):
        image[row : row + size, column : column + size] = 255
    path = tmp_path_factory.mktemp("data") / "squares.npy"
    np.save(path, x)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, or whatever of its kind is there."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser tests: none of {', '.join(BROWSERS)} is on the PATH; `make browser` may install one")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser) -> Iterator[Open]:
    """Serve a run or an explorer and open its page; what a page must not do is checked when the test ends."""
    pages, servers = [], []

    def open_page(what: Path | Explorer, width: int = 1600, scheme: str = "light") -> Page:
        server = Server()
        server.explore(what if isinstance(what, Explorer) else open_explorer(what))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append(server)
        pages.append(Page(browser, server.address, width, scheme, "html.ready"))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()
    for server in servers:
        server.shutdown()
        server.server_close()
    for page in pages:
        assert {urlsplit(url).hostname for url in page.asked} <= {"127.0.0.1", None}, "a request left this machine"
