"""The pictures of README and docs from real runs: docs/demo.png, and report and explorer in a browser at two widths.

make pictures                                                        docs/demo.png, report-400.png, report-1600.png
narrows reproduce front --recipe fast --only 10 --out runs/front
python studies/screenshots.py runs/front/tau-10-fast-0 explorer  docs/explorer-400.png, explorer-1600.png

`make pictures` trains the demo in runs/pictures, unless that run has ended, and then calls `python
studies/screenshots.py runs/pictures report`. demo.png is the run's curves.png. The narrow pictures are dark and show
the top of the page; the wide ones are light and show all of it.
"""

import contextlib
import io
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from narrows.explorer.models import open_explorer
from narrows.explorer.server import Server

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
COLOURS = 128


def main(run: Path, pages: list[str]) -> None:
    """Write two pictures of each page, and for the report also the curves."""
    if "report" in pages:
        shutil.copyfile(run / "curves.png", DOCS / "demo.png")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is on the PATH; `make browser` may install one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name in pages:
            opening = {"report": _report, "explorer": _explorer}[name]
            tall: ViewportSize = {"width": 400, "height": 1800 if name == "report" else 1100}
            with opening(run, browser.new_page(viewport=tall, color_scheme="dark", device_scale_factor=1.5)) as narrow:
                _write(narrow.screenshot(), DOCS / f"{name}-400.png")
            wide: ViewportSize = {"width": 1600, "height": 1000}
            with opening(run, browser.new_page(viewport=wide, color_scheme="light")) as page:
                _write(page.screenshot(full_page=True), DOCS / f"{name}-1600.png")
        browser.close()


@contextlib.contextmanager
def _report(run: Path, page: Page) -> Iterator[Page]:
    page.goto((run / "report.html").resolve().as_uri())
    page.wait_for_selector("html.drawn")
    yield page


@contextlib.contextmanager
def _explorer(run: Path, page: Page) -> Iterator[Page]:
    """Serve a run and use the page: move a dimension, switch another off, and choose two inputs to interpolate."""
    with Server() as server:
        server.explore(open_explorer(run))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page.goto(server.address)
        page.wait_for_selector("html.ready")
        page.locator("[data-choose=input][data-which=next]").click()
        page.wait_for_function("() => document.getElementById('input-title').textContent.startsWith('Test input 2 ')")
        page.locator("[data-choose=other][data-which=previous]").click()
        page.wait_for_selector("#strip:not([hidden])")
        page.locator("#on-3").uncheck()
        page.wait_for_function("() => document.getElementById('many-word').textContent.includes('with all')")
        page.locator("#z-0").focus()
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        page.wait_for_load_state("networkidle")
        page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
        yield page
        server.shutdown()
        thread.join()


def _write(content: bytes, path: Path) -> None:
    """Write a picture with few colours, which is enough for a page of lines and letters."""
    image = Image.open(io.BytesIO(content)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"{path.name}: {image.width} x {image.height}, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["report", "explorer"])
