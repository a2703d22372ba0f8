"""Traversals decode what they say, begin where they say, and name the columns that a dimension says most about."""

import copy
import dataclasses
import shutil

import matplotlib.pyplot as plt
import numpy as np
import pytest

from narrows import NarrowsError, RunFolder, TraversalDisplay, from_array, load_model, save_model
from narrows.inference.inspect import PERCENTILES, inspect_model, traverse
from narrows.inference.trained import open_data, open_trained
from narrows.report.displays.drawing import name_of
from narrows.report.images import as_bytes, levels
from narrows.report.model_sections import telling_values
from report.displays.conftest import fit


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_images_of_an_estimator(of_pictures, pictures):
    display = TraversalDisplay.from_estimator(of_pictures, pictures)
    n = of_pictures.n_components_
    assert list(display.dimensions) == list(range(n))
    assert display.decoded.shape == (n, 9, 14, 14)
    codes = of_pictures.transform(pictures)
    assert pytest.approx(np.percentile(codes, PERCENTILES, axis=0)) == display.positions[:, [0, -1]].T
    errors = ((pictures - of_pictures.inverse_transform(codes)) ** 2).sum((1, 2))
    start = codes[np.argsort(errors, kind="stable")[150]]
    for j in range(n):
        moved = np.repeat(start[None], 9, 0)
        moved[:, j] = display.positions[j]
        assert display.decoded[j] == pytest.approx(of_pictures.inverse_transform(moved))
    assert [text.get_text().split("\n")[0] for text in display.axes_[0].get_yticklabels()] == [
        f"dimension {j + 1}" for j in range(n)
    ]
    assert "1st to the 99th percentile" in display.axes_[0].get_xlabel()


def test_every_image_is_in_its_place(of_pictures, pictures):
    display = TraversalDisplay.from_estimator(of_pictures, pictures, dimensions=[2, 0])
    sheet = np.asarray(display.image_.get_array())
    side, gap = 4 * 14, 1  # a picture of 14 x 14 is shown with 4 x 4 pixels for each of its own
    assert sheet.shape == (2 * side + gap, 9 * side + 8 * gap, 3)
    low, high = levels([pictures])
    for row, j in enumerate((0, 4, 8)):
        cell = sheet[side + gap :, j * (side + gap) : j * (side + gap) + side]
        assert (cell[2::4, 2::4, row % 3] == as_bytes(display.decoded[1, j], low, high)).all()


def test_without_examples_the_others_stay_at_their_mean(of_pictures):
    display = TraversalDisplay.from_estimator(of_pictures)
    measured = of_pictures.result_.dimensions
    middle = np.array([[one.mean for one in measured]])
    assert display.positions.mean(1) == pytest.approx(middle[0])
    assert display.decoded[:, 4] == pytest.approx(np.repeat(of_pictures.inverse_transform(middle), len(measured), 0))
    assert "deviations around its mean" in display.axes_[0].get_xlabel()


def test_images_of_a_run_are_those_of_its_report(squares):
    display = TraversalDisplay.from_run(squares)
    trained = open_trained(squares)
    result = RunFolder(squares).read_result()
    inspection = inspect_model(trained, open_data(trained), 0)
    every = traverse(trained, inspection, result)
    assert display.decoded.shape == (result.dims, 9, 28, 28)
    assert (display.decoded == np.stack([one.decoded for one in every])).all()
    assert (display.positions == np.stack([one.positions for one in every])).all()
    assert TraversalDisplay.from_run(squares, dimensions=[result.dims - 1]).decoded[0] == pytest.approx(
        every[-1].decoded
    )


def test_without_its_data_a_run_moves_around_its_mean_code_and_other_data_are_refused(squares, images, tmp_path):
    moved = RunFolder(shutil.copytree(squares, tmp_path / "moved"))
    moved.write_config({**moved.read_config(), "data": str(tmp_path / "gone.npy")})
    assert not TraversalDisplay.from_run(moved).measured
    assert TraversalDisplay.from_run(moved, data=from_array(np.load(images), name="squares")).measured
    with pytest.raises(NarrowsError, match=r"is not what .* was trained on"):
        TraversalDisplay.from_run(moved, data=from_array(np.load(images)[:200]))


def test_the_columns_of_a_frame_are_those_that_a_dimension_says_most_about(of_frame, frame):
    display = TraversalDisplay.from_estimator(of_frame, frame)
    assert len(display.axes_) == of_frame.n_components_
    for j, (axes, lines) in enumerate(zip(display.axes_, display.lines_, strict=True)):
        most = np.argsort(-of_frame.feature_cost_[:, j], kind="stable")[:5]
        assert legend(axes) == list(frame.columns[most])
        for line, c in zip(lines, most, strict=True):
            assert list(line.get_xdata()) == pytest.approx(display.positions[j])
            assert line.get_ydata() == pytest.approx(display.decoded[j, :, c] - display.decoded[j, 4, c])
        assert axes.get_title() == f"Dimension {j + 1}"
    display.figure_.canvas.draw()  # names with dollar signs are no formulas


def test_a_category_is_shown_by_the_level_that_moves_most(of_mixed, mixed):
    display = TraversalDisplay.from_estimator(of_mixed, mixed)
    assert display.columns == ["height", "width", "mass", "kind=ash", "kind=elm", "kind=oak"]
    for j, axes in enumerate(display.axes_):
        moved = np.ptp(display.decoded[j], axis=0)
        level = display.columns[3 + int(np.argmax(moved[3:]))]
        assert sorted(legend(axes)) == sorted(["height", "width", "mass", level])
        order = [
            ("height", "kind", "width", "mass")[c] for c in np.argsort(-of_mixed.feature_cost_[:, j], kind="stable")
        ]
        assert [name.partition("=")[0] for name in legend(axes)] == order


def test_a_table_of_a_run(table):
    display = TraversalDisplay.from_run(table)
    result = RunFolder(table).read_result()
    names = ["height", "<script>alert(1)</script>", "income & more", '"quoted"']
    assert display.columns == names
    for j, axes in enumerate(display.axes_):
        costs = [costs[j] for costs in result.feature_costs]
        most = [names[c] for c in np.argsort(-np.array(costs), kind="stable")]
        assert legend(axes) == list(map(name_of, most))


def test_costs_that_fit_no_columns_are_not_used(table):
    trained = open_trained(table)
    one = traverse(trained, None, None)[0]
    result = RunFolder(table).read_result()
    short = dataclasses.replace(result, feature_costs=result.feature_costs[:2], columns=[])
    assert telling_values(one, 1.0, trained.table, short) == telling_values(one, 1.0, trained.table, None)
    assert telling_values(one, 1.0, (), result) != []


def test_values_without_names_are_profiles_and_can_be_shown_as_images(pictures):
    rows = pictures.reshape(300, -1)
    model = fit(rows, n_components=2)
    display = TraversalDisplay.from_estimator(model, rows)
    assert [len(lines) for lines in display.lines_] == [3] * model.n_components_
    assert display.lines_[0][2].get_ydata() == pytest.approx(display.decoded[0, -1])
    shown = TraversalDisplay.from_estimator(model, rows, image_shape=(14, 14))
    assert shown.decoded.reshape(display.decoded.shape) == pytest.approx(display.decoded)
    assert shown.image_ in shown.axes_[0].images


def test_colours_and_channels_come_last(pictures):
    colours = np.stack([pictures, pictures / 2, 7 - pictures], -1)
    for x in (colours, np.moveaxis(colours, -1, 1), pictures[..., None]):
        model = fit(x, n_components=2)
        display = TraversalDisplay.from_estimator(model, x[:50])
        assert display.decoded.shape[2:] == ((14, 14) if x.shape[-1] == 1 else (14, 14, 3))


def test_axes_are_one_for_images_and_one_per_dimension_for_tables(of_pictures, of_frame):
    figure, axes = plt.subplots(1, 3)
    images = TraversalDisplay.from_estimator(of_pictures, ax=axes[1])
    assert images.axes_ == [axes[1]]
    charts = TraversalDisplay.from_estimator(of_frame, ax=axes[: of_frame.n_components_])
    assert charts.axes_ == list(axes[: of_frame.n_components_])
    assert charts.figure_ is figure


def test_a_model_without_dimensions_is_one_line(of_pictures, squares, tmp_path):
    none = copy.copy(of_pictures)
    none.model_ = of_pictures.model_.narrow([])
    with pytest.raises(NarrowsError, match="the model has 0 dimensions, so nothing can move"):
        TraversalDisplay.from_estimator(none)
    run = RunFolder(shutil.copytree(squares, tmp_path / "none"))
    run.result.unlink()
    save_model(load_model(run.model).narrow([]), run.model, {"error": "squared"})
    with pytest.raises(NarrowsError, match="the model has 0 dimensions, so nothing can move"):
        TraversalDisplay.from_run(run)
