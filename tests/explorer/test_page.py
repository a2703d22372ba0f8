"""The explorer's page in a real browser, where its parts must agree: sliders, picture, error, way, strip and titles.

The models are untrained: the page is compared with their outputs.
"""

import io

import numpy as np
import pytest
from PIL import Image

from commands import small
from explorers import untrained, untrained_front
from narrows.cli import main
from narrows.explorer import handlers
from narrows.explorer.inputs import MOST_UPLOADS
from narrows.explorer.models import Explorer, open_explorer
from pages import Open, Page

GONE = "The {} input is gone: only the 16 uploads used last are kept. Choose another."


def choose(shown: Page, key: str, which: str, title: str) -> None:
    shown.page.locator(f"[data-choose={key}][data-which={which}]").click()
    shown.page.wait_for_function(
        "([key, title]) => document.getElementById(`${key}-title`).textContent.startsWith(title)", arg=[key, title]
    )


def upload(shown: Page, key: str) -> None:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8)).save(file, "PNG")
    chosen = {"name": f"{key}.png", "mimeType": "image/png", "buffer": file.getvalue()}
    shown.page.locator(f"#{key}-file").set_input_files(chosen)
    shown.page.wait_for_function(
        "(key) => document.getElementById(`${key}-title`).textContent.startsWith(`${key}.png`)", arg=key
    )


def wait_for_way(shown: Page) -> None:
    shown.page.wait_for_selector("#way:not([disabled])")


def check_shown(shown: Page, explorer: Explorer, code: list[float], name: str, off: tuple[int, ...] = ()) -> None:
    """Wait for the picture and the error of a code beside an input, and compare the sliders and the values."""
    asked = {"model": 0, "input": name, "code": code, "off": list(off)}
    answer = handlers.decode(explorer, asked)
    if explorer.inputs.is_image:  # two codes of an untrained model may have the same error, but not the same picture
        picture = answer["picture"]
        shown.page.wait_for_function("(src) => document.querySelector('#decoded img').src === src", arg=picture)
    error = f"{answer['error']:.4g}"
    shown.page.wait_for_function("(error) => +document.getElementById('one').textContent === +error", arg=error)
    for i, value in enumerate(code):
        assert shown.page.locator(f"#value-{i}").inner_text() == f"{value:.2f}"
    if not explorer.inputs.is_image:
        seen = [float(text) for text in shown.page.locator("#columns td:nth-child(3)").all_inner_texts()]
        np.testing.assert_allclose(seen, answer["values"], rtol=1e-3)


def code_of(explorer: Explorer, name: str) -> list[float]:
    return handlers.input_(explorer, {"model": 0, "input": name})["code"]


def strip_of(explorer: Explorer, first: str, second: str, model: int = 0, off: tuple[int, ...] = ()) -> str:
    return handlers.between(explorer, {"model": model, "inputs": [first, second], "off": list(off)})["strip"]


def wait_for_strip(shown: Page, strip: str) -> None:
    shown.page.wait_for_function("(strip) => document.getElementById('strip').src === strip", arg=strip)


@pytest.mark.parametrize("kind", ["images", "table"])
def test_the_way_and_what_is_shown_stay_together(opened: Open, kind):
    explorer = untrained() if kind == "images" else untrained((4,), columns=list("abcd"))
    shown = opened(explorer)
    choose(shown, "other", "next", "Test input 1 ")
    choose(shown, "other", "next", "Test input 2 ")
    wait_for_way(shown)
    shown.page.locator("#way").focus()
    shown.page.keyboard.press("End")
    check_shown(shown, explorer, code_of(explorer, "test-1"), "test-0")

    choose(shown, "other", "next", "Test input 3 ")  # another end: the code goes to the slider's place
    check_shown(shown, explorer, code_of(explorer, "test-2"), "test-0")
    assert shown.page.locator("#way-value").inner_text() == "100%"

    for off in ((0,), ()):  # the same ends: nothing moves
        shown.page.locator("#on-0").set_checked(not off)
        check_shown(shown, explorer, code_of(explorer, "test-2"), "test-0", off)
        if kind == "images":
            wait_for_strip(shown, strip_of(explorer, "test-0", "test-2", off=off))
        assert shown.page.locator("#way-value").inner_text() == "100%"
        assert shown.page.locator("#way").input_value() == "1"

    for press in ("Back to the input", "Next"):  # both go to the start
        shown.page.locator("#way").focus()
        shown.page.keyboard.press("End")
        assert shown.page.locator("#way-value").inner_text() == "100%"
        shown.page.get_by_role("button", name=press).first.click()
        name = "test-0" if press != "Next" else "test-1"
        check_shown(shown, explorer, code_of(explorer, name), name)
        assert shown.page.locator("#way-value").inner_text() == "0%"
        assert shown.page.locator("#way").input_value() == "0"
    assert shown.complaints == []


def test_a_tables_values_have_the_digits_that_their_spread_deserves(opened: Open, tmp_path):
    x = np.random.default_rng(0).standard_normal((300, 2)) * (1000, 1e-6) + (1_000_000, 3)
    (tmp_path / "t.csv").write_text("\n".join(["large,fine", *(f"{a!r},{b!r}" for a, b in x.tolist())]))
    words = ["--explained", "0.5", "--values", "any", "--steps", "60", "--out", str(tmp_path / "run")]
    assert main(["train", str(tmp_path / "t.csv"), *words, *small(recipe="fast", n=2)]) == 0
    explorer = open_explorer(tmp_path / "run")
    shown = opened(explorer)
    given = handlers.input_(explorer, {"model": 0, "input": "test-0"})
    made = handlers.decode(explorer, {"model": 0, "code": given["code"]})
    for column, values in ((2, given["values"]), (3, made["values"])):
        texts = shown.page.locator(f"#columns td:nth-child({column})").all_inner_texts()
        assert abs(float(texts[0]) - values[0]) <= 0.5
        assert abs(float(texts[1]) - values[1]) <= 0.5e-9
        assert max(map(len, texts)) <= len("3.000000001")
    assert shown.complaints == []


def forget_uploads(explorer: Explorer) -> None:
    """As another page does that uploads many."""
    for _ in range(MOST_UPLOADS):
        explorer.inputs.add(explorer.inputs.held[:1])


def check_reported_once(shown: Page) -> None:
    """Nothing that can be done now leaves a message or requests what is gone."""
    shown.asked.clear()
    shown.page.locator("#on-0").uncheck()
    choose(shown, "input", "next", "Test input")
    before = shown.source("decoded")
    shown.page.locator("#z-1").focus()
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.changed("decoded", before)
    assert shown.page.locator("#message").is_hidden()
    assert not any(url.endswith("/between") for url in shown.asked)
    assert all("422" in one for one in shown.complaints)  # the browser itself notes the status


def test_a_second_input_that_is_gone_is_reported_once_and_leaves(opened: Open):
    explorer = untrained()
    shown = opened(explorer)
    upload(shown, "other")
    wait_for_way(shown)
    wait_for_strip(shown, strip_of(explorer, "test-0", "upload-1"))
    forget_uploads(explorer)
    choose(shown, "input", "next", "Test input 2 ")
    assert shown.message() == GONE.format("second")
    assert shown.page.locator("#other-title").inner_text() == "No second input is chosen."
    assert shown.page.locator("#other img").is_hidden()
    assert shown.page.locator("#strip").is_hidden()
    assert shown.page.locator("#way").is_disabled()
    check_reported_once(shown)
    choose(shown, "other", "next", "Test input 1 ")
    wait_for_way(shown)
    wait_for_strip(shown, strip_of(explorer, "test-2", "test-0", off=(0,)))


def test_a_first_input_that_is_gone_is_reported_once_and_leaves(opened: Open):
    explorer = untrained()
    shown = opened(explorer)
    upload(shown, "input")
    choose(shown, "other", "next", "Test input 1 ")
    wait_for_strip(shown, strip_of(explorer, "upload-1", "test-0"))
    forget_uploads(explorer)
    before = shown.source("decoded")
    shown.page.locator("#z-0").focus()
    shown.page.keyboard.press("Shift+ArrowRight")
    assert shown.message() == GONE.format("first")
    shown.changed("decoded", before)  # the sliders still do their work
    assert shown.page.locator("#input-title").inner_text() == "No input is chosen."
    assert shown.page.locator("#input img").is_hidden()
    assert shown.page.locator("#one").inner_text() == "–"
    shown.page.wait_for_selector("#strip[hidden]", state="attached")
    assert shown.page.locator("#way").is_disabled()
    choose(shown, "input", "next", "Test input 1 ")
    wait_for_way(shown)
    assert shown.page.locator("#message").is_hidden()


def test_another_tau_has_another_strip_and_says_its_size(opened: Open):
    explorer = untrained_front(2, 1, 3)
    shown = opened(explorer)
    upload(shown, "other")
    shown.page.locator("#tau").focus()
    for model, text in enumerate(("5: 2 dimensions", "6: 1 dimension", "7: 3 dimensions")):
        wait_for_strip(shown, strip_of(explorer, "test-0", "upload-1", model))
        assert shown.page.locator("#tau-value").inner_text() == text
        assert shown.page.locator("#tau").get_attribute("aria-valuetext") == text
        if model < 2:
            shown.page.keyboard.press("ArrowRight")
    forget_uploads(explorer)
    shown.page.keyboard.press("Home")
    assert shown.message() == GONE.format("second")
    assert shown.page.locator("#tau-value").inner_text() == "5: 2 dimensions"
    shown.page.wait_for_selector("#strip[hidden]", state="attached")
    assert shown.page.locator("#way").is_disabled()
    check_reported_once(shown)
