"""The scree plot shows what the answer measured."""

import dataclasses

import pytest

from narrows import DimensionDisplay, NarrowsError, RunFolder


def check(display, result):
    assert list(display.line_.get_xdata()) == list(range(result.dims + 1))
    assert list(display.line_.get_ydata()) == pytest.approx(result.errors_of_first)
    assert list(display.cost_line_.get_xdata()) == list(range(1, result.dims + 1))
    assert list(display.cost_line_.get_ydata()) == pytest.approx([one.cost for one in result.dimensions])
    assert set(display.tau_line_.get_ydata()) == {result.tau}
    low, high = display.axes_[0].get_xlim()
    assert low < 0
    assert high > result.dims
    assert [axes.get_ylabel() for axes in display.axes_] == ["error per input", "cost of removal"]


def test_an_estimator(of_pictures):
    display = DimensionDisplay.from_estimator(of_pictures)
    check(display, of_pictures.result_)
    assert list(display.cost) == list(of_pictures.dimension_cost_)


def test_a_run(squares):
    check(DimensionDisplay.from_run(squares), RunFolder(squares).read_result())


def test_without_a_promise_there_is_no_line_for_it():
    display = DimensionDisplay(errors_of_first=[3.0, 2.0, 1.0], cost=[1.5, 1.0]).plot()
    assert display.tau_line_ is None
    assert display.axes_[0].get_legend() is None


def test_zero_dimensions_have_the_error_of_the_mean():
    display = DimensionDisplay(errors_of_first=[3.0], cost=[], tau=4.0).plot()
    assert list(display.line_.get_ydata()) == [3.0]
    assert len(display.cost_line_.get_xdata()) == 0


def test_what_was_not_measured_is_one_line(folder, of_pictures):
    with pytest.raises(NarrowsError, match=r"has not ended, so it has no answer yet; continue it with `narrows resume"):
        DimensionDisplay.from_run(folder)
    folder.write_result(dataclasses.replace(of_pictures.result_, errors_of_first=[]))
    with pytest.raises(NarrowsError, match="the answer has no errors_of_first"):
        DimensionDisplay.from_run(folder)
