"""Curves as characters: small pictures known dot by dot, and what lies outside is cut off."""

import math

from narrows.report.figures.braille import Frame, draw
from narrows.report.figures.specification import Series


def curve(x: list[float], y: list[float], **style: bool) -> Series:
    return Series("", x, y, **style)


def picture(*curves: Series, width: int = 2, height: int = 1, x=(0, 3), y=(0, 3), **more) -> str:
    lines = draw(curves, Frame(width, height, x, y, **more))
    return "\n".join("".join(character for character, _ in line) for line in lines)


def test_a_rising_line_is_one_dot_per_column():
    assert picture(curve([0, 1, 2, 3], [0, 1, 2, 3])) == "⡠⠊"


def test_a_straight_line_needs_only_its_ends():
    for ends in ([0, 3], [3, 0], [1, 1]):
        between = [ends[0] + (ends[1] - ends[0]) * i / 3 for i in range(4)]
        assert picture(curve([0, 3], ends)) == picture(curve([0, 1, 2, 3], between))


def test_a_jump_fills_its_column():
    assert picture(curve([0, 1, 2, 3], [0, 0, 3, 3])) == "⣀⠏"


def test_a_staircase_holds_its_value_and_then_jumps():
    assert picture(curve([0, 3], [3, 0], step=True)) == "⠉⢹"
    assert picture(curve([0, 2, 3], [0, 3, 3], step=True)) == "⣀⡏"


def test_points_and_colons_where_there_is_no_braille():
    rising = curve([0, 1, 2, 3], [0, 1, 2, 3])
    assert picture(rising, width=4, height=2, braille=False) == "  .'\n.'  "
    assert picture(curve([0, 1], [0, 3]), width=2, height=2, x=(0, 1), braille=False) == " :\n.'"


def test_dots_outside_the_frame_are_cut_off_and_cost_nothing():
    """A value of 1e12 would be a column of 1e12 dots."""
    assert picture(curve([0, 1, 2, 3], [0, 1e12, 0, 0])) == "⡸⣇"
    assert picture(curve([0, 1, 2, 3], [-5, -5, 9, 9])) == " ⡇"
    assert picture(curve([0, 3], [9, 9])) == "  "


def test_a_value_that_is_not_finite_is_a_gap():
    assert picture(curve([0, 1, 2, 3], [0, math.nan, math.inf, 0])) == "⡀⢀"
    assert picture(curve([0, 1, 2, 3], [1, 0, -1, 1]), y=(0.5, 2), log=True)[0] == "⠄"


def test_a_logarithmic_axis_has_the_same_step_for_the_same_ratio():
    powers = curve([0, 1, 2, 3], [1, 10, 100, 1000])
    assert picture(powers, y=(1, 1000), log=True) == picture(curve([0, 1, 2, 3], [0, 1, 2, 3]))


def test_characters_show_all_curves_and_belong_to_the_last():
    cells = draw([curve([0, 3], [3, 3]), curve([0, 1], [0, 0])], Frame(2, 1, (0, 3), (0, 3)))
    assert cells == [[("⣉", 1), ("⠉", 0)]]
    assert draw([], Frame(1, 1, (0, 1), (0, 1))) == [[(" ", -1)]]


def test_a_dashed_curve_has_every_other_pair_of_dots():
    assert picture(curve([0, 7], [0, 0], dash=True), width=4, x=(0, 7)) == "⣀ ⣀ "


def test_one_batch_and_one_value_are_drawn():
    """The first row of a run: no range in either direction."""
    assert picture(curve([7], [2]), x=(7, 7), y=(2, 2)) == "⠁ "


def test_a_point_far_outside_costs_no_time():
    """A step of 10**15 in a damaged file was followed dot by dot."""
    assert picture(curve([0, 10**15, 2, 3], [0, 1e300, 2, 3]))[0] != " "
    assert picture(curve([0, 3], [5e-324, 1e308]), y=(5e-324, 3.0), log=True).strip()
