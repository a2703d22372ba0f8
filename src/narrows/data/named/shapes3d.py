"""Shapes3D, drawn: 480,000 coloured images, 64 x 64, of one object in a room, one for each combination of six factors.

The set (Burgess and Kim, 2018, github.com/google-deepmind/3d-shapes) varies the hues of floor, wall and object, the
object's scale and shape, and the angle from which the room is seen. A small ray caster draws it, so nobody needs a
download:

* the room: a floor, a back wall and two side walls under a plain sky; the object stands in the middle, and the
  camera moves around it at a fixed distance and height, at an angle a of -30 to 30 degrees;
* the light on a point with the normal n: ambient light, a lamp that shines along the camera's direction f, and a
  spotlight at l(p) from the point, with a cone around the vertical z, that casts the object's shadow,

      gain = ambient + headlight max(0, -n.f) + spot max(0, n.l) (z.l)^10;

* a pixel's colour: HSV(k / 10, 1, 1) of its surface times the gain, plus a little white where the spotlight falls on
  the object, sampled 3 x 3 times a pixel, reduced with a bicubic filter and cut at 255.

Its 21 numbers were fitted to 50 true images, which the drawn ones match with a PSNR of 32.0 dB on average and 28.8 dB
at worst (docs/shapes3d.png). These images came with factors that had been inferred from their pixels; the scale of
seven is taken one step lower here, where the match is better by 4.5 to 11.5 dB (as they came: 30.9 dB and 20.6 dB). The
faint pattern on the true walls and floor is left out. So the set is near the official one, not identical: never
compare it with a checksum.

Why it is fast and small: the hues move no edge, so only 8 x 4 x 15 = 480 *geometries* are drawn. Each of their
pixels is a mixture, so much of the floor's colour, so much of the wall's, ..., and a few thousand mixtures, rounded,
serve them all. What is kept is the number of each pixel's mixture (4 MB) and the bytes of every mixture under all
1,000 choices of hues (7 MB); a batch is one lookup.

The official file is compressed HDF5: no image can be read without unpacking the whole block it is in. It is converted
once, block by block, to a plain array (5.9 GB) in the cache; then the file is no longer needed. The factors of an image
follow from its number.
"""

import colorsys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from narrows._util.progress import Progress, silent, steps
from narrows.data.cache import cache_folder, cached_array, open_cached
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.factors import Factor, Factors, evenly, kinds
from narrows.data.named import formats
from narrows.data.named.download import RemoteFile
from narrows.data.readers.hdf5 import open_hdf5, rows_at_once

OFFICIAL = RemoteFile(
    "3dshapes.h5",
    ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
    "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
    267_573_662,
)
FILES = (OFFICIAL,)
SHAPES = ("cube", "cylinder", "sphere", "capsule")

# In the order of the official file, last fastest: image number = np.ravel_multi_index(indices, SIZES).
_HUES = tuple(k / 10 for k in range(10))
FACTORS: tuple[Factor, ...] = (
    Factor("floor_hue", _HUES),
    Factor("wall_hue", _HUES),
    Factor("object_hue", _HUES),
    Factor("scale", evenly(0.75, 1.25, 8)),
    kinds("shape", SHAPES),
    Factor("orientation", evenly(-30, 30, 15)),
)
SIZES = tuple(factor.size for factor in FACTORS)
LAYERS = ("floor", "wall", "object", "white", "sky")
"""What a pixel's mixture is made of."""

_PIXELS = 64
_SAMPLES = 3  # of a pixel, along each axis
_COLOURS = np.array([colorsys.hsv_to_rgb(hue, 1, 1) for hue in _HUES], np.float32)
_SKY = np.array([153, 226, 249], np.float32) / 255
_GEOMETRIES = int(np.prod(SIZES[3:]))
_FILE = "shapes3d-drawn-v1.npy"  # a change of the drawing rule needs a new version
_OFFICIAL, _ROW = "shapes3d-official-v1.npy", (_PIXELS, _PIXELS, 3)

# Fitted to true images. Lengths are in units of which the back wall is 3.5 away from the object.
_FIELD_OF_VIEW, _TILT = 0.7928, 0.0396  # radians; the camera looks a little down
_DISTANCE, _EYE_HEIGHT = 3.3221, 1.0373
_BACK, _SIDE, _WALL_HEIGHT = 3.5, 3.5278, 2.0334
_CUBE = 0.4236  # half its side
_CYLINDER = (0.4500, 0.4572)  # radius, half its height
_SPHERE = 0.5111
_CAPSULE = (0.3868, 0.3928)  # radius, half the length of its straight part
_LIGHT = np.array([-1.476, 0.445, 7.771], np.float32)
_AMBIENT, _HEADLIGHT, _SPOT, _CONE = 0.3371, 0.6153, 0.9504, 10
_WALL = 0.9770  # of the light on a wall comes back; floor and object: all
_GLOSS, _GLOSS_EDGE = 0.1178, 0.0583  # how white; over which range of n.l it sets in

# A pixel's weights on the samples around its middle one: the cubic kernel (a = -1/2), two pixels to each side.
_X = np.abs(np.arange(1 - 2 * _SAMPLES, 2 * _SAMPLES)) / _SAMPLES
_BICUBIC = np.where(_X < 1, 1.5 * _X**3 - 2.5 * _X**2 + 1, -0.5 * _X**3 + 2.5 * _X**2 - 4 * _X + 2).astype(np.float32)
_BICUBIC /= _BICUBIC.sum()

Hits = tuple[np.ndarray, np.ndarray]
"""How many times its length each ray goes before it meets the object (inf: never), and the normal there."""

# Steps of the mixtures: fine where a pixel shows one surface (no bands on the floor), coarser on edges.
_FINE, _COARSE = 128, 16


@dataclass(frozen=True, eq=False)
class Shapes3DExamples:
    """The images, coloured when a batch asks for them."""

    maps: np.ndarray  # (480, 64 * 64) uint16: for each geometry, the number of each pixel's mixture
    palette: np.ndarray  # (1000, mixtures, 3) uint8: for each choice of hues, the colour of each mixture

    @property
    def shape(self) -> tuple[int, ...]:
        """One image as the networks see it."""
        return (3, _PIXELS, _PIXELS)

    def __len__(self) -> int:
        return len(self.palette) * len(self.maps)

    def batch(self, index: np.ndarray) -> torch.Tensor:
        """Return the images at `index`, see `Examples.batch`."""
        rows = np.multiply(self.bytes_of(index), np.float32(1 / 255), dtype=np.float32)
        return torch.from_numpy(rows).permute(0, 3, 1, 2)

    def bytes_of(self, index: np.ndarray) -> np.ndarray:
        """Return the images at `index` as the official file holds them: (len(index), 64, 64, 3) uint8."""
        hues, geometry = np.divmod(np.asarray(index, np.int64), len(self.maps))
        combinations, mixtures, _ = self.palette.shape
        first = (np.arange(combinations) * mixtures)[hues]  # an index outside the set fails here
        where = np.add(self.maps[geometry], first[:, np.newaxis], dtype=np.intp)
        pixels = np.take(self.palette.reshape(-1, 3), where, axis=0, mode="clip")
        return pixels.reshape(-1, _PIXELS, _PIXELS, 3)


def is_cached() -> bool:
    """Return whether the cache holds the official set, so that its file need not be fetched."""
    return open_cached(cache_folder() / _OFFICIAL, _ROW, np.dtype(np.uint8), Factors(FACTORS).count) is not None


def read(folder: Path, progress: Progress = silent) -> Data:
    """Return the official set from the cache, which is filled from the file in `folder` first."""
    path, factors = folder / OFFICIAL.name, Factors(FACTORS)
    pixels, where = cached_array(_OFFICIAL, _ROW, np.uint8, lambda: _converted(path, factors, progress), factors.count)
    examples = ArrayExamples(pixels, 1 / 255)
    return Data("shapes3d", examples, "unit", note=f"the official file, {where}", factors=factors)


def _converted(path: Path, factors: Factors, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the images of the official file, some (n, 64, 64, 3) uint8 at a time."""
    count = factors.count
    with open_hdf5(path, remedy=formats.FETCH_AGAIN) as file:
        images = file["images"]
        formats.check_images(f"{path}: images", images.shape, images.dtype, (count, *_ROW))
        for part in steps(count, rows_at_once(images), "converting 3D Shapes", progress):
            yield images[part]


def drawn() -> Data:
    """Return the whole set, from the cache or drawn now (some seconds, 11 MB)."""
    rows, where = cached_array(_FILE, (_PIXELS * _PIXELS,), np.uint16, draw, _GEOMETRIES + len(LAYERS))
    maps = np.array(rows[:_GEOMETRIES])
    amounts = rows[_GEOMETRIES:, : maps.max() + 1].T.astype(np.int16)
    examples = Shapes3DExamples(maps, _palette(amounts / np.float32(_FINE)))
    note = f"drawn (no download), near the official set, not identical, {where}"
    return Data("shapes3d", examples, "unit", note=note, factors=Factors(FACTORS))


def draw() -> Iterator[np.ndarray]:
    """Draw all geometries: their maps, one a row, and then a row for each layer with its amount in every mixture."""
    amounts = np.empty((*SIZES[3:], _PIXELS * _PIXELS, len(LAYERS)), np.int16)
    for orientation, scale, shape in np.ndindex(SIZES[5], SIZES[3], SIZES[4]):
        mixture = draw_geometry(scale, shape, orientation)
        amounts[scale, shape, orientation] = _rounded(mixture).reshape(-1, len(LAYERS))
    mixtures, maps = _distinct(amounts.reshape(-1, len(LAYERS)))
    yield maps.reshape(_GEOMETRIES, -1)
    yield np.pad(mixtures.T, ((0, 0), (0, _PIXELS * _PIXELS - len(mixtures)))).astype(np.uint16)


def draw_geometry(scale: int, shape: int, orientation: int) -> np.ndarray:
    """Draw one geometry, given by factor indices: (64, 64, 5) float32, how much of each of LAYERS a pixel shows."""
    view = _view(FACTORS[5].values[orientation])
    size = FACTORS[3].values[scale]
    layers = view.layers.copy()

    to_light = _LIGHT - view.floor_points
    dark = np.isfinite(_first_hit(SHAPES[shape], size, view.floor_points, to_light)[0])
    layers[view.floor[dark]] = 0
    layers[view.floor[dark], 0] = _AMBIENT + _HEADLIGHT * np.sin(_TILT)

    distance, normals = _first_hit(SHAPES[shape], size, view.eye, view.rays)
    hit = np.flatnonzero(np.isfinite(distance))
    points = view.eye + distance[hit, np.newaxis] * view.rays[hit]
    gain, facing = _light(points, normals[hit], view.forward)
    layers[hit] = 0
    layers[hit, 2] = gain
    layers[hit, 3] = _GLOSS * np.clip(facing / _GLOSS_EDGE + 0.5, 0, 1)

    side = _PIXELS * _SAMPLES
    rows = _reduce(layers.reshape(side, side, len(LAYERS)))
    return _reduce(rows.transpose(1, 0, 2)).transpose(1, 0, 2)


class _View(NamedTuple):
    """The empty room from one angle, sampled along 192 x 192 rays."""

    eye: np.ndarray
    forward: np.ndarray
    rays: np.ndarray  # (samples, 3)
    layers: np.ndarray  # (samples, 5)
    floor: np.ndarray  # which samples show the floor,
    floor_points: np.ndarray  # and where


@lru_cache(maxsize=1)
def _view(degrees: float) -> _View:
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    eye = np.array([_DISTANCE * sine, -_DISTANCE * cosine, _EYE_HEIGHT], np.float32)
    forward = np.array([-sine * np.cos(_TILT), cosine * np.cos(_TILT), -np.sin(_TILT)])
    right = np.array([cosine, sine, 0])
    count = _PIXELS * _SAMPLES
    across = np.tan(_FIELD_OF_VIEW / 2) * ((2 * np.arange(count) + 1) / count - 1)
    rays = forward - across[:, np.newaxis, np.newaxis] * np.cross(right, forward) + across[:, np.newaxis] * right
    rays = rays.reshape(-1, 3).astype(np.float32)

    # No ray is parallel to a wall or to the floor; planes behind the camera are infinitely far.
    planes = np.array([np.copysign(_SIDE, rays[:, 0]), np.full(len(rays), _BACK), np.zeros(len(rays))], np.float32).T
    distances = (planes - eye) / rays
    distances[distances < 0] = np.inf
    nearest = distances.argmin(axis=1)
    points = eye + distances.min(axis=1, keepdims=True) * rays
    normals = np.zeros_like(rays)
    normals[nearest == 0, 0] = -np.sign(rays[nearest == 0, 0])
    normals[nearest == 1, 1] = -1
    normals[nearest == 2, 2] = 1

    gain, _ = _light(points, normals, forward)
    floor = nearest == 2
    sky = points[:, 2] > _WALL_HEIGHT
    wall = ~floor & ~sky
    layers = np.stack([floor * gain, wall * _WALL * gain, 0 * gain, 0 * gain, sky], axis=-1).astype(np.float32)
    return _View(eye, forward, rays, layers, np.flatnonzero(floor), points[floor])


def _light(points: np.ndarray, normals: np.ndarray, forward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gain at each point and the cosine n.l between its normal and the spotlight."""
    to_light = _LIGHT - points
    to_light /= np.sqrt(_dot(to_light, to_light))[:, np.newaxis]
    facing = _dot(normals, to_light)
    headlight = np.maximum(0, -(normals @ forward))
    cone = np.maximum(0, to_light[:, 2]) ** _CONE
    return _AMBIENT + _HEADLIGHT * headlight + _SPOT * np.maximum(0, facing) * cone, facing


def _first_hit(shape: str, size: float, origins: np.ndarray, rays: np.ndarray) -> Hits:
    """Return where each ray first meets the object."""
    objects: dict[str, tuple[float, float, Callable[..., Hits]]] = {
        "cube": (_CUBE, np.sqrt(3) * _CUBE, _meet_cube),
        "cylinder": (_CYLINDER[1], np.hypot(*_CYLINDER), _meet_cylinder),
        "sphere": (_SPHERE, _SPHERE, partial(_meet_capsule, radius=_SPHERE, half_length=0)),
        "capsule": (sum(_CAPSULE), sum(_CAPSULE), partial(_meet_capsule, radius=_CAPSULE[0], half_length=_CAPSULE[1])),
    }
    half_height, reach, meet = objects[shape]
    # In the object's own frame it has size 1 and its centre at the origin.
    starts = np.broadcast_to(origins / np.float32(size) - np.array([0, 0, half_height], np.float32), rays.shape)
    passing = _dot(starts, starts) - _dot(starts, rays) ** 2 / _dot(rays, rays)
    near = np.flatnonzero(passing < reach**2)  # the others miss a ball around the object

    distance = np.full(len(rays), np.inf, np.float32)
    normals = np.zeros_like(rays)
    distance[near], normals[near] = meet(starts[near], rays[near])
    distance[distance <= 0] = np.inf
    return distance * np.float32(size), normals


def _meet_cube(starts: np.ndarray, rays: np.ndarray) -> Hits:
    outward = -np.sign(rays)  # of the three faces a ray can enter by
    enter, leave = (_CUBE * outward - starts) / rays, (-_CUBE * outward - starts) / rays
    last = enter.max(axis=1)
    normals = np.where(enter == last[:, np.newaxis], outward, 0)
    return np.where(last < leave.min(axis=1), last, np.inf), normals


def _meet_cylinder(starts: np.ndarray, rays: np.ndarray) -> Hits:
    radius, half_height = _CYLINDER
    outward = -np.sign(rays[:, 2])  # of the flat face a ray can enter by
    flat = (outward * half_height - starts[:, 2]) / rays[:, 2]
    opposite = (-outward * half_height - starts[:, 2]) / rays[:, 2]
    enter, leave = _meet_round(starts[:, :2], rays[:, :2], radius)
    last = np.maximum(enter, flat)
    distance = np.where(last < np.minimum(leave, opposite), last, np.inf)
    normals = np.zeros_like(rays)
    curved = np.isfinite(distance) & (enter > flat)
    normals[curved, :2] = (starts[curved, :2] + distance[curved, np.newaxis] * rays[curved, :2]) / radius
    normals[~curved, 2] = outward[~curved]
    return distance, normals


def _meet_capsule(starts: np.ndarray, rays: np.ndarray, radius: float, half_length: float) -> Hits:
    """All points at `radius` from an upright line of half the length `half_length`; with none, a sphere."""
    axis = np.array([0, 0, 1], np.float32)
    tube, _ = _meet_round(starts[:, :2], rays[:, :2], radius)
    height = starts[:, 2] + tube * rays[:, 2]
    end = np.clip(height, -half_length, half_length)
    ball, _ = _meet_round(starts - end[:, np.newaxis] * axis, rays, radius)
    distance = np.where(np.abs(height) < half_length, tube, ball)
    points = starts + np.where(np.isfinite(distance), distance, 0)[:, np.newaxis] * rays
    centres = np.clip(points[:, 2:], -half_length, half_length) * axis
    return distance, (points - centres) / radius


def _meet_round(starts: np.ndarray, rays: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Return where rays enter and leave a ball (3 axes) or a tube (2 axes) around the origin; (inf, -inf): nowhere."""
    a, b = _dot(rays, rays), _dot(starts, rays)
    under_root = b * b - a * (_dot(starts, starts) - radius**2)
    root = np.sqrt(np.maximum(under_root, 0))
    meets = under_root > 0
    return np.where(meets, (-b - root) / a, np.inf), np.where(meets, (root - b) / a, -np.inf)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)


def _reduce(samples: np.ndarray) -> np.ndarray:
    """Reduce the first axis from samples to pixels; the edge goes on beyond the image."""
    reach = len(_BICUBIC) // 2 - _SAMPLES // 2
    padded = np.pad(samples, ((reach, reach), (0, 0), (0, 0)), mode="edge")
    last = len(samples) - _SAMPLES + 1
    pixels = np.zeros((_PIXELS, *samples.shape[1:]), np.float32)
    for tap, weight in enumerate(_BICUBIC):
        pixels += weight * padded[tap : tap + last : _SAMPLES]
    return pixels


def _rounded(mixture: np.ndarray) -> np.ndarray:
    """Round a mixture to whole multiples of 1 / _FINE; where it mixes surfaces, of 1 / _COARSE."""
    coarse = np.rint(_COARSE * mixture) * (_FINE // _COARSE)
    surfaces = np.count_nonzero(coarse[..., [0, 1, 2, 4]], axis=-1, keepdims=True)
    fine = np.where(coarse == 0, 0, np.rint(_FINE * mixture))
    return np.where(surfaces == 1, fine, coarse)


def _distinct(amounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of `amounts` and, for each row, the number of its like."""
    keys = np.ravel_multi_index(tuple(amounts.T + 512), (1024,) * len(LAYERS))  # amounts are from -512 to 511
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    assert len(first) <= _PIXELS * _PIXELS, "the mixtures must fit into a row of the cached array"
    return amounts[first], number.astype(np.uint16)


def _palette(mixtures: np.ndarray) -> np.ndarray:
    """Return the bytes of each mixture (rows of LAYERS) under every choice of hues: (1000, len(mixtures), 3) uint8."""
    palette = np.empty((*SIZES[:3], len(mixtures), 3), np.uint8)
    floor, wall, thing = (_COLOURS[:, np.newaxis] * mixtures[:, layer, np.newaxis] for layer in range(3))
    rest = mixtures[:, 3, np.newaxis] + mixtures[:, 4, np.newaxis] * _SKY
    for hue in range(SIZES[0]):
        colours = (rest + floor[hue] + wall)[:, np.newaxis] + thing
        palette[hue] = np.rint(255 * np.clip(colours, 0, 1))
    return palette.reshape(-1, len(mixtures), 3)
