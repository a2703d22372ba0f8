"""Users' images: those in the loader's formats become inputs, any other file gets a sentence."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from narrows._util.errors import NarrowsError
from narrows.explorer.uploads import read_upload

GREY = (1, 16, 16)


def encoded(array: np.ndarray, kind: str = "PNG", mode: str | None = None) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(file, kind)
    return file.getvalue()


@pytest.fixture
def bytes_of_noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (16, 16), np.uint8)


def test_a_picture_of_the_right_size_comes_out_as_it_is(bytes_of_noise):
    x, changes = read_upload(encoded(bytes_of_noise), GREY, 0.0, 1.0)
    assert x.shape == (1, *GREY)
    assert torch.equal(x[0, 0], torch.from_numpy(bytes_of_noise) / 255)
    assert changes == "16 x 16 pixels"


def test_black_and_white_are_those_of_the_data(bytes_of_noise):
    x, _ = read_upload(encoded(bytes_of_noise), GREY, -2.0, 3.0)
    np.testing.assert_allclose(x[0, 0], bytes_of_noise / 255 * 5 - 2, atol=1e-5)


def test_colour_size_and_transparency_follow_the_runs_images_and_are_reported():
    photo = np.zeros((40, 60, 3), np.uint8)
    photo[:, 4:56] = (255, 0, 0)  # of the width, 10 to 50 are left
    x, changes = read_upload(encoded(photo), (3, 16, 16), 0.0, 1.0)
    assert torch.equal(x.mean((2, 3)).round(decimals=3), torch.tensor([[1.0, 0.0, 0.0]]))
    assert changes == "60 x 40 pixels; scaled to 16 x 16 and cropped to the centre"
    x, changes = read_upload(encoded(photo[:, 10:50], mode="RGBA"), GREY, 0.0, 1.0)
    assert x.shape == (1, *GREY)
    assert changes == "40 x 40 pixels; scaled to 16 x 16; converted from colour to grey; transparency filled with black"
    x, changes = read_upload(encoded(photo[:, :, 0], "JPEG"), (3, 16, 16), 0.0, 1.0)
    assert x.shape == (1, 3, 16, 16)
    assert changes.endswith("converted from grey to colour")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    ("orientation", "done"),
    [
        (1, ""),
        (2, "; mirrored by its EXIF orientation"),
        (3, "; rotated by its EXIF orientation"),
        (4, "; mirrored by its EXIF orientation"),
        (5, "; rotated and mirrored by its EXIF orientation"),
        (6, "; rotated by its EXIF orientation"),
        (7, "; rotated and mirrored by its EXIF orientation"),
        (8, "; rotated by its EXIF orientation"),
    ],
)
def test_exif_orientation_is_applied_and_reported(kind, orientation, done):
    stored = np.zeros((8, 16) if orientation < 5 else (16, 8), np.uint8)
    stored[:3, :2] = 255
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(stored).save(file, kind, exif=exif)
    x, changes = read_upload(file.getvalue(), (1, 8, 16), 0.0, 1.0)
    upright = ImageOps.exif_transpose(Image.open(file)).convert("L")
    np.testing.assert_array_equal((255 * x[0, 0]).round(), np.asarray(upright))
    size = f"{stored.shape[1]} x {stored.shape[0]} pixels"  # needs no scaling once it is turned
    assert changes.removesuffix("; converted from colour to grey") == size + done


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_the_first_frame_of_an_animation_is_taken_and_that_is_reported(kind):
    frames = [Image.fromarray(np.full((16, 16, 3), level, np.uint8)) for level in (255, 0, 100)]
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], lossless=True)
    x, changes = read_upload(file.getvalue(), (3, 16, 16), 0.0, 1.0)
    assert float(x.min()) == 1.0
    assert changes == "16 x 16 pixels; the first of 3 frames"


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is large and has next to nothing in it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    start = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + start + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "this file is empty"),
        (b"no picture at all", "it is not one of PNG, JPEG, WEBP"),
        (encoded(np.zeros((4, 4), np.uint8), "GIF"), "it is not one of PNG, JPEG, WEBP"),
        (encoded(np.zeros((4, 4), np.uint8), "BMP"), "it is not one of PNG, JPEG, WEBP"),
        (encoded(np.arange(10_000, dtype=np.uint8).reshape(100, 100))[:200], "this file cannot be used"),
        (png_header(8_000, 6_000), "it has 48,000,000 pixels, and at most 40,000,000 are accepted"),
        (png_header(10_000, 10_000), "it has 100,000,000 pixels, and at most"),
        (
            png_header(20_000, 20_000),
            ": it has more than 40,000,000 pixels, the most that are accepted; ",
        ),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "it is not one of"),
    ],
    ids=["empty", "text", "gif", "bmp", "cut", "pixels", "warned", "bomb", "svg"],
)
def test_a_file_that_cannot_be_used_gets_one_sentence(content, message):
    with pytest.raises(NarrowsError, match=message) as caught:
        read_upload(content, GREY, 0.0, 1.0)
    assert "\n" not in str(caught.value)


def test_runs_without_grey_or_colour_images_take_no_uploads(bytes_of_noise):
    with pytest.raises(NarrowsError, match="trained on vectors"):
        read_upload(encoded(bytes_of_noise), (10,), 0.0, 1.0)
    with pytest.raises(NarrowsError, match="have 4 channels"):
        read_upload(encoded(bytes_of_noise), (4, 16, 16), 0.0, 1.0)
