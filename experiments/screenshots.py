"""The README's pictures from the demo's run: docs/demo.png, and its report in a browser at two widths.

make pictures

does the demo in runs/pictures, unless it is there, and then `python experiments/screenshots.py runs/pictures`.
demo.png is the run's curves.png; report-400.png is dark and shows the top of the page, report-1600.png is light and
shows all of it. A second argument is a folder for the pictures, in place of docs.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
COLOURS = 128


def main(run: Path, out: Path) -> None:
    """Write all three."""
    shutil.copyfile(run / "curves.png", out / "demo.png")
    report = run / "report.html"
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is on the PATH; `make browser` may install one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        narrow = browser.new_page(viewport={"width": 400, "height": 1800}, color_scheme="dark", device_scale_factor=1.5)
        _open(narrow, report)
        _write(narrow.screenshot(), out / "report-400.png")
        wide = browser.new_page(viewport={"width": 1600, "height": 1000}, color_scheme="light")
        _open(wide, report)
        _write(wide.screenshot(full_page=True), out / "report-1600.png")
        browser.close()


def _open(page: Page, report: Path) -> None:
    page.goto(report.resolve().as_uri())
    page.wait_for_selector("html.drawn")


def _write(content: bytes, path: Path) -> None:
    """Write a picture with few colours, which a page of lines and letters has."""
    image = Image.open(io.BytesIO(content)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"{path.name}: {image.width} x {image.height}, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else DOCS)
