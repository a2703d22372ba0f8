"""A folder of images, decoded once into one array on disk and mapped from there.

image_files.py finds the images in the folder and all folders below it, sorted by their paths relative to the folder.
The same rules apply to every image:

=============  =========================================================================================
orientation    the camera's, from EXIF, is applied (in a PNG, if EXIF comes before the pixels)
animations     the first frame
pixels         at most Pillow's limit, 178,956,970 per file (twice its MAX_IMAGE_PIXELS); larger files count as broken
bits           sixteen-bit greys are scaled to eight: round(v / 257)
channels       one if every file is grey (modes 1, L, LA and 16 bits), else RGB; palettes and CMYK are converted
transparency   is composited over black
without size   all images must have the same height and width, each of at most 256 pixels
with size      scaled to cover (height, width) with a Lanczos filter, keeping the aspect, then cropped to the centre; a
               JPEG more than twice as large is decoded at 1/2, 1/4 or 1/8, which is faster and costs no detail
=============  =========================================================================================

Decoding takes two parallel passes: one over the headers, whose sizes and modes give the array's shape, and one over the
pixels, in chunks. The name of the cached array depends on the paths, sizes and times of all files, so that a changed
folder is decoded again; a small .json beside it holds the shape of a row and the names of the files left out.
"""

import contextlib
import hashlib
import itertools
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from narrows._util.errors import NarrowsError, OptionError, setting
from narrows._util.files import special_kind, write_atomic
from narrows._util.progress import Progress, silent, steps
from narrows._util.room import amount, free_memory
from narrows._util.text import printable
from narrows.data.cache import cache_folder, cached_array
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.readers.image_files import ENDINGS, find_images

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FORMATS = ("PNG", "JPEG", "WEBP")
"""The formats of a folder's images, as Pillow calls them."""
SMALLEST, LARGEST = 1, 256

_VERSION = 1  # a change of the rules above needs a new version
_CHUNK, _PIECE = 256, 16  # images written at a time; images per piece of a thread's work
_GREY = ("1", "L", "LA", "La")
# Pillow's names for the EXIF orientations 2 to 8.
_TURNS = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
_DECODING = 12  # bytes of memory per pixel, at most
_LARGE = 1 << 24  # pixels; images that have more are decoded one at a time
_STRIP = 1 << 22  # pixels that are composited at a time
_large_images = threading.Lock()
_T = TypeVar("_T")


def load_images(
    folder: Path, size: tuple[int, int] | None = None, skip_broken: bool = False, progress: Progress = silent
) -> Data:
    """Return the images in `folder` and below as `Data`, by the rules above; `size` is (height, width)."""
    files, others = find_images(folder)
    if not files:
        raise NarrowsError(
            f"{folder} holds no images ({', '.join(ENDINGS)}) and {others:,} other files; "
            "use a folder that holds images, at any depth"
        )
    root = os.path.abspath(folder)
    paths = [file for file, _, _ in files]
    pictures = Pictures(
        str(folder),
        len(files),
        read=lambda numbers: [os.path.join(root, paths[i]) for i in numbers],
        name=lambda i: printable(os.path.join(folder, paths[i])),
        remedy="repair or remove it",
        option=f"; {setting('skip_broken')} leaves such files out",
        formats=FORMATS,
    )
    key = hashlib.sha256(repr((_VERSION, root, files, size, skip_broken)).encode()).hexdigest()[:24]
    array, skipped, where = cached_pictures(pictures, f"images-{key}", size, skip_broken, progress)
    note = f"{len(array):,} images from {folder}" + (f" (other files: {others:,})" if others else "")
    if left_out := len(files) - len(array):
        first = f", first {skipped[0]}" if skipped else ""
        note += f" ({left_out:,} broken left out{first})"
    return Data(Path(root).name, ArrayExamples(array, 1 / 255), "unit", note=f"{note}, {where}")


@dataclass(frozen=True, eq=False)
class Pictures:
    """Encoded images by number, in files or in a table, and how errors describe them."""

    where: str
    """The name of the whole, for errors."""
    count: int
    """Number of images."""
    read: Callable[[range], list[str] | list[BinaryIO]]
    """Returns the paths or open files of some of them."""
    name: Callable[[int], str]
    """Returns the name of one, for errors."""
    remedy: str
    """What the user can do about a broken one."""
    formats: tuple[str, ...]
    """The formats that are accepted, as Pillow calls them."""
    option: str = ""
    """The option that helps, to follow the remedy."""


def cached_pictures(
    pictures: Pictures, file_name: str, size: tuple[int, int] | None, skip_broken: bool, progress: Progress
) -> tuple[np.ndarray, list[str], str]:
    """Return (N, H, W, C) uint8, from the cache or decoded now, the names of those left out, and where it is kept."""
    known = _recall(file_name)
    skipped = known[1] if known else []
    count = None if skip_broken and not known else pictures.count - len(skipped)
    # Pillow warns of odd EXIF and palettes, which do not matter here. All threads share one list of filters.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = known[0] if known else _row(pictures, size, skip_broken, progress)

        def chunks() -> Iterator[np.ndarray]:
            skipped.clear()
            left_out = skipped if skip_broken else None
            images = _decoded(pictures, lambda i: to_array(i, size, row[2]), left_out, "decoding images", progress)
            while chunk := list(itertools.islice(images, _CHUNK)):
                for i, image in chunk:
                    if image.shape != row:
                        raise NarrowsError(
                            f"{pictures.name(i)} now has the shape {image.shape}, not {row}: it changed while it was "
                            "read; load it again"
                        )
                yield np.stack([image for _, image in chunk])
            with contextlib.suppress(OSError):
                write_atomic(cache_folder() / f"{file_name}.json", json.dumps({"row": row, "skipped": skipped}))

        array, where = cached_array(f"{file_name}.npy", row, np.uint8, chunks, count, pictures.where)
    return array, skipped, where


def to_array(image: "Picture", size: tuple[int, int] | None = None, channels: int | None = None) -> np.ndarray:
    """Return `image` as (H, W, channels) uint8 by the rules above; `channels` None for 1 if it is grey, else 3."""
    from PIL import Image, ImageOps

    channels = channels or channels_of(image)
    orientation = orientation_of(image)
    if size:
        width, height = (size[1], size[0]) if orientation < 5 else size
        image.draft(None, (2 * width, 2 * height))
    image = _flat(image, "L" if channels == 1 else "RGB")
    if size:
        image = ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS)
    if orientation > 1:
        image = image.transpose(Image.Transpose[_TURNS[orientation - 2]])
    pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], channels)


def channels_of(image: "Picture") -> int:
    """Return 1 for a grey image, 3 for any other."""
    return 1 if image.mode in _GREY or image.mode.startswith("I") else 3


def orientation_of(image: "Picture") -> int:
    """Return the EXIF orientation, 1 (upright) to 8; 5 and more swap the sides."""
    if image.format == "PNG" and not {"exif", "Raw profile type exif"} & image.info.keys():
        return 1  # Pillow would decode the whole image to look for it after the pixels
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # an image with damaged EXIF can still be used
        return 1
    return orientation if orientation in range(1, 9) else 1


def _row(
    pictures: Pictures, size: tuple[int, int] | None, skip_broken: bool, progress: Progress
) -> tuple[int, int, int]:
    """Return the (H, W, C) that all images will have, from their headers."""
    first: dict[tuple[int, int], int] = {}  # (H, W): the first image of that size
    channels = 0
    headers = _decoded(pictures, _header, [] if skip_broken else None, "reading image headers", progress)
    for i, (height, width, colours) in headers:
        first.setdefault((height, width), i)
        channels = max(channels, colours)
    if size:
        return (*size, channels)
    (one, number), *rest = first.items()
    if rest:
        other, other_number = rest[0]
        problem = (
            f"{len(first)} sizes, for example {pictures.name(number)} of {one[0]} x {one[1]} and "
            f"{pictures.name(other_number)} of {other[0]} x {other[1]} pixels"
        )
    elif not all(SMALLEST <= side <= LARGEST for side in one):
        problem = f"{one[0]} x {one[1]} pixels, not of {SMALLEST} to {LARGEST}"
    else:
        return (*one, channels)
    raise OptionError(
        f"{pictures.where}: images of {problem}",
        f"scale all to one size with {setting('image_size', 64)}",
        "scale all to the size that the model takes",
    )


def _decoded(
    pictures: Pictures, decode: "Callable[[Picture], _T]", skipped: list[str] | None, what: str, progress: Progress
) -> Iterator[tuple[int, _T]]:
    """Yield (number, decode(image)) of the good images in order; Pillow decodes outside the interpreter lock.

    The names of broken ones are appended to `skipped`; if it is None, the first broken one raises.
    """

    def piece(numbers: range) -> list[_T | str]:
        return [opened(file, pictures.formats, decode) for file in pictures.read(numbers)]

    pool = ThreadPoolExecutor(min(32, os.cpu_count() or 1))
    try:
        for part in steps(pictures.count, _CHUNK, what, progress):
            chunk = range(part.start, part.stop)
            pieces = [chunk[at : at + _PIECE] for at in range(0, len(chunk), _PIECE)]
            for i, result in zip(chunk, itertools.chain.from_iterable(pool.map(piece, pieces)), strict=True):
                if not isinstance(result, str):
                    yield i, result
                    continue
                name, remedy = pictures.name(i), pictures.remedy
                if skipped is None:
                    raise OptionError(f"{name} is a broken image ({result})", remedy + pictures.option, remedy)
                skipped.append(name)
    finally:
        pool.shutdown(cancel_futures=True)
    if len(skipped or []) == pictures.count:
        raise NarrowsError(f"{pictures.where}: all {pictures.count:,} images are broken; use others")


class _NoMemory(NarrowsError):
    """An image that is not broken, but needs more memory than is free."""


def opened(
    file: str | BinaryIO, formats: Iterable[str], decode: "Callable[[Picture], _T]", most: int | None = None
) -> _T | str:
    """Return the result of `decode` on the image of at most `most` pixels, or in a few words why it is broken."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(file, str) and (kind := special_kind(file)):
        return f"it is {kind}, not a file"
    try:
        with Image.open(file, formats=tuple(formats)) as image:
            pixels = image.width * image.height
            if most and pixels > most:
                return f"it has {pixels:,} pixels, and at most {most:,} are accepted"
            if pixels <= _LARGE:
                return decode(image)
            with _large_images:
                if (needed := _DECODING * pixels) > (free := free_memory()):
                    raise _NoMemory(
                        f"{file if isinstance(file, str) else 'this image'} has {pixels:,} pixels, which need "
                        f"{amount(needed)} of memory to decode, and {amount(free)} are free; make it smaller"
                    )
                return decode(image)
    except Image.DecompressionBombError:  # which does not say the size
        return f"it has more than {most or 2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels, the most that are accepted"
    except PermissionError as error:
        raise NarrowsError(f"{file} cannot be read ({error.strerror}); check its path and mode") from None
    except MemoryError:
        name = file if isinstance(file, str) else "this image"
        raise _NoMemory(f"{name} needs more memory to decode than is free; make it smaller") from None
    except _NoMemory:
        raise
    except UnidentifiedImageError:
        return f"it is not one of {', '.join(formats)}"
    except FileNotFoundError:
        return "a broken symlink"
    except Exception as error:  # damaged bytes can break Pillow's readers in any way
        return printable(str(error).partition("\n")[0]) or type(error).__name__


def _header(image: "Picture") -> tuple[int, int, int]:
    height, width = image.size if orientation_of(image) >= 5 else image.size[::-1]
    return height, width, channels_of(image)


def _flat(image: "Picture", mode: str) -> "Picture":
    """Return `image` in mode L or RGB, composited over black."""
    from PIL import Image

    if image.mode == "F":
        raise NarrowsError("an image of mode F (floats) has no defined range; pass an array instead")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise NarrowsError("an image of mode I has values outside 0..65535; pass an array instead")
        if (clear := image.info.get("transparency")) is not None:
            values[values == clear] = 0
        return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert(mode)
    if not image.has_transparency_data:
        return image.convert(mode)
    flat = Image.new(mode, image.size)
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        strip = image.crop(box).convert("RGBA")
        flat.paste(strip.convert(mode), box, mask=strip.getchannel("A"))
    return flat


def _recall(file_name: str) -> tuple[tuple[int, int, int], list[str]] | None:
    try:
        facts = json.loads((cache_folder() / f"{file_name}.json").read_text("utf-8"))
        height, width, channels = map(int, facts["row"])
        return (height, width, channels), [str(name) for name in facts["skipped"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
