"""Folders of images: every mode by its rule, the exact crop, the cache, and the text of every error."""

import io
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from narrows._util.errors import NarrowsError
from narrows.data import load
from narrows.data.readers.images import load_images, to_array
from refusals import refused

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (20, 24, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (20, 24), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (20, 24), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures").mkdir()
    return tmp_path / "pictures"


def save(path, pixels=COLOUR, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(path, **options)


def one(folder, pixels, name="a.png", size=None, **options):
    save(folder / name, pixels, **options)
    return np.asarray(load_images(folder, size).examples.array[0])


def refusal(folder, **options):
    return refused(load_images, folder, **options)


def over_black(pixels, alpha):
    alpha = alpha if pixels.ndim == 2 else alpha[..., np.newaxis]
    return np.rint(pixels * (alpha / 255)).astype(np.uint8)


def test_a_folder_becomes_data(folder, cache):
    shades = {"b.png": 30, "a.PNG": 10, "sub/deep/c.JpEg": 40, "a-b.jpg": 20, "sub.webp": 50}
    for name, shade in shades.items():
        save(folder / name, np.full((20, 24, 3), shade, np.uint8), **({"lossless": True} if "webp" in name else {}))
    for hidden in (".hidden.png", "._a.png", ".git/x.png", "sub/.thumbs/x.png"):
        save(folder / hidden, np.full((9, 9), 1, np.uint8))
    (folder / "readme.txt").write_text("not an image")
    data = load_images(folder)
    assert (data.name, data.values, data.test, data.examples.shape) == ("pictures", "unit", None, (3, 20, 24))
    (file,) = cache.glob("*.npy")
    assert data.note == f"5 images from {folder} (other files: 1), cached in {file}"
    assert isinstance(data.examples.array, np.memmap)
    order = sorted(shades)  # a-b.jpg, a.PNG, b.png, sub.webp, sub/deep/c.JpEg
    assert data.examples.array[:, 0, 0, 0].tolist() == [shades[name] for name in order]
    batch = data.examples.batch(np.array([1]))
    assert batch.shape == (1, 3, 20, 24)
    np.testing.assert_allclose(batch.numpy(), 10 / 255, rtol=1e-6)


def test_many_images_keep_their_order(folder):
    for i in range(600):  # several chunks
        save(folder / f"{i // 256}" / f"{i:03}.png", np.full((16, 16), i % 251, np.uint8), compress_level=0)
    calls = []
    array = load_images(folder, progress=lambda *call: calls.append(call)).examples.array
    assert array[:, 3, 5, 0].tolist() == [i % 251 for i in range(600)]
    assert [call for call in calls if call[0] == "decoding images"] == [
        ("decoding images", done, 600) for done in (256, 512, 600)
    ]
    assert calls[0] == ("reading image headers", 256, 600)


def test_rgb_and_grey_pixels_are_exact(folder):
    np.testing.assert_array_equal(one(folder, COLOUR), COLOUR)
    np.testing.assert_array_equal(one(folder, GREY), GREY[..., np.newaxis])


def test_one_colour_image_makes_all_rgb(folder):
    save(folder / "b.png", COLOUR)
    np.testing.assert_array_equal(one(folder, GREY), np.repeat(GREY[..., np.newaxis], 3, axis=2))


def test_bilevel_is_black_and_white(folder):
    np.testing.assert_array_equal(one(folder, GREY > 99)[..., 0], np.where(GREY > 99, 255, 0))


def test_sixteen_bits_are_scaled_to_eight(folder):
    deep = RNG.integers(0, 65536, (20, 24), dtype=np.uint16)
    deep[0, :4] = 0, 128, 129, 65535
    pixels = one(folder, deep)
    assert pixels[0, :4, 0].tolist() == [0, 0, 1, 255]
    np.testing.assert_array_equal(pixels[..., 0], np.rint(deep / 257))


def test_transparency_is_laid_over_black(folder):
    grey = one(folder, Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA)]))
    np.testing.assert_array_equal(grey[..., 0], over_black(GREY, ALPHA))
    colour = one(folder, np.dstack([COLOUR, ALPHA]))
    np.testing.assert_array_equal(colour, over_black(COLOUR, ALPHA))


def test_a_transparent_colour_is_black(folder):
    shade, colour = int(GREY[2, 3]), tuple(COLOUR[2, 3].tolist())
    without_shade = np.where(np.equal(GREY, shade), 0, GREY)[..., np.newaxis]
    without_colour = np.where(np.equal(COLOUR, colour).all(-1, keepdims=True), 0, COLOUR)
    np.testing.assert_array_equal(one(folder, GREY, transparency=shade), without_shade)
    np.testing.assert_array_equal(one(folder, GREY * np.uint16(257), transparency=shade * 257), without_shade)
    np.testing.assert_array_equal(one(folder, COLOUR, transparency=colour), without_colour)
    assert not one(folder, GREY > 99, transparency=255).any()


@pytest.mark.parametrize("clear", [None, 2, bytes([255, 128, 0, 255])])
def test_palettes_are_colours(folder, clear):
    index = RNG.integers(0, 4, (20, 24), dtype=np.uint8)
    palette = np.array([[200, 10, 0], [0, 100, 50], [9, 8, 7], [255, 255, 255]], np.uint8)
    image = Image.fromarray(index).convert("P")
    image.putdata(index.reshape(-1).tolist())
    image.putpalette(palette.tobytes())
    alpha = np.array([255, 255, 255, 255] if clear is None else [255, 255, 0, 255] if clear == 2 else list(clear))
    seen = one(folder, image, **({} if clear is None else {"transparency": clear}))
    np.testing.assert_array_equal(seen, over_black(palette[index], alpha[index]))


def test_cmyk_is_converted(folder):
    red = Image.new("CMYK", (32, 32), (0, 255, 255, 0))
    pixels = one(folder, red, "a.jpg", quality=100)
    assert pixels.shape == (32, 32, 3)
    np.testing.assert_allclose(pixels.reshape(-1, 3).mean(0), [255, 0, 0], atol=2)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
@pytest.mark.parametrize("size", [None, (24, 20), (20, 24)])
def test_orientation_is_applied(folder, orientation, name, size):
    stored = np.kron(np.array([[0, 250], [80, 160]], np.uint8), np.ones((16, 32), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"exif": exif} | ({"lossless": True} if name == "a.webp" else {"quality": 95} if name == "a.jpg" else {})
    # From the EXIF specification: which stored row and column is the top, and which the left, of the picture.
    upright = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.T,
        6: stored[::-1].T,
        7: stored[::-1, ::-1].T,
        8: stored[:, ::-1].T,
    }[orientation]
    pixels = one(folder, stored, name, size, **options)
    assert pixels.shape[:2] == (size or upright.shape)
    corners = (slice(None, None, pixels.shape[0] - 1), slice(None, None, pixels.shape[1] - 1), 0)
    np.testing.assert_allclose(
        pixels[corners].astype(int), upright[[0, 0, -1, -1], [0, -1, 0, -1]].reshape(2, 2), atol=8
    )


def test_damaged_exif_does_no_harm(folder):
    pixels = one(folder, Image.new("L", (32, 16), 77), "a.jpg", exif=b"Exif\x00\x00MM\x00*\x00\x00\xff\xff\x01")
    assert pixels.shape == (16, 32, 1)


def test_the_first_frame_of_an_animation(folder):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    for name in ("a.png", "b.webp"):
        frames[0].save(folder / name, save_all=True, append_images=frames[1:], lossless=True)
    frames[1].save(folder / "c.gif")
    data = load_images(folder)
    assert data.note.startswith("2 images from ")
    assert data.examples.array[:, 3, 3].tolist() == [[255, 0, 0], [255, 0, 0]]


def quadrants(height, width):
    picture = np.zeros((height, width, 3), np.uint8)
    picture[: height // 2, : width // 2, 0] = 255
    picture[: height // 2, width // 2 :, 1] = 255
    picture[height // 2 :, : width // 2, 2] = 255
    picture[height // 2 :, width // 2 :] = 255
    return picture


@pytest.mark.parametrize("size", [(32, 32), (16, 48)])
@pytest.mark.parametrize("shape", [(32, 32), (64, 64), (32, 128), (200, 32), (64, 96), (90, 30), (1000, 1000)])
def test_the_centre_of_the_scaled_picture_is_cut_out(folder, shape, size):
    pixels = one(folder, quadrants(*shape), size=size)
    assert pixels.shape == (*size, 3)
    # The quadrants meet in the middle. There the filter mixes them, as far as it reaches; beyond, colours are pure.
    reach = int(np.ceil(3 * max(1, size[0] / shape[0], size[1] / shape[1]))) + 1
    pure = [np.r_[: side // 2 - reach, side // 2 + reach : side] for side in size]
    assert all(map(len, pure))
    np.testing.assert_array_equal(pixels[np.ix_(*pure)], quadrants(*size)[np.ix_(*pure)])


def test_a_crop_without_scaling_is_exact(folder):
    wide = RNG.integers(0, 256, (32, 50, 3), dtype=np.uint8)
    np.testing.assert_array_equal(one(folder, wide, size=(32, 32)), wide[:, 9:41])
    tall = RNG.integers(0, 256, (40, 16, 3), dtype=np.uint8)
    np.testing.assert_array_equal(one(folder, tall, size=(20, 16)), tall[10:30])
    np.testing.assert_array_equal(one(folder, tall, size=(40, 16)), tall)


def test_large_jpegs_are_decoded_at_a_reduced_scale():
    buffer = io.BytesIO()
    Image.fromarray(quadrants(800, 1600)).save(buffer, "JPEG", quality=95)
    with Image.open(buffer) as image:
        reduced = to_array(image, (32, 32), 3)
        assert image.size == (200, 100)
    whole = to_array(Image.fromarray(quadrants(800, 1600)), (32, 32), 3)
    assert np.abs(reduced.astype(int) - whole).mean() < 2
    with Image.open(buffer) as image:
        to_array(image, None, 3)
        assert image.size == (1600, 800)


def test_mixed_sizes_need_a_size(folder):
    for name, shape in {"a.png": (20, 24), "b.png": (24, 20), "c.png": (20, 24), "d.png": (300, 300)}.items():
        save(folder / name, np.zeros(shape, np.uint8))
    assert refusal(folder) == (
        f"{folder}: images of 3 sizes, for example {folder}/a.png of 20 x 24 and {folder}/b.png of 24 x 20 pixels; "
        "scale all to one size with image_size=64"
    )
    assert load_images(folder, (64, 48)).examples.shape == (1, 64, 48)


@pytest.mark.parametrize("shape", [(300, 64), (64, 257)])
def test_sides_have_at_most_256_pixels(folder, shape):
    save(folder / "a.png", np.zeros(shape, np.uint8))
    assert f"images of {shape[0]} x {shape[1]} pixels, not of 1 to 256; scale all to one size with image_size=64" in (
        refusal(folder)
    )
    with pytest.raises(NarrowsError, match=f"image_size must have sides of 1 to 256 .*; it is {shape[0]} x {shape[1]}"):
        load(folder, image_size=shape)


def test_cached_images_are_not_decoded_again(folder, cache):
    save(folder / "a.png")
    first = load_images(folder)
    kept = os.listdir(cache)
    assert len(kept) == 2
    facts = (folder / "a.png").stat()
    (folder / "a.png").write_bytes(bytes(facts.st_size))  # no image any more, but of the same size and time
    os.utime(folder / "a.png", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    calls = []
    again = load_images(folder, progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(again.examples.array, COLOUR[np.newaxis])
    assert (again.note, calls, os.listdir(cache)) == (first.note, [], kept)


def test_any_change_is_decoded_anew(folder):
    save(folder / "a.png", np.full((20, 24), 1, np.uint8))
    load_images(folder)
    save(folder / "a.png", np.full((20, 24), 2, np.uint8))
    os.utime(folder / "a.png", ns=(1, 1))
    assert load_images(folder).examples.array[:, 0, 0, 0].tolist() == [2]
    save(folder / "b.png", np.full((20, 24), 3, np.uint8))
    assert load_images(folder).examples.array[:, 0, 0, 0].tolist() == [2, 3]
    (folder / "a.png").rename(folder / "c.png")
    assert load_images(folder).examples.array[:, 0, 0, 0].tolist() == [3, 2]
    assert load_images(folder, (16, 16)).examples.shape == (1, 16, 16)


def test_a_damaged_cache_is_decoded_again(folder, cache):
    save(folder / "a.png")
    load_images(folder)
    for damage in (b"", b"{}", b'{"row": 3, "skipped": []}', b"\xff"):
        (array,), (facts,) = cache.glob("*.npy"), cache.glob("*.json")
        facts.write_bytes(damage)
        np.testing.assert_array_equal(load_images(folder).examples.array, COLOUR[np.newaxis])
        array.write_bytes(damage)
        np.testing.assert_array_equal(load_images(folder).examples.array, COLOUR[np.newaxis])


def test_where_nothing_can_be_cached_memory_serves(folder, tmp_path, monkeypatch):
    save(folder / "a.png")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NARROWS_CACHE", str(tmp_path / "file"))
    data = load_images(folder)
    np.testing.assert_array_equal(data.examples.array, COLOUR[np.newaxis])
    assert ", kept in memory, because " in data.note


def png_of(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def encoded(kind):
    buffer = io.BytesIO()
    Image.fromarray(COLOUR).save(buffer, kind)
    return buffer.getvalue()


BROKEN = {
    "empty.png": (b"", "it is not one of PNG, JPEG, WEBP"),
    "text.jpg": (b"these are not the bytes you are looking for", "it is not one of PNG, JPEG, WEBP"),
    "gif.png": (encoded("GIF"), "it is not one of PNG, JPEG, WEBP"),
    "cut.png": (encoded("PNG")[:-200], ""),
    "cut.jpg": (encoded("JPEG")[:-200], "image file is truncated"),
    "cut.webp": (encoded("WEBP")[:-50], ""),
    "header.png": (encoded("PNG")[:30], ""),
    "flipped.png": (encoded("PNG")[:300] + bytes(100) + encoded("PNG")[400:], ""),
    "bomb.png": (png_of(60_000, 60_000), "(it has more than 178,956,970 pixels, the most that are accepted)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named_or_left_out(folder, name):
    content, reason = BROKEN[name]
    for good in ("a.png", "z.png"):
        save(folder / good)
    (folder / name).write_bytes(content)
    text = refusal(folder)
    assert text.startswith(f"{folder}/{name} is a broken image (")
    assert reason in text
    assert text.endswith("); repair or remove it; skip_broken leaves such files out")
    for _ in range(2):  # decoded, then from the cache
        data = load_images(folder, skip_broken=True)
        assert data.note.startswith(f"2 images from {folder} (1 broken left out, first {folder}/{name}), cached in ")
        np.testing.assert_array_equal(data.examples.array, np.stack([COLOUR, COLOUR]))


def test_all_broken(folder):
    for name, (content, _) in BROKEN.items():
        (folder / name).write_bytes(content)
    assert refusal(folder, skip_broken=True) == f"{folder}: all 9 images are broken; use others"
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "cut.jpg").write_bytes(BROKEN["cut.jpg"][0])  # its header is good
    assert refusal(folder, skip_broken=True) == f"{folder}: all 1 images are broken; use others"


def test_names_of_left_out_files_may_be_lost(folder, cache):
    save(folder / "a.png")
    (folder / "b.png").write_bytes(b"")
    load_images(folder, skip_broken=True)
    next(cache.glob("*.json")).unlink()
    assert " (1 broken left out), cached in " in load_images(folder, skip_broken=True).note


def test_a_file_with_an_odd_name(folder):
    (folder / "two\nlines.png").write_bytes(b"")
    assert refusal(folder).startswith(f"{folder}/two\\nlines.png is a broken image")
    (folder / "two\nlines.png").unlink()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png")).write_bytes(b"")
    assert refusal(folder).startswith(f"{folder}/\\udcff.png is a broken image")


def test_links(folder, tmp_path):
    (folder / "sub").mkdir()
    save(folder / "sub" / "a.png", np.full((16, 16), 5, np.uint8))
    (folder / "sub" / "loop").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "z.png").symlink_to(folder / "sub" / "a.png")
    assert load_images(folder).examples.array[:, 0, 0, 0].tolist() == [5, 5]
    (folder / "nowhere.png").symlink_to(folder / "gone.png")
    assert "nowhere.png is a broken image (a broken symlink)" in refusal(folder)


def test_what_is_named_like_an_image_and_is_no_file(folder):
    save(folder / "a.png", np.full((16, 16), 5, np.uint8))
    os.mkfifo(folder / "pipe.png")
    assert refusal(folder) == (
        f"{folder / 'pipe.png'} is a broken image (it is a named pipe, not a file); repair or remove it; skip_broken "
        "leaves such files out"
    )
    data = load_images(folder, skip_broken=True)
    assert data.examples.array[:, 0, 0, 0].tolist() == [5]
    assert f"(1 broken left out, first {folder / 'pipe.png'})" in data.note
    os.mkfifo(folder / "pipe")  # among other files, which are counted
    (folder / "pipe.png").unlink()
    assert "1 images from " in (note := load_images(folder).note)
    assert "(other files: 1)" in note


@pytest.mark.parametrize("name", ["other", "sub/x.png"])
def test_links_out_of_the_folder(folder, tmp_path, name):
    """A folder from a stranger must not bring pictures of the user's into a model; the folder itself may be a link."""
    save(tmp_path / "private" / "x.png", np.full((16, 16), 9, np.uint8))
    save(folder / "sub" / "a.png", np.full((16, 16), 5, np.uint8))
    target = tmp_path / "private" / ("x.png" if name.endswith("png") else "")
    (folder / name).symlink_to(target)
    text = refusal(folder)
    assert text.startswith(f"{folder / name} is a symlink that leads out of the folder, to {target}, where ")
    command = re.search(r"`(cp -rlL .*) COPY`", text)[1]
    subprocess.run([*shlex.split(command), tmp_path / "copy"], check=True)
    assert sorted(load_images(tmp_path / "copy").examples.array[:, 0, 0, 0].tolist()) == [5, 9]
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    assert len(load_images(tmp_path / "link").examples) == 2


def test_a_picture_that_memory_cannot_decode(folder, monkeypatch):
    save(folder / "a.png", np.zeros((4100, 4100), np.uint8))
    free = 10**8
    monkeypatch.setattr("narrows.data.readers.images.free_memory", lambda: free)
    for skip in (False, True):
        assert refusal(folder, size=(8, 8), skip_broken=skip) == (
            f"{folder / 'a.png'} has 16,810,000 pixels, which need 0.2 GB of memory to decode, and 0.1 GB are free; "
            "make it smaller"
        )
    free = 10**9
    assert len(load_images(folder, (8, 8)).examples) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "load", lambda image: bytearray(1 << 60))  # memory ends all the same
        said = f"{folder / 'a.png'} needs more memory to decode than is free; make it smaller"
        assert refusal(folder, size=(9, 9), skip_broken=True) == said


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_the_same_in_strips(folder, monkeypatch, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 20, 4), np.uint8)
    picture = Image.fromarray(pixels).convert(mode)
    picture.save(folder / "a.png", **({"transparency": bytes(range(256))} if mode == "P" else {}))
    whole = np.asarray(load_images(folder).examples.array)
    monkeypatch.setattr("narrows.data.readers.images._STRIP", 70)
    (folder / "a.png").touch()
    np.testing.assert_array_equal(load_images(folder).examples.array, whole)


def test_no_images(folder):
    for i in range(3):
        (folder / f"{i}.txt").write_text("no image")
    assert refusal(folder) == (
        f"{folder} holds no images (.png, .jpg, .jpeg, .webp) and 3 other files; "
        "use a folder that holds images, at any depth"
    )


def test_no_folder(folder):
    assert refusal(folder / "gone") == (
        f"{folder}/gone cannot be read (No such file or directory); check its path and mode"
    )
    (folder / "file").write_text("")
    assert f"{folder}/file cannot be read (Not a directory)" in refusal(folder / "file")


@pytest.fixture
def others_folder():
    """A folder to take rights from, seen as a user who is not root: root may read everything."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        os.makedirs(f"{made}/sub")
        save(Path(made, "sub", "a.png"))
        yield Path(made)
        if os.getuid() == 0:
            os.seteuid(0)
        os.chmod(f"{made}/sub", 0o755)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="rights are of another kind here")
@pytest.mark.parametrize("closed", ["sub", "sub/a.png"])
def test_without_permission(others_folder, closed):
    os.chmod(others_folder / closed, 0)
    if os.getuid() == 0:
        os.seteuid(65534)
    for skip_broken in (False, True):  # not broken: to be told, not left out
        assert refusal(others_folder, skip_broken=skip_broken) == (
            f"{others_folder / closed} cannot be read (Permission denied); check its path and mode"
        )
