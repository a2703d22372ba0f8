"""Codes are where `transform` puts them, and have the colours of their labels."""

import copy

import numpy as np
import pandas as pd
import pytest

from narrows import CodesDisplay, NarrowsError, from_array
from narrows.data import split
from narrows.inference.inspect import inspect_model
from narrows.inference.trained import open_data, open_trained


def places(display):
    return np.concatenate([np.asarray(points.get_offsets()) for points in display.scatters_])


def legend(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def test_codes_without_labels(of_pictures, pictures):
    display = CodesDisplay.from_estimator(of_pictures, pictures, dimensions=(2, 0))
    assert (places(display) == of_pictures.transform(pictures)[:, [2, 0]]).all()
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("dimension 3", "dimension 1")
    assert display.legend_ is display.colorbar_ is display.levels is None


@pytest.mark.parametrize(
    ("y", "levels"),
    [
        (np.arange(300) % 3, ["0", "1", "2"]),
        (np.array(["b", "a"])[np.arange(300) % 2], ["a", "b"]),
        (np.arange(300) % 2 == 0, ["False", "True"]),
        (np.array([None, "$a$", "_b"], object)[np.arange(300) % 3], ["$a$", "_b", "missing"]),
        (np.arange(300) % 15, [str(i) for i in range(15)]),
    ],
    ids=["whole", "texts", "flags", "missing", "many"],
)
def test_categories_have_a_colour_and_a_name_each(of_pictures, pictures, y, levels):
    display = CodesDisplay.from_estimator(of_pictures, pictures, y)
    assert sorted(legend(display)) == sorted(levels)
    assert len({tuple(points.get_facecolor()[0]) for points in display.scatters_}) == len(levels)
    codes = of_pictures.transform(pictures)[:, :2]
    for points, level in zip(display.scatters_, display.levels, strict=True):
        own = np.array([("missing" if one is None else str(one)) == level for one in y.tolist()])
        assert (np.asarray(points.get_offsets()) == codes[own]).all()
    assert display.colorbar_ is None
    display.figure_.canvas.draw()


@pytest.mark.parametrize("y", [np.linspace(0, 1, 300), np.arange(300), (np.arange(300) % 3).astype(float)])
def test_amounts_have_a_colour_bar(of_pictures, pictures, y):
    display = CodesDisplay.from_estimator(of_pictures, pictures, y)
    assert list(display.scatters_[0].get_array()) == list(y)
    assert display.colorbar_.mappable is display.scatters_[0]
    assert display.levels is None


@pytest.mark.parametrize("kind", ["string", "boolean", "category"])
def test_labels_of_pandas_may_be_missing(of_pictures, pictures, kind):
    y = pd.Series(np.arange(300) % 2 == 0).astype(str if kind == "string" else object).astype(kind)
    y = y.mask(np.arange(300) < 10)
    assert sorted(legend(CodesDisplay.from_estimator(of_pictures, pictures, y))) == ["False", "True", "missing"]


def test_a_missing_amount_is_a_grey_point(of_pictures, pictures):
    y = np.linspace(0, 1, 300)
    y[:7] = np.nan
    display = CodesDisplay.from_estimator(of_pictures, pictures, y)
    assert [len(points.get_offsets()) for points in display.scatters_] == [293, 7]


def test_a_column_of_a_frame_names_the_colours(of_frame, frame):
    display = CodesDisplay.from_estimator(of_frame, frame, frame["price in $"], alpha=0.5)
    assert display.colorbar_.ax.get_ylabel() == "price in $"
    assert display.scatters_[0].get_alpha() == 0.5
    kinds = np.array(["low", "high"])[(frame["age"] > 0).to_numpy().astype(int)]
    display = CodesDisplay.from_estimator(of_frame, frame, frame["age"].__class__(kinds, name="how old"))
    assert display.legend_.get_title().get_text() == "how old"


def test_codes_of_a_run_are_those_of_test_inputs(squares, images):
    labels = np.arange(300)
    display = CodesDisplay.from_run(squares, labels.astype(float))
    trained = open_trained(squares)
    data = open_data(trained)
    inspection = inspect_model(trained, data, 0)
    assert (places(display) == inspection.codes[:, :2]).all()
    assert list(inspection.index) == list(split(data, 0).test)
    assert list(display.scatters_[0].get_array()) == list(inspection.index)
    x = data.examples.batch(inspection.index)
    assert inspection.codes == pytest.approx(trained.model.encode(x).mean.detach().numpy(), abs=1e-5)
    given = from_array(np.load(images), name="squares")
    assert (CodesDisplay.from_run(squares, data=given).codes == display.codes).all()


def test_a_column_of_a_runs_table_can_be_the_label(table):
    data = open_data(open_trained(table))
    display = CodesDisplay.from_run(table, "income & more")
    income = data.exact.batch(split(data, 0).test)[:, 2]
    assert list(display.y) == pytest.approx(income.tolist())
    assert display.colorbar_.ax.get_ylabel() == "income & more"
    with pytest.raises(NarrowsError, match=r"factor or column of .*; it has height, .* and not 'heigt'; did you mean"):
        CodesDisplay.from_run(table, "heigt")


def test_bad_labels_are_one_line(of_pictures, pictures, squares):
    with pytest.raises(NarrowsError, match=r"y must have one label per example of X, 300; its shape is \(299,\)"):
        CodesDisplay.from_estimator(of_pictures, pictures, np.arange(299))
    with pytest.raises(
        NarrowsError, match=r"y must have one label per example of squares.*, 300; its shape is \(30,\)"
    ):
        CodesDisplay.from_run(squares, np.arange(30))
    with pytest.raises(NarrowsError, match="y has 300 different labels, and at most 20"):
        CodesDisplay.from_estimator(of_pictures, pictures, [f"name {i}" for i in range(300)])
    with pytest.raises(NarrowsError, match=r"factor or column of squares.*; it has none, and not 'shape'"):
        CodesDisplay.from_run(squares, "shape")


def test_one_dimension_is_not_enough(of_pictures, pictures):
    one = copy.copy(of_pictures)
    one.model_ = of_pictures.model_.narrow([0])
    with pytest.raises(NarrowsError, match="codes are drawn in two dimensions, and the model has 1"):
        CodesDisplay.from_estimator(one, pictures)
