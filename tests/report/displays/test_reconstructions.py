"""Inputs stand beside their own reconstructions, and columns have their names."""

import shutil

import numpy as np
import pytest

from narrows import NarrowsError, ReconstructionDisplay, RunFolder
from narrows.inference.inspect import inspect_model
from narrows.inference.trained import open_data, open_trained
from narrows.report.images import as_bytes, differences, levels
from report.displays.conftest import fit


@pytest.mark.parametrize("which", ["best", "median", "worst"])
def test_images_of_an_estimator(of_pictures, pictures, which):
    display = ReconstructionDisplay.from_estimator(of_pictures, pictures, which=which)
    errors = ((pictures - of_pictures.inverse_transform(of_pictures.transform(pictures))) ** 2).sum((1, 2))
    order = np.argsort(errors, kind="stable")
    place = {"best": order[:6], "median": order[147:153], "worst": order[::-1][:6]}[which]
    assert (display.inputs == pictures[place]).all()
    assert display.outputs == pytest.approx(of_pictures.inverse_transform(of_pictures.transform(pictures[place])))
    assert display.errors == pytest.approx(errors[place])


def test_three_rows_of_images(of_pictures, pictures):
    display = ReconstructionDisplay.from_estimator(of_pictures, pictures[:2])
    sheet = np.asarray(display.image_.get_array())[2::57][:, 2::57]  # cells of 4 * 14 pixels and a line
    assert sheet.shape == (3, 2, 3)
    low, high = levels([display.inputs])
    full = np.abs(display.outputs - display.inputs).max()
    corner = (slice(None), 0, 0)
    assert (sheet[0, :, 0] == as_bytes(display.inputs, low, high)[corner]).all()
    assert (sheet[1, :, 0] == as_bytes(display.outputs, low, high)[corner]).all()
    assert (sheet[2] == differences(display.inputs, display.outputs, full)[corner]).all()
    axes = display.axes_[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["input", "output", "difference"]
    assert [float(text.get_text()) for text in axes.get_xticklabels()] == pytest.approx(display.errors, rel=0.01)


@pytest.mark.parametrize("which", ["best", "worst"])
def test_images_of_a_run_are_those_of_its_report(squares, which):
    display = ReconstructionDisplay.from_run(squares, which=which)
    trained = open_trained(squares)
    picked = getattr(inspect_model(trained, open_data(trained), 0), which)
    assert (display.inputs == picked.inputs).all()
    assert (display.outputs == picked.outputs).all()
    assert (display.errors == picked.errors).all()


def test_the_columns_of_a_frame(of_frame, frame):
    display = ReconstructionDisplay.from_estimator(of_frame, frame)
    assert len(display.axes_) == 3
    apart = np.abs(display.inputs[:3] - display.outputs[:3]).mean(0)
    assert list(display.places_) == list(np.argsort(-apart, kind="stable"))
    names = [text.get_text() for text in display.axes_[0].get_yticklabels()]
    assert names == list(frame.columns[display.places_])
    for (given, made), x, y in zip(display.lines_, display.inputs, display.outputs, strict=False):
        assert given.get_xdata() == pytest.approx(x[display.places_])
        assert made.get_xdata() == pytest.approx(y[display.places_])
    legend = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert legend == ["input", "reconstruction"]
    display.figure_.canvas.draw()


def test_columns_with_units_of_their_own_are_shown_in_deviations(of_mixed, mixed, table):
    display = ReconstructionDisplay.from_estimator(of_mixed, mixed)
    mass = display.columns.index("mass")
    row = int(np.flatnonzero(display.places_ == mass)[0])
    train_mean, train_deviation = mixed["mass"].mean(), mixed["mass"].std(ddof=0)
    shown = (display.inputs[0, mass] - train_mean) / train_deviation
    assert display.lines_[0][0].get_xdata()[row] == pytest.approx(shown, abs=0.2)
    assert display.axes_[0].get_xlabel() == "deviations from the mean"
    of_run = ReconstructionDisplay.from_run(table)
    everything = np.concatenate([line.get_xdata() for lines in of_run.lines_ for line in lines])
    assert np.abs(everything).max() < 6, "the income of 40,000 has a deviation of thousands"
    assert of_run.columns[0] == "height"


def test_values_without_names_are_profiles_and_can_be_shown_as_images(pictures):
    rows = pictures.reshape(300, -1)
    model = fit(rows, n_components=2)
    display = ReconstructionDisplay.from_estimator(model, rows)
    assert list(display.lines_[0][0].get_ydata()) == list(display.inputs[0])
    shown = ReconstructionDisplay.from_estimator(model, rows, image_shape=[14, 14])
    assert shown.inputs.shape == (6, 14, 14)
    with pytest.raises(NarrowsError, match="image_shape must be"):
        ReconstructionDisplay.from_estimator(model, rows, image_shape=(13, 14))


@pytest.mark.parametrize("error", ["absolute", lambda x, y: (x - y).abs().amax((1, 2, 3))], ids=["named", "function"])
def test_errors_count_as_the_promise_counts_them(pictures, error):
    colours = np.stack([pictures, pictures / 2, 7 - pictures], -1)
    model = fit(colours, n_components=2, error=error, tau=100.0)
    display = ReconstructionDisplay.from_estimator(model, colours)
    apart = np.abs(display.inputs - display.outputs)
    assert display.errors == pytest.approx(apart.sum((1, 2, 3)) if error == "absolute" else apart.max((1, 2, 3)))


def test_gaps_are_not_drawn(frame):
    gaps = frame.copy()
    gaps.iloc[::2, 0] = np.nan
    model = fit(gaps, n_components=2, missing="mask")
    display = ReconstructionDisplay.from_estimator(model, gaps)
    assert np.isfinite(display.errors).all()
    assert np.isfinite(display.outputs).all()
    display.figure_.canvas.draw()


def test_a_run_without_its_data_is_one_line(squares, tmp_path):
    moved = RunFolder(shutil.copytree(squares, tmp_path / "moved"))
    moved.write_config({**moved.read_config(), "data": str(tmp_path / "gone.npy")})
    with pytest.raises(NarrowsError, match="names data that are not on this machine"):
        ReconstructionDisplay.from_run(moved)
