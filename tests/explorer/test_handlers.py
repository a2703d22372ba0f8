"""What the page receives, against what the model does."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from narrows._util.errors import NarrowsError
from narrows.explorer import handlers, page
from narrows.explorer.inputs import MOST_UPLOADS, Gone, Inputs
from narrows.explorer.models import Explorer


def pixels(source: str) -> np.ndarray:
    head, _, content = source.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("L"))


def test_sliders_span_the_middle_of_the_codes(explorer):
    answer = handlers.model(explorer, {"model": 0})
    codes = explorer.model(0).encode(explorer.inputs.held).numpy()
    for j, slider in enumerate(answer["sliders"]):
        assert slider["low"] == pytest.approx(np.percentile(codes[:, j], 0.5))
        assert slider["high"] == pytest.approx(np.percentile(codes[:, j], 99.5))
        assert slider["low"] < slider["start"] < slider["high"]
    assert answer["tau"] == 5.0
    assert answer["checked"] == 40


def test_an_input_is_shown_as_it_is_and_its_code_decodes_to_its_reconstruction(explorer):
    seen = handlers.input_(explorer, {"model": 0, "input": "test-3"})
    shown = pixels(seen["picture"])
    stored = (255 * explorer.inputs.held[3, 0]).round().numpy()
    np.testing.assert_array_equal(shown[::4, ::4], stored)  # 16 pixels are shown as 64
    decoded = handlers.decode(explorer, {"model": 0, "code": seen["code"], "input": "test-3"})
    assert decoded["error"] == pytest.approx(seen["error"])
    with torch.no_grad():
        again = explorer.model(0).trained.model.reconstruct(explorer.inputs.held[3:4])
    np.testing.assert_array_equal(pixels(decoded["picture"])[::4, ::4], (255 * again[0, 0]).round().numpy())
    assert seen["error"] == pytest.approx(float((again - explorer.inputs.held[3:4]).square().sum()), rel=1e-5)


def test_a_dimension_that_is_off_is_decoded_as_zero(explorer):
    ask = {"model": 0, "input": "test-0"}
    off = handlers.decode(explorer, {**ask, "code": [1.0, 2.0, -1.0], "off": [1]})
    zero = handlers.decode(explorer, {**ask, "code": [1.0, 0.0, -1.0]})
    on = handlers.decode(explorer, {**ask, "code": [1.0, 2.0, -1.0]})
    assert off == zero
    assert off["picture"] != on["picture"]
    assert off["difference"] != on["difference"]


def test_the_mean_error_is_that_of_drawn_codes(explorer):
    chosen, x = explorer.model(0), explorer.inputs.held
    with torch.no_grad():
        posterior = chosen.trained.model.encode(x)
        noise = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(0))
        z = posterior.draw(noise)
        z[:, [0, 2]] = 0
        expected = (chosen.trained.model.decode(z) - x).square().flatten(1).sum(1).mean().item()
    assert handlers.check(explorer, {"model": 0, "off": [2, 0]})["mean"] == pytest.approx(expected, rel=1e-5)
    assert handlers.check(explorer, {"model": 0})["mean"] == handlers.model(explorer, {"model": 0})["mean"]


def test_the_way_between_two_inputs_begins_and_ends_at_their_reconstructions(explorer):
    strip = pixels(handlers.between(explorer, {"model": 0, "inputs": ["test-1", "test-2"]})["strip"])
    for name, cell in (("test-1", strip[:, :64]), ("test-2", strip[:, -64:])):
        code = handlers.input_(explorer, {"model": 0, "input": name})["code"]
        decoded = pixels(handlers.decode(explorer, {"model": 0, "code": code})["picture"]).astype(int)
        assert np.abs(decoded - cell).max() <= 1  # a batch of nine may round otherwise


def test_vectors_are_numbers_and_tables_have_their_columns_on_the_page(make_explorer):
    explorer = make_explorer((4,), columns=["a", "<script>", "c", "d"])
    assert handlers.input_(explorer, {"model": 0, "input": "test-0"})["values"] == explorer.inputs.held[0].tolist()
    decoded = handlers.decode(explorer, {"model": 0, "code": [0, 0, 0], "input": "test-0"})
    assert set(decoded) == {"values", "error"}
    assert len(decoded["values"]) == 4
    with pytest.raises(NarrowsError, match="trained on vectors"):
        handlers.between(explorer, {"model": 0, "inputs": ["test-0", "test-1"]})
    html = page.html(explorer)
    assert "&lt;script&gt;" in html
    assert html.count("<script") == 2  # the facts and ours
    assert 'id="columns"' in html
    assert "Upload" not in html


def facts(explorer: Explorer) -> dict:
    content = page.html(explorer).split('id="facts">')[1].split("</script>")[0]
    return json.loads(content)


def test_a_columns_last_place_is_the_thousandth_part_of_its_spread(make_explorer):
    explorer = make_explorer((4,), held=101, columns=["large", "small", "flat", "huge"])
    steps = torch.linspace(0, 1, 101, dtype=torch.float64)
    columns = [1e6 + 4000 * steps, 1e-7 * steps, torch.full_like(steps, 7.0), 2e9 * steps]
    explorer.inputs.held = torch.stack(columns, 1)
    assert facts(explorer)["places"] == [0, -11, None, 6]
    explorer.model(0).trained.about["units"] = {"shift": [0] * 4, "unit": [1.0, 1.0, 0.25, 1.0]}
    assert facts(explorer)["places"] == [0, -11, -4, 6]
    explorer.inputs.held = torch.empty(0, 4)
    assert facts(explorer)["places"] == [-3, -3, -4, -3]


def test_a_model_without_dimensions_or_inputs_still_has_a_page(make_explorer):
    explorer = make_explorer(n=0, held=0)
    assert handlers.model(explorer, {"model": 0})["sliders"] == []
    assert handlers.check(explorer, {"model": 0})["mean"] is None
    assert "picture" in handlers.decode(explorer, {"model": 0, "code": []})
    assert "data-choose" not in page.html(explorer)


@pytest.mark.parametrize(
    ("name", "question", "message"),
    [
        ("model", {}, "unknown model 'None'"),
        ("model", {"model": 1}, "unknown model '1'"),
        ("model", {"model": True}, "unknown model 'True'"),
        ("model", {"model": -1}, "unknown model '-1'"),
        ("input", {"model": 0, "input": "test-40"}, "unknown input 'test-40'"),
        ("input", {"model": 0, "input": "test--1"}, "unknown input"),
        ("input", {"model": 0, "input": "../model"}, "unknown input"),
        ("input", {"model": 0, "input": ["test-0"]}, "unknown input"),
        ("input", {"model": 0, "input": "upload-1"}, "unknown input"),
        ("decode", {"model": 0, "code": [1.0]}, "has 3 numbers"),
        ("decode", {"model": 0, "code": "abc"}, "has 3 numbers"),
        ("decode", {"model": 0, "code": [0, 0, json.loads("NaN")]}, "codes are numbers"),
        ("decode", {"model": 0, "code": [0, 0, 1e300]}, "codes are numbers"),
        ("decode", {"model": 0, "code": [0, 0, "1"]}, "codes are numbers"),
        ("decode", {"model": 0, "code": [0, 0, 0], "off": [3]}, "numbers below 3"),
        ("check", {"model": 0, "off": [-1]}, "numbers below 3"),
        ("check", {"model": 0, "off": 0}, "numbers below 3"),
        ("between", {"model": 0, "inputs": ["test-0"]}, "needs two inputs"),
        ("between", {"model": 0}, "needs two inputs"),
    ],
)
def test_a_bad_request_is_an_error_in_one_sentence(explorer, name, question, message):
    with pytest.raises(NarrowsError, match=message):
        handlers.HANDLERS[name](explorer, question)


def test_only_the_last_uploads_are_kept():
    inputs = Inputs(torch.zeros(1, 1, 2, 2))
    names = [inputs.add(torch.full((1, 1, 2, 2), float(i))) for i in range(MOST_UPLOADS + 1)]
    assert len(set(names)) == len(names)
    assert float(inputs.get(names[-1]).mean()) == MOST_UPLOADS
    assert float(inputs.get(names[1]).mean()) == 1
    with pytest.raises(Gone, match="this input is gone: only the 16 uploads used last are kept; choose") as caught:
        inputs.get(names[0])
    assert caught.value.name == names[0]


def test_an_upload_that_is_in_use_is_not_forgotten():
    inputs = Inputs(torch.zeros(1, 1, 2, 2))
    first = inputs.add(torch.ones(1, 1, 2, 2))
    for _ in range(3 * MOST_UPLOADS):
        inputs.add(torch.zeros(1, 1, 2, 2))
        assert float(inputs.get(first).mean()) == 1
