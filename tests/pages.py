"""Pages in a real browser, and how to wait for them."""

from collections.abc import Callable
from typing import Any

WAIT = 240_000
"""Milliseconds until a test gives up waiting for a condition in the browser; nothing is measured by it."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Watched:
    """A page in the browser, with every request it sent and every message on its console."""

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
        """Wait until a picture has changed, and return it."""
        found = "([key, before]) => document.querySelector(`#${key} img`).src !== before"
        self.page.wait_for_function(found, arg=[key, before])
        return self.source(key)

    def number(self, key: str) -> float:
        """Wait until a number is there, and return it."""
        self.page.wait_for_function("(key) => !isNaN(+document.getElementById(key).textContent)", arg=key)
        return float(self.page.locator(f"#{key}").inner_text())

    def message(self) -> str:
        self.page.wait_for_selector("#message:not([hidden])")
        return self.page.locator("#message").inner_text()


Open = Callable[..., Page]
