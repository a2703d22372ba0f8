"""idx files written byte by byte as MNIST's are, and every way they can be broken."""

import gzip
import struct

import numpy as np
import pytest

from narrows._util.errors import NarrowsError
from narrows.data.named.formats import read_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 28, 28), dtype=np.uint8)
RAW = struct.pack(">4I", 2051, *IMAGES.shape) + IMAGES.tobytes()
LABELS = struct.pack(">2I", 2049, 3) + bytes([7, 2, 1])


def refusal(tmp_path, content):
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(NarrowsError) as caught:
        read_idx(tmp_path / "broken")
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "broken"))
    assert "\n" not in text
    return text


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_images_and_labels(tmp_path, pack):
    path = tmp_path / "file"  # gzip is told by its bytes, not by its name
    path.write_bytes(pack(RAW))
    images = read_idx(path)
    np.testing.assert_array_equal(images, IMAGES)
    assert images.flags.writeable
    path.write_bytes(pack(LABELS))
    np.testing.assert_array_equal(read_idx(str(path)), [7, 2, 1])


@pytest.mark.parametrize(("code", "dtype"), [(0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")])
def test_other_types_come_back_in_native_order(tmp_path, code, dtype):
    values = np.array([[1, -2, 3], [4, 5, -6]], dtype)
    (tmp_path / "file").write_bytes(bytes([0, 0, code, 2]) + struct.pack(">2I", 2, 3) + values.tobytes())
    read = read_idx(tmp_path / "file")
    np.testing.assert_array_equal(read, values)
    assert read.dtype.isnative


def test_not_idx(tmp_path):
    assert "is damaged or not an idx file (it starts with 50 4b 03 04)" in refusal(tmp_path, b"PK\x03\x04and more")
    assert "is damaged or not an idx file (it starts with 00 00 07 03)" in refusal(tmp_path, b"\0\0\x07\x03" + RAW[4:])
    assert "is damaged or not an idx file (it starts with nothing)" in refusal(tmp_path, b"")


def test_wrong_length(tmp_path):
    for content in (RAW[:-1], RAW + b"\0"):
        assert "damaged or not an idx file (cannot reshape array of size" in refusal(tmp_path, content)
    assert "damaged or not an idx file (unpack requires a buffer of 12 bytes)" in refusal(tmp_path, RAW[:10])


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(RAW)
    flipped = whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:]
    for content in (whole[:-9], flipped, whole[:3]):
        assert "the file is damaged or not an idx file" in refusal(tmp_path, content)


def test_missing_file(tmp_path):
    with pytest.raises(NarrowsError, match=r"none cannot be read \(No such file or directory\)"):
        read_idx(tmp_path / "none")
