"""Reports in a real browser: nothing is fetched, nothing goes wrong, and charts answer to mouse and keyboard.

The browser is Debian's chromium, or whatever of its kind is on the PATH; `make browser` installs it where it can. Where
there is none these tests are skipped, and say so.
"""

import re
import shutil
from pathlib import Path

import pytest

from commands import small
from narrows.cli import main
from narrows.report.live import page as live_page
from narrows.report.live.listeners import Budget, Following
from narrows.runs.folder import RunFolder
from narrows.training.config import TrainConfig
from narrows.training.listeners import RunStart
from pages import WAIT, Watched

NEVER = 1e6
"""Seconds until a page reloads itself that must not do so while the test looks at it."""
LINE = "getComputedStyle(document.querySelector('svg path.line')).stroke"
sync_api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def runs(images, tmp_path_factory) -> list[Path]:
    """Two runs on the same images."""
    folder = tmp_path_factory.mktemp("browser")
    made = [folder / "one", folder / "two"]
    for seed, out in enumerate(made):
        words = ["--tau", "60", "--steps", "100", "--seed", str(seed), "--out", str(out)]
        assert main(["train", str(images), *words, *small(recipe="fast", n=6, log_every=5)]) == 0
    return made


class TrainingRun:
    """A copy of a run that seems to be training: it gets its rows one after the other."""

    def __init__(self, like: Path, path: Path, rows: int) -> None:
        self.folder = RunFolder(shutil.copytree(like, path))
        self.header, *self.rows = self.folder.metrics.read_text().splitlines(keepends=True)
        self.result = self.folder.result.read_text()
        self.folder.result.unlink()
        self.listener = Following(live_page.LivePage(), Budget(0.0))
        self.grow(rows)

    def grow(self, rows: int) -> None:
        self.folder.metrics.write_text(self.header + "".join(self.rows[:rows]))
        self.listener.begin(RunStart(TrainConfig(), self.folder, [], 0))

    def end(self) -> None:
        self.folder.result.write_text(self.result)
        self.listener.end()


class Opened(Watched):
    """A report."""

    def __init__(self, browser: "sync_api.Browser", path: Path, width: int = 1600, scheme: str = "light") -> None:
        super().__init__(browser, path.resolve().as_uri(), width, scheme, "html.drawn")

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *exception: object) -> None:
        self.context.close()

    def chart(self, number: int = 0) -> "sync_api.Locator":
        chart = self.page.locator("figure.chart .plot > svg").nth(number)
        chart.evaluate("chart => chart.scrollIntoView({block: 'nearest', behavior: 'instant'})")
        return chart

    def view(self, number: int = 0) -> tuple[float, float]:
        """The part of the x axis that a chart shows."""
        chart = self.chart(number)
        return float(chart.get_attribute("data-from")), float(chart.get_attribute("data-to"))

    def reload_by_itself(self, heading: str) -> None:
        """Let the page's own clock run out, and wait for a heading of what is in the file now."""
        with self.page.expect_event("load"):
            self.page.evaluate("document.documentElement.dataset.refresh = 0")
        self.page.get_by_role("heading", name=heading).wait_for()
        self.page.wait_for_selector("html.drawn")


@pytest.mark.parametrize("width", [400, 1600])
def test_a_report_opens_without_a_complaint_a_request_or_a_scroll_bar(browser, runs, width):
    path = runs[0] / "report.html"
    with Opened(browser, path, width) as opened:
        assert opened.complaints == []
        assert [url for url in opened.asked if not url.startswith("data:")] == [path.resolve().as_uri()]
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        for number in range(4):
            assert opened.chart(number).locator("path.line").count() >= 1
            assert opened.chart(number).bounding_box()["height"] > 100
        assert opened.page.locator("svg .gate").count() >= 6
        assert opened.page.locator("svg rect.bar").count() >= 10
        loaded = "Array.from(document.images, (i) => i.complete && i.naturalWidth > 0 && i.clientWidth > 100)"
        shown = opened.page.evaluate(loaded)
        assert len(shown) >= 5
        assert all(shown)


def test_hovering_shows_values(browser, runs):
    with Opened(browser, runs[0] / "report.html") as opened:
        chart = opened.chart()
        box = chart.bounding_box()
        tip = opened.page.locator(".tip").first
        expect(tip).to_be_hidden()
        opened.page.mouse.move(box["x"] + box["width"] - 15, box["y"] + box["height"] / 2)
        expect(tip).to_be_visible()
        step, error = (runs[0] / "metrics.csv").read_text().splitlines()[-1].split(",")[:2]
        shown = re.fullmatch(r"batch\s+(\S+)\s+training error\s+(\S+)\s+held-out error.*", tip.inner_text(), re.DOTALL)
        assert shown[1] == step
        assert float(shown[2]) == pytest.approx(float(error), rel=1e-3)
        opened.page.mouse.move(5, 5)
        expect(tip).to_be_hidden()


def test_dragging_zooms_all_four_and_a_double_click_shows_all(browser, runs):
    with Opened(browser, runs[0] / "report.html") as opened:
        assert opened.view() == (0, 100)
        box = opened.chart().bounding_box()
        middle = box["y"] + box["height"] / 2
        opened.page.mouse.move(box["x"] + 0.3 * box["width"], middle)
        opened.page.mouse.down()
        opened.page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
        opened.page.mouse.up()
        low, high = opened.view()
        assert 10 < low < 40 < high < 70
        assert low <= float(opened.page.locator(".tip b").first.inner_text()) <= high
        assert opened.view(3) == (low, high)
        opened.page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
        assert opened.view() == opened.view(3) == (0, 100)


def test_the_keyboard_reads_zooms_and_goes_back(browser, runs):
    with Opened(browser, runs[0] / "report.html") as opened:
        chart, tip = opened.chart(), opened.page.locator(".tip").first
        chart.focus()
        chart.press("ArrowRight")
        first = tip.inner_text()
        chart.press("ArrowRight")
        expect(tip).to_be_visible()
        expect(tip).not_to_have_text(first)
        chart.press("+")
        assert opened.view()[1] < 100
        button = opened.page.locator("button.reset").first
        expect(button).to_be_visible()
        chart.press("Escape")
        expect(button).to_be_hidden()
        assert opened.view() == (0, 100)


def test_dark_is_dark_and_paper_is_white(browser, runs):
    def background(opened: Opened) -> str:
        return opened.page.evaluate("getComputedStyle(document.body).backgroundColor")

    path = runs[0] / "report.html"
    with Opened(browser, path) as light, Opened(browser, path, scheme="dark") as dark:
        assert background(light) == "rgb(255, 255, 255)"
        assert background(dark) == "rgb(19, 23, 26)"
        assert light.page.evaluate(LINE) != dark.page.evaluate(LINE)
        dark.page.emulate_media(media="print")
        assert background(dark) == "rgb(255, 255, 255)"
        assert not dark.page.locator("nav").is_visible()
        assert dark.page.pdf(format="A4").startswith(b"%PDF")


def test_two_runs_are_compared_and_lead_to_their_own_reports(browser, runs):
    out = runs[0].parent / "compare.html"
    assert main(["report", *map(str, runs), "-o", str(out)]) == 0
    with Opened(browser, out, 400) as opened:
        assert opened.complaints == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 400
        for number in range(4):
            assert opened.chart(number).locator("path.line").count() == 2
        assert opened.page.locator("img").count() == 1
        opened.page.get_by_role("link", name="two").click()
        opened.page.wait_for_selector("html.drawn")
        assert opened.page.url == (runs[1] / "report.html").resolve().as_uri()


def test_a_page_with_five_hundred_gates_is_drawn(browser, images, tmp_path):
    words = ["--tau", "60", "--steps", "4", "--out", str(tmp_path / "r"), *small(recipe="fast", n=512)]
    assert main(["train", str(images), *words]) == 0
    with Opened(browser, tmp_path / "r" / "report.html", 400) as opened:
        assert opened.complaints == []
        assert opened.page.locator("svg .gate").count() == 512
        assert opened.page.locator(".strips img").count() == 64
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 400


def test_the_page_of_a_training_run_follows_it_and_stays_where_the_reader_is(browser, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(live_page, "EVERY", NEVER)
    run = TrainingRun(runs[0], tmp_path / "run", rows=12)
    with Opened(browser, run.folder.report) as opened:
        assert opened.page.locator("h1").inner_text().startswith("Batch 60: ")
        assert opened.page.locator(".badge").inner_text() == "Training"
        assert opened.view() == (0, 60)
        opened.chart().press("+")
        view = opened.view()
        assert view == (15, 45)
        opened.page.evaluate("scrollTo({top: 300, behavior: 'instant'})")
        run.grow(16)
        opened.reload_by_itself("Batch 80: ")
        assert opened.view() == view
        opened.page.wait_for_function("scrollY === 300")
        opened.chart().press("Escape")
        run.grow(18)
        opened.reload_by_itself("Batch 90: ")
        assert opened.view() == (0, 90)

        run.end()
        opened.reload_by_itself("Batch 90: ")
        assert opened.page.locator(".badge").inner_text() == "Writing the report"
        assert main(["report", str(run.folder.path)]) == 0
        opened.reload_by_itself("What each dimension costs to remove")
        assert opened.page.evaluate("document.documentElement.dataset.refresh === undefined")
        assert "location.reload" not in opened.page.content()
        assert opened.complaints == []
        assert {url for url in opened.asked if not url.startswith("data:")} == {run.folder.report.resolve().as_uri()}


def test_a_page_that_is_left_open_reloads_again_and_again(browser, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(live_page, "EVERY", 0.01)
    run = TrainingRun(runs[0], tmp_path / "run", rows=12)
    with Opened(browser, run.folder.report) as opened:
        for _ in range(2):
            with opened.page.expect_event("load"):
                pass


def test_the_page_of_a_killed_run_says_that_there_is_no_news(browser, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(live_page, "EVERY", NEVER)
    run = TrainingRun(runs[0], tmp_path / "run", rows=12)
    page = run.folder.report.read_text()
    run.folder.report.write_text(re.sub(r'data-written="[^"]*"', 'data-written="0"', page))  # in 1970
    with Opened(browser, run.folder.report, width=400) as opened:
        opened.page.locator(".badge", has_text=re.compile(r"No news for \d+ min")).wait_for()
        assert f"narrows resume {run.folder.path}" in opened.page.locator(".silent").inner_text()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 400
        assert opened.complaints == []
