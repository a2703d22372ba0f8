"""dSprites, drawn: 737,280 white shapes on black, 64 x 64, one for each combination of six factors.

The set (Matthey, Higgins, Hassabis and Lerchner, 2017, github.com/google-deepmind/dsprites-dataset) shows a
square, an ellipse or a heart at 6 scales, 40 orientations and 32 x 32 positions. A pixel is lit if its
centre lies inside the shape, without anti-aliasing, so a rule can draw it and nobody needs a download. With
the shape's centre at (16 + 32 x, 16 + 32 y), x and y in i/31, a pixel at the offset (X, Y) from it is
turned by the orientation t,

    u = X cos t - Y sin t,    v = X sin t + Y cos t    (v < 0 is up),

and each shape has a *size* function, homogeneous in (u, v): the scale at which its outline passes through
the point. A pixel is lit if size(u, v) <= scale. The three outlines were fitted to true images: 258 of them
are reproduced bit for bit, and over the whole set 128,283,682 pixels are lit against 128,328,862 in the
official file (-0.035%). So the set is near-exact, not identical: never compare it with a checksum.

Why it is fast: along one axis the offset of column c from position i is

    c + .5 - (16 + 32 i/31) = k/31 - 15.5    with the integer k = 31 c - 32 i,

so the size function, evaluated once on that grid of step 1/31, holds every pixel of all 1,024 positions and,
compared with the six scales, of 6,144 images.

The official file is an .npz archive. Its `imgs` are 3 GB of bytes that are 0 or 1; they are unpacked a little at a time
and cached as bits (377 MB), like the drawn set; then the file is no longer needed. Its `metadata` is a pickle, which
would run code when loaded: that member is never opened. The factors of an image follow from its number.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from narrows._util.progress import Progress, silent, steps
from narrows.data.cache import Chunks, cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import PackedExamples
from narrows.data.factors import Factor, Factors, evenly
from narrows.data.named import formats
from narrows.data.named.download import RemoteFile
from narrows.data.readers.archives import read_header
from narrows.data.readers.shared import readable

_NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
OFFICIAL = RemoteFile(
    _NAME,
    (f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{_NAME}",),
    "md5:7da33b31b13a06f4b04a70402ce90c2e",
)
FILES = (OFFICIAL,)
SHAPES = ("square", "ellipse", "heart")

# In the order of the official file, last fastest: image number = np.ravel_multi_index(indices, SIZES).
# The first and the last orientation are the same angle; the official file has both.
FACTORS: tuple[Factor, ...] = (
    Factor("colour", (1.0,)),
    Factor("shape", (1.0, 2.0, 3.0), SHAPES),
    Factor("scale", evenly(0.5, 1, 6)),
    Factor("orientation", evenly(0, 2 * np.pi, 40)),
    Factor("x", evenly(0, 1, 32)),
    Factor("y", evenly(0, 1, 32)),
)
SIZES = tuple(factor.size for factor in FACTORS)
_SCALES, _ANGLES = FACTORS[2].values, FACTORS[3].values

_PIXELS, _POSITIONS = 64, 32
_BYTES = _PIXELS * _PIXELS // 8
_FILE = "dsprites-drawn-v1.npy"  # a change of the drawing rule needs a new version
_OFFICIAL = "dsprites-official-v1.npy"

_SQUARE_HALF_SIDE = 9.5975
_ELLIPSE_HALF_AXES = (12.7661, 7.21245)
# The heart's radius at 91 angles from the notch (up) to the tip (down); its two halves mirror each other.
# fmt: off
_HEART_RADII = np.array([
    5.1527, 5.7402, 6.3278, 6.9154, 7.4141, 7.9127, 8.2975, 8.678, 9.0539, 9.4299, 9.6781,
    9.9263, 10.1742, 10.3769, 10.5797, 10.7088, 10.8379, 10.967, 11.0388, 11.1106, 11.1798, 11.219,
    11.2582, 11.2509, 11.2436, 11.2253, 11.1743, 11.1233, 11.0722, 10.9767, 10.8811, 10.7685, 10.6558,
    10.4951, 10.3345, 10.1738, 9.993, 9.8123, 9.5929, 9.4142, 9.1961, 8.978, 8.7599, 8.5419,
    8.3409, 8.14, 7.9391, 7.723, 7.5536, 7.3949, 7.2361, 7.0774, 6.9426, 6.8078, 6.6866,
    6.5654, 6.4778, 6.3902, 6.3025, 6.2282, 6.154, 6.0797, 6.0434, 6.007, 5.9707, 5.9344,
    5.9137, 5.893, 5.8981, 5.9032, 5.9083, 5.9226, 5.9368, 5.9602, 6.0243, 6.0883, 6.1523,
    6.2163, 6.3056, 6.3948, 6.484, 6.583, 6.7656, 6.9482, 7.1307, 7.3133, 7.61, 7.9067,
    8.2266, 8.8806, 9.6095,
])
# fmt: on
_HEART_ANGLES = np.linspace(0, np.pi, len(_HEART_RADII))

# The grid k of the module's docstring, limited to where a pixel can be lit: the square's corners reach 13.573.
_REACH = 13.6
_K = np.arange(np.ceil(31 * (15.5 - _REACH)), np.floor(31 * (15.5 + _REACH)) + 1, dtype=np.int64)
_OFFSETS = _K / 31 - 15.5
# (position, pixel) -> index into the grid; one index beyond it stands for everything dark.
_INDEX = 31 * np.arange(_PIXELS) - 32 * np.arange(_POSITIONS)[:, np.newaxis] - _K[0]
_WHERE = np.where(np.isin(_INDEX, np.arange(_K.size)), _INDEX, _K.size)


def is_cached() -> bool:
    """Return whether the cache holds the official set, so that its file need not be fetched."""
    return open_cached(cache_folder() / _OFFICIAL, (_BYTES,), np.dtype(np.uint8), Factors(FACTORS).count) is not None


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the official set from the cache, which is filled from the file in `folder` first."""
    return _cached(_OFFICIAL, lambda: _packed(folder / OFFICIAL.name, progress), "the official file")


def drawn() -> Data:
    """Return the whole set, from the cache or drawn now (some seconds, 377 MB)."""
    return _cached(_FILE, draw, "drawn (no download)")


def _cached(file_name: str, chunks: Chunks, note: str) -> Data:
    factors = Factors(FACTORS)
    bits, where = cached_array(file_name, (_BYTES,), np.uint8, chunks, factors.count)
    examples = PackedExamples(bits, shape=(1, _PIXELS, _PIXELS))
    return Data("dsprites", examples, "unit", note=f"{note}, {where}", factors=factors)


def _packed(path: Path, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the images of the official file, some (n, 512) uint8 of packed bits at a time."""
    count = Factors(FACTORS).count
    with (
        readable(path, "an .npz file", remedy=formats.FETCH_AGAIN),
        zipfile.ZipFile(path) as archive,
        archive.open("imgs.npy") as file,
    ):
        header = read_header(file, f"{path}: imgs")
        if header.fortran:
            raise ValueError("imgs is stored column by column")
        formats.check_images(f"{path}: imgs", header.shape, header.dtype, (count, _PIXELS, _PIXELS))
        rows = formats.AT_ONCE // _PIXELS**2
        for part in steps(count, rows, "packing dSprites", progress):
            images = np.frombuffer(file.read((part.stop - part.start) * _PIXELS**2), np.uint8)
            yield np.packbits(images.reshape(-1, _PIXELS**2), axis=1)


def draw() -> Iterator[np.ndarray]:
    """Draw all images, bit-packed, in the order of FACTORS: for each shape (245760, 512) uint8."""
    for shape in range(len(SHAPES)):
        bits = np.empty((*SIZES[2:], _BYTES), np.uint8)
        for orientation in range(len(_ANGLES)):
            bits[:, orientation] = draw_sprite(shape, orientation)
        yield bits.reshape(-1, _BYTES)


def draw_sprite(shape: int, orientation: int) -> np.ndarray:
    """Draw one shape at one orientation, at all scales and positions, packed: (6, x 32, y 32, 512) uint8."""
    size = _size(SHAPES[shape], _ANGLES[orientation])
    bits = np.empty((len(_SCALES), _POSITIONS, _POSITIONS, _BYTES), np.uint8)
    lit = np.zeros((_K.size + 1, _K.size + 1), np.bool_)
    for scale, largest in enumerate(_SCALES):
        np.less_equal(size, largest, out=lit[:-1, :-1])
        # A row of 64 pixels is one 8-byte word: pack the rows once for each x, then pick 64 words for each y.
        rows = np.packbits(np.take(lit, _WHERE, axis=1), axis=-1).view(np.uint64)[..., 0]
        images = np.take(np.ascontiguousarray(rows.T), _WHERE, axis=1)
        bits[scale] = images.view(np.uint8)
    return bits


def _size(shape: str, angle: float) -> np.ndarray:
    """Return on the (row, column) grid the scale at which the outline passes through each point."""
    x, y = _OFFSETS, _OFFSETS[:, np.newaxis]
    u = x * np.cos(angle) - y * np.sin(angle)
    v = x * np.sin(angle) + y * np.cos(angle)
    if shape == "square":
        return np.maximum(np.abs(u), np.abs(v)) / _SQUARE_HALF_SIDE
    if shape == "ellipse":
        return np.hypot(u / _ELLIPSE_HALF_AXES[0], v / _ELLIPSE_HALF_AXES[1])
    from_up = np.arctan2(np.abs(u), -v)
    return np.hypot(u, v) / np.interp(from_up, _HEART_ANGLES, _HEART_RADII)
