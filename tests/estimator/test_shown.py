"""What a notebook shows of estimators and results, and the page that an estimator writes."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr
from torch import nn

import narrows
from estimator.examples import HOSTILE, SMALL, curved
from narrows import NarrowVAE, TrainConfig
from narrows.estimator.shown import InlinePage
from narrows.runs.cell import HEIGHT, WIDTH, Curve, Plot

pytestmark = pytest.mark.filterwarnings("ignore:the promise is not certified")


class Parsed(HTMLParser):
    """The elements, attributes and text of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def fitted() -> NarrowVAE:
    return NarrowVAE(4, **SMALL).fit(pd.DataFrame(curved(), columns=HOSTILE))


def test_an_unfitted_estimator_keeps_the_diagram_and_a_fitted_one_shows_its_answer(fitted):
    unfitted = NarrowVAE(4, **SMALL)
    assert "sk-estimator" in unfitted._repr_html_()
    assert "sk-estimator" in unfitted._repr_mimebundle_()["text/html"]
    shown = fitted._repr_html_()
    assert "sk-estimator" not in shown
    assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted), "text/html": shown}
    assert f"{fitted.n_components_} of 4 dimensions" in Parsed(shown).text
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert fitted._repr_mimebundle_() == {"text/plain": repr(fitted)}


def test_the_diagram_of_a_pipeline_stays_scikit_learns(fitted):
    pipeline = make_pipeline(fitted)
    assert pipeline._repr_html_().count("narrows-cell") == 0
    assert "NarrowVAE" in estimator_html_repr(pipeline)


@pytest.mark.parametrize("what", ["estimator", "result"])
def test_a_cell_has_no_elements_but_its_own(fitted, what):
    shown = Parsed((fitted if what == "estimator" else fitted.result_)._repr_html_())
    own = {
        "div",
        "style",
        "p",
        "code",
        "span",
        "dl",
        "dt",
        "dd",
        "small",
        "figure",
        "figcaption",
        "svg",
        "path",
        "line",
    }
    assert shown.tags <= own | {"text", "i"}
    assert not {name for name in shown.attributes if name.startswith("on")} | {"href", "src"} & shown.attributes
    named = [name for name in HOSTILE if name in shown.text]
    assert len(named) >= 3, "each dimension names the columns that it says most about, as typed"


def test_a_cell_says_what_the_result_says(fitted):
    text, result = Parsed(fitted._repr_html_()).text, fitted.result_
    assert f"{result.heldout.error:.4g}" in text
    assert f"at most {result.heldout.high:.4g}" in text
    assert f"τ = {fitted.tau_:.4g}" in text
    assert ("τ kept" in text) == fitted.met_
    assert "NarrowVAE(device='cpu', max_steps=30" in text


def test_a_plot_is_to_scale():
    curve = Curve("error", [(0, 4.0), (50, float("nan")), (75, 1.0), (100, 9.0)], "first")
    plot = Plot("Error", "batches", [curve], top=4.0, bound=2.0)
    assert plot.path(curve) == f"M0.0 0.0L{0.75 * WIDTH:.1f} {0.75 * HEIGHT:.1f}L{WIDTH:.1f} 0.0"
    assert plot.height(plot.bound) == HEIGHT / 2
    steps = Curve("open", [(0, 4), (100, 2)], "first", step=True)
    assert Plot("Open", "batches", [steps], top=4.0).path(steps) == f"M0.0 0.0H{WIDTH:.1f}V{HEIGHT / 2:.1f}"
    nothing = Plot("Nothing", "batches", [Curve("none", [], "first")], top=0.0)
    assert nothing.path(nothing.curves[0]) == ""


def test_outcomes_of_runs_and_fronts(tmp_path):
    config = TrainConfig(n=3, steps=4, recipe="paper", width=1, values="any", batch=8, log_every=2, device="cpu")
    x = curved(60)
    run = narrows.train(replace(config, tau=1.0), tmp_path / "<b>run", x)
    shown = Parsed(run._repr_html_())
    assert str(tmp_path / "<b>run") in shown.text
    assert {"svg"} < shown.tags
    assert "b" not in shown.tags
    front = narrows.train_front(
        narrows.TrainConfig(**{**vars(config), "recipe": "fast"}), [1.0, 2.0], tmp_path / "front", x
    )
    shown = Parsed(front._repr_html_())
    assert shown.text.count("τ not") + shown.text.count("τ kept") == 2
    run.folder.metrics.unlink()
    assert "svg" in Parsed(run._repr_html_()).tags, "without curves it shows what the result has"


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', page)


def charts(page: str) -> dict[str, dict]:
    found = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', page, re.DOTALL)
    return {name: json.loads(content) for name, content in found}


ALL = ["training", "gates", "dimensions", "reconstructions", "errors", "traversals", "samples", "settings"]


def test_the_page_has_what_a_runs_page_has(fitted, tmp_path):
    x = pd.DataFrame(curved(), columns=HOSTILE)
    path = fitted.report(tmp_path / "x.html", x)
    page = path.read_text()
    assert sections(page) == ALL
    assert sum(charts(page)["errors-chart"]["counts"]) == len(x)
    assert f"{len(x)} examples of X" in page
    assert not {"img", "b", "i"} & Parsed(page).tags
    assert sections(fitted.report()._repr_html_().replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")) == [
        name for name in ALL if name != "errors"
    ]


def test_a_page_inside_a_notebook_is_the_page(fitted):
    page = fitted.report()
    assert isinstance(page, InlinePage)
    frame = page._repr_html_()
    assert Parsed(frame).tags == {"iframe"}
    assert 'sandbox="allow-scripts"' in frame
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    assert inside.replace('<base href="about:srcdoc">', "") == page.page
    assert "path" in repr(page)


def test_errors_on_the_page_are_in_the_users_unit():
    """Powers of two change no digit, so pages in two units show the same errors."""
    x, unit = curved(60), 2.0**70
    here, there = NarrowVAE(4, **SMALL).fit(x), NarrowVAE(4, **SMALL).fit(x * unit)
    small, large = charts(here.report(X=x).page), charts(there.report(X=x * unit).page)
    assert small["errors-chart"]["counts"] == large["errors-chart"]["counts"]
    assert large["errors-chart"]["over"] == pytest.approx(small["errors-chart"]["over"] * unit**2, rel=1e-4)
    assert large["scree-chart"]["rules"][0]["at"] == pytest.approx(there.tau_, rel=1e-4)


def networks(shape: tuple[int, ...], n: int) -> tuple[nn.Module, nn.Module]:
    return nn.Linear(shape[0], 2 * n), nn.Linear(n, shape[0])


def own_error(x, y):
    return (x - y).abs().sum(1)


GAPS = np.where(np.random.default_rng(0).random((200, 5)) < 0.2, np.nan, curved())
IMAGES = np.random.default_rng(0).random((40, 16, 16, 3))
TABLE = pd.DataFrame({"a": curved()[:, 0], "b": curved()[:, 1], HOSTILE[0]: np.where(curved()[:, 2] > 0, "<u>", "v")})


@pytest.mark.parametrize(
    ("parameters", "x", "expected"),
    [
        ({"missing": "mask"}, GAPS, ALL),
        ({}, IMAGES, ALL),
        ({"categories": "auto"}, TABLE, ALL),
        ({"network": networks}, curved(), ALL),
        ({"error": own_error, "tau": 1.0}, curved(), [name for name in ALL if name != "errors"]),
        ({"recipe": "paper"}, curved().astype(np.float32), ALL),
    ],
    ids=["gaps", "images", "categories", "networks", "error", "paper"],
)
@pytest.mark.filterwarnings("ignore:.*dimensions are enough")
def test_pages_of_all_kinds_of_estimators(parameters, x, expected):
    model = NarrowVAE(3, **{**SMALL, **parameters}).fit(x)
    page = model.report(X=x).page
    assert sections(page) == expected
    assert "<u>" not in page
    assert Parsed(model._repr_html_()).text
