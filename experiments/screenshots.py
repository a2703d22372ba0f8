"""Pictures of a run's report, as a browser shows it: docs/report-400.png and docs/report-1600.png.

narrows train dsprites --config examples/demo.toml --steps 1500 --width 8 --out runs/report
python experiments/screenshots.py runs/report

The narrow one is dark and shows the top of the page, the wide one is light and shows all of it.
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


def main(report: Path) -> None:
    """Write both pictures."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is on the PATH; `make browser` may install one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        narrow = browser.new_page(viewport={"width": 400, "height": 1800}, color_scheme="dark", device_scale_factor=1.5)
        _open(narrow, report)
        _write(narrow.screenshot(), DOCS / "report-400.png")
        wide = browser.new_page(viewport={"width": 1600, "height": 1000}, color_scheme="light")
        _open(wide, report)
        _write(wide.screenshot(full_page=True), DOCS / "report-1600.png")
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
    main(Path(sys.argv[1]) / "report.html")
