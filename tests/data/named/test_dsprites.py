"""The drawn set against true images of the official file, and against its known totals."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from narrows.data import load
from narrows.data.named import dsprites
from narrows.data.named.dsprites import FACTORS, SIZES, draw_sprite

# 258 images of dSprites (Apache-2.0): packed bits, and the indices of shape, scale, orientation, x and y.
SAMPLES = Path(__file__).with_name("dsprites_samples.npz")
LIT_IN_THE_OFFICIAL_FILE = 128_328_862


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """The whole set, drawn once into a cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARROWS_CACHE", str(folder))
        data = dsprites.drawn()
    yield data
    shutil.rmtree(folder)  # 377 MB


def samples():
    with np.load(SAMPLES) as file:
        return file["bits"], file["factors"].astype(np.int64)


def test_true_images_are_drawn_bit_for_bit():
    bits, factors = samples()
    assert len(bits) == 258
    for shape, orientation in np.unique(factors[:, [0, 2]], axis=0):
        sprites = draw_sprite(shape, orientation)
        assert sprites.shape == (6, 32, 32, 512)
        mine = (factors[:, 0] == shape) & (factors[:, 2] == orientation)
        np.testing.assert_array_equal(sprites[tuple(factors[mine][:, [1, 3, 4]].T)], bits[mine])


def test_factors_of_the_official_file():
    assert [(factor.name, factor.size) for factor in FACTORS] == [
        ("colour", 1),
        ("shape", 3),
        ("scale", 6),
        ("orientation", 40),
        ("x", 32),
        ("y", 32),
    ]
    assert np.prod(SIZES) == 737_280
    np.testing.assert_allclose(FACTORS[2].values, [0.5, 0.6, 0.7, 0.8, 0.9, 1])
    assert FACTORS[3].values[-1] == pytest.approx(2 * np.pi)


def test_the_whole_set_lights_nearly_as_many_pixels(drawn):
    bits = drawn.examples.bits
    assert bits.shape == (737_280, 512)
    lit = sum(int(np.bitwise_count(part).sum(dtype=np.int64)) for part in np.array_split(bits, 40))
    assert lit == 128_283_682  # what the documents say
    assert lit == pytest.approx(LIT_IN_THE_OFFICIAL_FILE, rel=0.0005)


def test_images_stand_in_the_official_order(drawn):
    bits, factors = samples()
    number = np.ravel_multi_index((np.zeros(len(factors), np.int64), *factors.T), SIZES)
    np.testing.assert_array_equal(drawn.examples.bits[number], bits)
    batch = drawn.examples.batch(number)
    assert batch.shape == (258, 1, 64, 64)
    np.testing.assert_array_equal(batch.numpy().reshape(258, -1), np.unpackbits(bits, axis=1))


def test_positions_move_right_and_down(drawn):
    corner = [np.ravel_multi_index((0, 0, 0, 0, x, y), SIZES) for x, y in ((0, 0), (31, 0), (0, 31))]
    here, right, down = drawn.examples.batch(np.array(corner))[:, 0].numpy()
    np.testing.assert_array_equal(np.roll(here, 32, axis=1), right)
    np.testing.assert_array_equal(np.roll(here, 32, axis=0), down)


def test_data_and_cache(drawn, monkeypatch):
    assert (drawn.name, drawn.values, drawn.test, drawn.is_image) == ("dsprites", "unit", None, True)
    assert drawn.note.startswith("drawn (no download), cached in ")
    path = Path(drawn.note.partition("cached in ")[2])
    assert isinstance(drawn.examples.bits, np.memmap)

    monkeypatch.setenv("NARROWS_CACHE", str(path.parent))
    monkeypatch.setattr(dsprites, "draw", None)
    assert load("dsprites", source="drawn").note == drawn.note
    assert load("dsprites").note == f"{drawn.note}; for the official file: narrows data get dsprites"


def test_without_a_cache_it_stays_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "file"))
    blank = np.zeros((737_280, 512), np.uint8)
    monkeypatch.setattr(dsprites, "draw", lambda: iter([blank]))
    data = dsprites.drawn()
    assert data.examples.bits.shape == blank.shape
    assert data.note.startswith("drawn (no download), kept in memory, because ")
