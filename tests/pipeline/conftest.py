"""Small data on disk, a browser, explorers in it, and a way to run the real command in its own process."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from narrows.explorer.models import Explorer, open_explorer
from narrows.explorer.server import Server


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
WAIT = 60_000
"""Milliseconds that the browser may take for a thing on a busy machine."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "narrows", *map(str, arguments)]


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


class Watched:
    """A page in the browser, with everything it asked for and everything it complained about."""

    def __init__(self, browser: Any, address: str, width: int, scheme: str, ready: str) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.set_default_timeout(WAIT)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector(ready)


class Page(Watched):
    """An explorer."""

    def source(self, key: str) -> str:
        return self.page.locator(f"#{key} img").get_attribute("src")

    def changed(self, key: str, before: str) -> str:
        """Wait until a picture is another one, and return it."""
        found = "([key, before]) => document.querySelector(`#${key} img`).src !== before"
        self.page.wait_for_function(found, arg=[key, before])
        return self.source(key)

    def number(self, key: str) -> float:
        """Wait until a number is there, and return it."""
        self.page.wait_for_function("(key) => !isNaN(+document.getElementById(key).textContent)", arg=key)
        return float(self.page.locator(f"#{key}").inner_text())

    def told(self) -> str:
        self.page.wait_for_selector("#message:not([hidden])")
        return self.page.locator("#message").inner_text()


Open = Callable[..., Page]


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
