"""The curves are the rows of the history, of an estimator and of a run; and how axes are made and taken."""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from narrows import NarrowingDisplay, NarrowsError, RunFolder
from narrows.report.displays.drawing import axes_for
from narrows.runs.records import MetricRow, as_history


def data(line):
    return list(line.get_xdata()), list(line.get_ydata())


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_curves_of_an_estimator_are_its_history(of_pictures):
    display = NarrowingDisplay.from_estimator(of_pictures)
    (training, heldout, tau, saved), (gates, _), (multiplier, _), (hits, _) = display.lines_
    history = of_pictures.history_
    assert data(training) == (history["step"], history["error"])
    assert data(heldout) == (history["step"], history["watched"])
    assert data(multiplier) == (history["step"], history["lambda"])
    assert data(hits) == (history["step"], history["hits"])
    assert set(tau.get_ydata()) == {of_pictures.tau_}
    assert set(saved.get_xdata()) == {of_pictures.result_.model_step}
    assert data(gates) == ([0, *history["step"]], [3, *history["open"]])
    assert legend(display.axes_[0])[2] == f"τ = {of_pictures.tau_:g}"
    labels = [axes.get_ylabel() for axes in display.axes_]
    assert labels == ["error per input", "gates", "multiplier λ′", "tolerance hits"]


def test_the_curves_of_a_run_are_its_rows_and_decisions(squares):
    folder = RunFolder(squares)
    rows, result = folder.read_rows(), folder.read_result()
    for source in (squares, str(squares), folder):
        display = NarrowingDisplay.from_run(source)
        assert data(display.lines_[0][0]) == ([row.step for row in rows], [row.error for row in rows])
    assert display.tau == result.tau == 60
    gates = display.lines_[1][0]
    closings = [row.step for row in folder.read_decisions() if row.action == "close"]
    assert closings
    assert set(closings) <= set(gates.get_xdata())
    assert gates.get_ydata()[0] == 6
    assert gates.get_ydata()[-1] == rows[-1].open


def test_the_papers_recipe_has_the_sum_of_the_gates(folder):
    rows = [MetricRow(10 * i, 9.0 / i, 4 - i / 4, 4 - i // 4, 2.0 / i, 0.1 * i, 1.0, 1.0, 1.0) for i in range(1, 9)]
    display = NarrowingDisplay(history=as_history(rows), recipe="paper", n_components=4, tau=3.0).plot()
    total, opened = display.lines_[1]
    assert list(total.get_ydata()) == [row.gate_sum for row in rows]
    assert list(opened.get_ydata()) == [row.open for row in rows]
    assert len(display.lines_[0]) == 2, "the paper's recipe measures no held-out error"


def test_a_run_under_way_is_drawn_and_one_without_rows_is_not(folder):
    with pytest.raises(NarrowsError, match="has no metrics yet"):
        NarrowingDisplay.from_run(folder)
    folder.append_row(MetricRow(10, 2.5, 4.0, 4, 1.5, 0.25, 4.0, 6.5, 1.0, 2.25))
    display = NarrowingDisplay.from_run(folder)
    assert data(display.lines_[0][0]) == ([10], [2.5])
    assert display.model_step is None


def test_a_new_figure_belongs_to_pyplot_and_given_axes_are_used(of_pictures):
    assert plt.get_fignums() == []
    display = NarrowingDisplay.from_estimator(of_pictures)
    assert plt.gcf() is display.figure_
    figure, axes = plt.subplots(2, 2)
    assert display.plot(ax=axes) is display
    assert display.figure_ is figure
    assert display.axes_ == list(axes.flat)
    figure, (left, right) = plt.subplots(1, 2)
    display.plot(ax=left)
    assert len(plt.get_fignums()) == 3
    assert [one.figure for one in display.axes_] == [figure] * 4
    assert not left.axison
    assert right.axison
    assert all(one.get_position().x1 <= right.get_position().x0 for one in display.axes_)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_a_wrong_number_of_axes_is_one_line(count):
    axes = list(plt.figure().subplots(1, 5))[:count]
    with pytest.raises(NarrowsError, match="ax must be matplotlib Axes, which is divided, or 4 of them; it is"):
        axes_for(axes, 4, 2, (4, 4))


def test_axes_that_cannot_be_divided_are_one_line():
    axes = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(NarrowsError, match="was not made by subplots"):
        axes_for(axes, 4, 2, (4, 4))
    assert axes.axison
    assert axes_for(axes, 1, 1, (4, 4)) == (axes.figure, [axes])


def test_drawing_changes_no_settings_of_matplotlib(of_pictures):
    before = dict(mpl.rcParams)
    NarrowingDisplay.from_estimator(of_pictures).figure_.canvas.draw()
    assert dict(mpl.rcParams) == before


def test_matplotlib_is_imported_when_something_is_drawn():
    code = "import sys, narrows; narrows.NarrowingDisplay; assert not {'matplotlib', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numbers_of_numpy_in_a_history_are_drawn(of_pictures):
    history = {name: np.array(values) for name, values in of_pictures.history_.items()}
    display = NarrowingDisplay(history=history, recipe="fast", n_components=3).plot()
    assert list(display.lines_[0][0].get_ydata()) == of_pictures.history_["error"]
