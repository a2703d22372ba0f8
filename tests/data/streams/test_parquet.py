"""Parquet shards with a column of images, as the sets of the Hugging Face hub have them."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from narrows.data import Batches, load, split
from narrows.data.streams.addresses import hub_address
from refusals import refused

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def png(pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write(path, images, path_in_row=None):
    rows = [{"bytes": image, "path": path_in_row} for image in images]
    parquet.write_table(pyarrow.table({"image": rows, "label": list(range(len(rows)))}), path, row_group_size=20)


@pytest.fixture
def set_of_pictures(tmp_path, pictures):
    """The pictures as PNG files in eight Parquet files."""
    (tmp_path / "hub").mkdir()
    for i, part in enumerate(np.split(pictures, 8)):
        write(tmp_path / "hub" / f"{i:04}.parquet", map(png, part))
    return tmp_path / "hub"


def test_a_column_of_images(set_of_pictures, pictures):
    data = load(set_of_pictures, stream=True, cache_size="20kB")
    assert (data.examples.shape, data.values, data.columns) == ((3, 6, 5), "unit", ())
    for index in (split(data).test, Batches(split(data).training, 64, 0).next(), np.arange(600)):
        expected = torch.from_numpy(pictures[index]).permute(0, 3, 1, 2).float() / 255
        torch.testing.assert_close(data.examples.batch(index), expected)
    by_name = load(set_of_pictures, stream=True, cache_size="20kB", columns="image")
    assert by_name.examples.shape == (3, 6, 5)
    scaled = load(f"file://{set_of_pictures}/*.parquet", image_size="8x4", cache_size="20kB")
    assert scaled.examples.shape == (3, 8, 4)


def test_pictures_that_cannot_be_used(set_of_pictures, pictures, tmp_path):
    secret = tmp_path / "mine.png"
    secret.write_bytes(png(pictures[0]))
    write(set_of_pictures / "0003.parquet", [None] * 3, str(secret))
    assert "row 1 is a broken image" in refused(load, set_of_pictures, stream=True), "a path is never opened"
    write(set_of_pictures / "0003.parquet", [png(pictures[0]), png(pictures[0][:3])])
    data = load(set_of_pictures, stream=True, cache_size="20kB")
    text = refused(lambda: data.examples.batch(np.arange(len(data.examples))))
    assert "row 2 is an image of (3, 5, 3), and the first is one of (6, 5, 3); scale all to one size" in text
    write(set_of_pictures / "0003.parquet", [png(pictures[0][:, :, 0])])
    text = refused(load, set_of_pictures, stream=True)
    assert "0003.parquet holds images of (6, 5, 1) uint8, and" in text


def test_addresses_of_the_hub(tmp_path):
    train = "hf://datasets/ylecun/mnist@refs/convert/parquet/mnist/train/*.parquet"
    assert hub_address("ylecun/mnist@mnist") == (train, None)
    assert hub_address("ylecun/mnist@mnist::image") == (train, ["image"])
    assert "is a folder on this machine" in refused(hub_address, str(tmp_path))
