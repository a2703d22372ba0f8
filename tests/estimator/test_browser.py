"""Cells and pages in a real browser: hostile names only show, dark is dark, and nothing is fetched."""

from pathlib import Path

import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from estimator.examples import HOSTILE, SMALL, curved
from narrows import NarrowVAE
from pages import Watched

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")
CELL = ".narrows-cell .heading"
INK = f"getComputedStyle(document.querySelector('{CELL}')).color"
LIGHT, DARK = "rgb(26, 31, 36)", "rgb(232, 235, 237)"


@pytest.fixture(scope="module")
def fitted() -> NarrowVAE:
    return NarrowVAE(4, **SMALL).fit(pd.DataFrame(curved(), columns=HOSTILE))


@pytest.fixture
def notebook(browser, tmp_path):
    """Open a page with cells in it, as a notebook has; at the end, check that nothing was run, fetched or said."""
    opened = []

    def open_cells(*cells: str, scheme: str = "light", ready: str = CELL, body: str = "") -> Watched:
        path = Path(tmp_path / f"{len(opened)}.html")
        path.write_text(f"<!doctype html><meta charset=utf-8><body {body}>{''.join(cells)}")
        opened.append(Watched(browser, path.as_uri(), 900, scheme, ready))
        opened[-1].page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        return opened[-1]

    yield open_cells
    for one in opened:
        assert [said for said in one.complaints if "copy-paste icon" not in said] == []  # scikit-learn's own diagram
        assert [url for url in one.asked if not url.startswith(("data:", "file:", "about:"))] == []
        one.context.close()


def test_hostile_names_only_show(fitted, notebook):
    page = notebook(fitted._repr_html_(), fitted.result_._repr_html_()).page
    shown = page.locator(".narrows-cell").first.inner_text()
    assert sum(name in shown for name in HOSTILE) >= 3
    assert page.locator("img, b, script, i:not(.key i)").count() == 0
    assert page.locator("svg path.curve").count() == 4
    assert page.locator("svg").first.bounding_box()["height"] > 80


def test_a_pipeline_with_hostile_names_shows_scikit_learns_diagram(fitted, notebook):
    page = notebook(make_pipeline(fitted)._repr_html_(), ready=".sk-estimator").page
    assert page.locator("img, [onclick*=alert], [onerror]").count() == 0
    assert page.locator(".narrows-cell").count() == 0


@pytest.mark.parametrize(
    ("scheme", "body", "ink"),
    [
        ("light", "", LIGHT),
        ("dark", "", DARK),
        ("light", 'data-jp-theme-light="false"', DARK),
        ("dark", 'data-jp-theme-light="true"', LIGHT),
        ("light", 'class="vscode-dark"', DARK),
        ("dark", 'class="vscode-light"', LIGHT),
    ],
)
def test_a_cell_follows_the_notebooks_theme_and_then_the_browsers(fitted, notebook, scheme, body, ink):
    page = notebook(fitted._repr_html_(), "<p id=other>x</p>", scheme=scheme, body=body).page
    assert page.evaluate(INK) == ink
    other = "getComputedStyle(document.querySelector('#other'))"
    assert page.evaluate(f"{other}.fontSize") == "16px", "the style of a cell stays in it"


def test_a_page_inside_a_notebook_draws_its_charts(fitted, notebook):
    inline = fitted.report(X=pd.DataFrame(curved(), columns=HOSTILE))
    page = notebook(inline._repr_html_(), ready="iframe").page
    frame = page.frame_locator("iframe")
    frame.locator("html.drawn").wait_for()
    assert frame.locator("svg path.line").count() >= 6
    assert frame.locator("img, b").count() == 0
    assert HOSTILE[0] in frame.locator("#reconstructions").inner_text()
    frame.locator("nav a", has_text="Settings").click()
    frame.locator("html.drawn #settings:target").wait_for()
