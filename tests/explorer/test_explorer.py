"""`narrows explore` as users see it: the command, bad input, and the page in a real browser.

The browser is found as for the reports (test_browser.py); without one those tests are skipped, and say so.
"""

import io
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image

from commands import command, small
from narrows.cli import main
from narrows.explorer.models import open_explorer
from narrows.report import text


@pytest.fixture(scope="module")
def run_folder(images, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("explorer") / "squares"
    words = ["--tau", "30", "--steps", "400", "--out", str(out)]
    assert main(["train", str(images), *words, *small(recipe="fast", n=4, width=8, log_every=20)]) == 0
    return out


@pytest.fixture(scope="module")
def front_folder(images, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("explorer") / "front"
    words = ["--taus", "40,200", "--steps", "150", "--out", str(out)]
    assert main(["front", str(images), *words, *small(recipe="fast", n=4, log_every=20)]) == 0
    return out


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])
def test_moving_a_slider_changes_the_image(opened, run_folder, width, scheme):
    shown = opened(run_folder, width, scheme)
    assert shown.page.evaluate("document.documentElement.scrollWidth") == width
    assert shown.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    before, value = shown.source("decoded"), shown.page.locator("#value-0").inner_text()
    shown.page.locator("#z-0").focus()
    for _ in range(10):
        shown.page.keyboard.press("ArrowRight")
    shown.changed("decoded", before)
    assert float(shown.page.locator("#value-0").inner_text()) > float(value)
    shown.page.get_by_role("button", name="Back to the input").click()
    shown.page.wait_for_function("(before) => document.querySelector('#decoded img').src === before", arg=before)
    assert shown.complaints == []


def test_everything_has_a_name_and_can_be_reached_by_keyboard(opened, run_folder):
    shown = opened(run_folder)
    name = "(e) => e.ariaLabel || e.labels?.[0]?.innerText || e.innerText"
    names = f"Array.from(document.querySelectorAll('input, button'), {name})"
    assert all(name.strip() for name in shown.page.evaluate(names))
    assert all(shown.page.evaluate("Array.from(document.images, (i) => i.alt)"))
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.innerText") == "Previous"
    assert shown.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_switching_a_dimension_off_raises_the_error(opened, run_folder):
    shown = opened(run_folder)
    before, mean = shown.source("decoded"), shown.number("many")
    shown.page.locator("#on-0").uncheck()
    shown.changed("decoded", before)
    shown.page.wait_for_function("() => document.getElementById('many-note').textContent.includes('with all')")
    assert shown.number("many") > mean
    assert shown.page.locator("#z-0").is_disabled()
    shown.page.get_by_role("button", name="Switch all on").click()
    shown.page.wait_for_function("() => document.getElementById('many-note').textContent.includes('all dimensions on')")
    assert shown.number("many") == mean
    assert shown.complaints == []


def test_an_uploaded_image_appears_with_its_reconstruction(opened, run_folder):
    shown = opened(run_folder)
    picture = np.zeros((56, 80, 3), np.uint8)
    picture[10:40, 30:60] = 255
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG")
    decoded, given = shown.source("decoded"), shown.source("input")
    chosen = {"name": "square.jpg", "mimeType": "image/jpeg", "buffer": file.getvalue()}
    shown.page.locator("#input-file").set_input_files(chosen)
    shown.changed("input", given)
    shown.changed("decoded", decoded)
    assert shown.page.locator("#input-title").inner_text() == (
        "square.jpg: 80 x 56 pixels; scaled to 28 x 28 and cropped to the centre; converted from colour to grey"
    )
    assert shown.number("one") > 0
    assert shown.complaints == []


def test_a_bad_file_gets_a_message_and_the_page_goes_on(opened, run_folder):
    shown = opened(run_folder)
    given = shown.source("input")
    bad = {"name": "notes.png", "mimeType": "image/png", "buffer": b"no picture at all"}
    shown.page.locator("#input-file").set_input_files(bad)
    assert "it is not one of PNG, JPEG, WEBP" in shown.message()
    assert shown.source("input") == given
    assert all("422" in one for one in shown.complaints)  # the browser itself notes the status
    shown.page.locator("[data-choose=input][data-which=next]").click()
    shown.changed("input", given)
    assert shown.page.locator("#message").is_hidden()
    assert shown.page.locator("#input-title").inner_text() == "Test input 2 of 30"


def test_a_file_that_is_too_large_gets_a_message(opened, run_folder, tmp_path):
    shown = opened(run_folder)
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(20_000_001)
    shown.page.locator("#input-file").set_input_files(tmp_path / "large.png")
    assert shown.message() == "large.png has 20,000,001 bytes; the limit is 20,000,000: make it smaller"
    assert shown.complaints == []


def test_the_way_from_one_input_to_another_moves_the_sliders(opened, run_folder):
    shown = opened(run_folder)
    assert shown.page.locator("#way").is_disabled()
    shown.page.locator("[data-choose=other][data-which=previous]").click()
    shown.page.wait_for_selector("#strip:not([hidden])")
    before = shown.source("decoded")
    shown.page.locator("#way").focus()
    shown.page.keyboard.press("End")
    shown.changed("decoded", before)
    assert shown.page.locator("#way-value").inner_text() == "100%"
    assert shown.complaints == []


def test_a_fronts_slider_changes_the_model(opened, front_folder):
    shown = opened(front_folder)
    count, first = shown.page.locator("#sliders li").count(), shown.page.locator("#tau-value").inner_text()
    assert first == f"40: {text.plural(count, 'dimension')}"
    before = shown.source("decoded")
    shown.page.locator("#tau").focus()
    shown.page.keyboard.press("ArrowRight")
    shown.changed("decoded", before)
    count = len(open_explorer(front_folder).model(1).ranges[0])
    assert shown.page.locator("#tau-value").inner_text() == f"200: {text.plural(count, 'dimension')}"
    assert shown.page.locator("input[id^='z-']").count() == count
    assert shown.complaints == []


@pytest.mark.parametrize("kind", ["table", "vectors"])
def test_vectors_are_shown_by_their_values(opened, tmp_path, kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 5))
    if kind == "table":
        lines = ["a,b & c,<i>d</i>,e,f", *(",".join(map(str, row)) for row in x.tolist())]
        (tmp_path / "t.csv").write_text("\n".join(lines))
    else:
        np.save(tmp_path / "t.npy", x)
    path = tmp_path / ("t.csv" if kind == "table" else "t.npy")
    words = ["--explained", "0.5", "--values", "any", "--steps", "100", "--out", str(tmp_path / "run")]
    assert main(["train", str(path), *words, *small(recipe="fast", n=3)]) == 0
    shown = opened(tmp_path / "run", 400)
    place = "#columns" if kind == "table" else "#profile"
    before = shown.page.locator(place).inner_html()
    assert before
    shown.page.locator("#z-0").focus()
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.page.wait_for_function(
        "([place, before]) => document.querySelector(place).innerHTML !== before", arg=[place, before]
    )
    if kind == "table":
        assert shown.page.locator("#columns th").all_inner_texts() == ["a", "b & c", "<i>d</i>", "e", "f"]
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 400
    assert shown.complaints == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_ends_at_a_signal(run_folder, number):
    process = subprocess.Popen(command("explore", run_folder), stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("explore squares: http://127.0.0.1:")
        with urlopen(line.split(": ", 1)[1].strip(), timeout=240) as answer:
            assert b"explorer.js" in answer.read()
        process.send_signal(number)
        assert process.wait(240) == 0
        assert process.stdout.read() == "Ctrl-C ends it\nended\n"
    finally:
        process.kill()
        process.communicate()


def test_without_its_data_a_run_still_has_sliders(opened, run_folder, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(run_folder, moved)
    config = moved / "config.json"
    config.write_text(config.read_text().replace("squares.npy", "gone.npy"))
    shown = opened(moved)
    assert "could not be read" in shown.page.locator("header").inner_text()
    before = shown.source("decoded")
    shown.page.locator("#z-0").focus()
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.changed("decoded", before)
    assert shown.page.get_by_role("button", name="Next").count() == 0


def test_a_model_file_has_sliders_for_the_prior(run_folder):
    explorer = open_explorer(run_folder / "model.safetensors")
    assert explorer.name == "model.safetensors"
    assert "the run's folder does" in explorer.inputs.missing
    low, high, start = explorer.model(0).ranges
    assert (low < -2).all()
    assert (high > 2).all()
    assert (start == 0).all()


def test_bad_input_gets_one_line_and_code_2(run_folder, tmp_path, capsys):
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(run_folder / "config.json", unfinished)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, message in (
            ([tmp_path / "none"], "none is not a run folder: it does not exist; check the path"),
            ([unfinished], f"unfinished has no model yet; continue it with `narrows resume {unfinished}`"),
            ([run_folder, "--port", port], f"--port {port} is in use; choose another, or leave it out for a free one"),
            ([run_folder, "--port", 99999], "--port must be 0 (any free port) to 65535; it is 99999"),
            ([run_folder, "--port", -1], "--port must be 0 (any free port) to 65535; it is -1"),
            ([run_folder, "--port", 80.5], "--port must be a whole number; it is 80.5"),
        ):
            assert main(["explore", *map(str, words)]) == 2
            captured = capsys.readouterr()
            assert captured.err.count("\n") == 1
            assert message in captured.err
            assert captured.out == ""
