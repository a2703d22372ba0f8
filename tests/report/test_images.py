"""Sheets: every pixel in its place, and never more of them than a page can carry."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from narrows.report import images as sheets


def opened(source: str) -> np.ndarray:
    kind, content = source.split(",", 1)
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


def test_images_stand_in_rows_with_a_gap_between():
    rows = [np.full((3, 64, 70), 10 * i, np.uint8) for i in (1, 2)]
    rows[1][2] = 77
    sheet = opened(sheets.grid(rows))
    assert sheet.shape == (2 * 64 + 1, 3 * 70 + 2, 3)
    assert (sheet[:64, :70] == 10).all()
    assert (sheet[65:, 142:] == 77).all()


def test_small_images_are_shown_large_pixel_by_pixel():
    image = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    sheet = opened(sheets.grid([image]))
    assert sheet.shape == (64, 64, 3)
    assert (sheet[::8, ::8, 0] == image[0]).all()


def test_a_sheet_of_many_large_images_stays_small():
    noise = np.random.default_rng(0).integers(0, 256, (64, 256, 256, 3), dtype=np.uint8)
    assert len(sheets.grid([noise])) < 1.4 * sheets.BYTES + 50_000


@pytest.mark.parametrize("channels", [(), (3,), (4,)])
def test_any_number_of_channels_becomes_bytes(channels):
    images = np.random.default_rng(0).random((2, 5, 6, *channels))
    made = sheets.as_bytes(images, 0.0, 1.0)
    assert made.dtype == np.uint8
    assert made.shape == ((2, 5, 6, 3) if channels else (2, 5, 6))


def test_differences_are_white_where_right_orange_where_too_bright_blue_where_too_dark():
    x = np.array([[[0.5, 0.2, 0.9]]])
    y = np.array([[[0.5, 0.7, 0.4]]])
    right, bright, dark = sheets.differences(x, y, 0.5)[0, 0]
    assert right.tolist() == [255, 255, 255]
    assert bright.tolist() == sheets.ORANGE.tolist()
    assert dark.tolist() == sheets.BLUE.tolist()


def test_values_beyond_the_unit_interval_get_their_own_black_and_white():
    assert sheets.levels([np.array([0.2, 0.8])]) == (0.0, 1.0)
    assert sheets.levels([np.array([-3.0, 5.0])]) == (-3.0, 5.0)
    low, high = sheets.levels([np.full(3, 7.0)])
    assert low < high
