"""A folder of images, decoded once into one array on disk and mapped from there.

PNG, JPEG and WebP files are found by their endings in the folder and the folders below it, those behind links too
(each real folder once, so a loop of links ends); hidden ones, whose names start with a dot, are not looked at. The
order is that of their paths relative to the folder. Every image comes out by the same rules:

=============  =========================================================================================
orientation    the camera's, from EXIF, is applied (of a PNG, where EXIF stands before the pixels)
animations     the first frame
pixels         as many as Pillow takes, 178,956,970 a file (twice its MAX_IMAGE_PIXELS); more count as broken
bits           sixteen-bit greys are scaled to eight: round(v / 257)
channels       one if every file is grey (modes 1, L, LA and 16 bits), else RGB; palettes and CMYK are converted
transparency   is laid over black
without size   all images have one height and width, each of at most 256 pixels
with size      scaled to cover (height, width) with a Lanczos filter, aspect kept, and the centre cut out; a JPEG
               more than twice as large is decoded at 1/2, 1/4 or 1/8, which is faster and costs no detail
=============  =========================================================================================

Decoding is two parallel passes: the headers tell sizes and modes, hence the array's shape, then the pixels follow in
chunks. The cached array is named by the paths, sizes and times of all files, so that a changed folder is decoded
anew; a small .json beside it holds what the array cannot say: its row and the names of the files left out.
"""

import contextlib
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from narrows.data.cache import cache_folder, cached_array
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples
from narrows.data.progress import Progress, silent
from narrows.errors import NarrowsError, OptionError
from narrows.files import write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
FORMATS = ("PNG", "JPEG", "WEBP")
"""The same, as Pillow calls them."""
SMALLEST, LARGEST = 1, 256

_VERSION = 1  # a change of the rules above needs a new one
_CHUNK, _PIECE = 256, 16  # images written at a time; images a thread takes at a time
_GREY = ("1", "L", "LA", "La")
# For the EXIF orientations 2 to 8, in Pillow's words.
_TURNS = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
_T = TypeVar("_T")
_R = TypeVar("_R")


def load_images(
    folder: Path, size: tuple[int, int] | None = None, skip_broken: bool = False, progress: Progress = silent
) -> Data:
    """Return the images below `folder` as Data, by the rules above; `size` is (height, width)."""
    check_size(size)
    folder = Path(os.path.expanduser(folder))
    files, others = _find(folder)
    if not files:
        raise NarrowsError(
            f"{folder} holds no images ({', '.join(ENDINGS)}) and {others:,} other files; "
            "give a folder that holds images, at any depth"
        )
    root = os.path.abspath(folder)
    paths = [file for file, _, _ in files]
    pictures = Pictures(
        str(folder),
        len(files),
        read=lambda numbers: [os.path.join(root, paths[i]) for i in numbers],
        name=lambda i: _printable(os.path.join(folder, paths[i])),
        remedy="repair or remove it",
        option="; --skip-broken leaves such files out (skip_broken=True in Python)",
        formats=FORMATS,
    )
    key = hashlib.sha256(repr((_VERSION, root, files, size, skip_broken)).encode()).hexdigest()[:24]
    array, skipped, where = cached_pictures(pictures, f"images-{key}", size, skip_broken, progress)
    note = f"{len(array):,} images from {folder}" + (f" (other files: {others:,})" if others else "")
    if left_out := len(files) - len(array):
        first = f", first {skipped[0]}" if skipped else ""
        note += f" ({left_out:,} broken left out{first})"
    return Data(Path(root).name, ArrayExamples(array, _shape(array), 1 / 255), "unit", note=f"{note}, {where}")


@dataclass(frozen=True, eq=False)
class Pictures:
    """Encoded images by number, wherever they lie, and the words for errors about them."""

    where: str  # stands in front of errors about all
    count: int
    read: Callable[[range], list[str] | list[BinaryIO]]  # paths or open files of some of them
    name: Callable[[int], str]
    remedy: str  # what to do about a broken one
    formats: tuple[str, ...]  # as Pillow calls them
    option: str = ""  # the option that helps, after the remedy


def cached_pictures(
    pictures: Pictures, file_name: str, size: tuple[int, int] | None, skip_broken: bool, progress: Progress
) -> tuple[np.ndarray, list[str], str]:
    """Return (N, H, W, C) uint8 from the cache or decoded now, the names of those left out, and where it is kept."""
    known = _recall(file_name)
    skipped = known[1] if known else []
    count = None if skip_broken and not known else pictures.count - len(skipped)
    # Pillow warns of odd EXIF and palettes, which change nothing here. The filters are one for all threads.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = known[0] if known else _row(pictures, size, skip_broken, progress)

        def chunks() -> Iterator[np.ndarray]:
            skipped.clear()
            yield from _decode(pictures, row, size, skipped if skip_broken else None, progress)
            _remember(file_name, row, skipped)

        array, where = cached_array(f"{file_name}.npy", row, np.uint8, chunks, count)
    return array, skipped, where


def to_array(image: "Picture", size: tuple[int, int] | None = None, channels: int | None = None) -> np.ndarray:
    """Return `image` as (H, W, channels) uint8 by the rules above; channels None: as many as its mode asks for."""
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
        return 1  # Pillow would decode the whole image to look behind it
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # damaged EXIF is no reason to refuse the picture
        return 1
    return orientation if orientation in range(1, 9) else 1


def check_size(size: tuple[int, int] | None) -> None:
    """Refuse a size the networks do not take."""
    if size and not all(SMALLEST <= side <= LARGEST for side in size):
        raise NarrowsError(
            f"image size {size[0]} x {size[1]} is not accepted; choose sides of {SMALLEST} to {LARGEST} pixels"
        )


def _find(folder: Path) -> tuple[list[tuple[str, int, int]], int]:
    """Return (relative path, bytes, time) of every image, sorted, and the number of other files."""
    files: list[tuple[str, int, int]] = []
    others = 0
    seen = set()
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        try:
            with os.scandir(folder / relative) as entries:
                listed = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
            here = os.stat(folder / relative)
        except PermissionError:
            raise NarrowsError(f"{folder / relative}: no permission to read it; change its mode or its owner") from None
        except OSError as error:
            raise NarrowsError(
                f"{folder / relative} cannot be read as a folder ({error.strerror}); give a folder of images"
            ) from None
        if (here.st_dev, here.st_ino) in seen:
            continue
        seen.add((here.st_dev, here.st_ino))
        for entry in listed:
            path = f"{relative}/{entry.name}" if relative else entry.name
            try:
                facts = entry.stat()
                mode, length, time = facts.st_mode, facts.st_size, facts.st_mtime_ns
            except OSError:  # a link to nowhere: an image by name, broken when opened
                mode, length, time = stat.S_IFREG, 0, 0
            if stat.S_ISDIR(mode):
                waiting.append(path)
            elif stat.S_ISREG(mode) and entry.name.lower().endswith(ENDINGS):
                files.append((path, length, time))
            else:
                others += 1
    return sorted(files), others


def _row(
    pictures: Pictures, size: tuple[int, int] | None, skip_broken: bool, progress: Progress
) -> tuple[int, int, int]:
    """Read the headers and return the (H, W, C) all images come to."""

    def headers(numbers: range) -> list[tuple[int, int, int] | str]:
        return [opened(file, pictures.formats, _header) for file in pictures.read(numbers)]

    first: dict[tuple[int, int], int] = {}  # (H, W): the first image of that size
    channels = 0
    for numbers, found in _parallel(headers, range(pictures.count)):
        for i, header in zip(numbers, found, strict=True):
            if isinstance(header, str):
                if not skip_broken:
                    raise _broken(pictures, i, header)
                continue
            first.setdefault(header[:2], i)
            channels = max(channels, header[2])
        progress("reading image headers", numbers.stop, pictures.count)
    if not first:
        raise _all_broken(pictures)
    if size:
        return (*size, channels)
    (one, number), *rest = first.items()
    advice = "bring all to one size with --image-size 64 (image_size=64 in Python)"
    otherwise = "bring all to the size that the model takes"
    if rest:
        other, other_number = rest[0]
        raise OptionError(
            f"{pictures.where}: images of {len(first)} sizes, for example {pictures.name(number)} of "
            f"{one[0]} x {one[1]} and {pictures.name(other_number)} of {other[0]} x {other[1]} pixels",
            advice,
            otherwise,
        )
    if not all(SMALLEST <= side <= LARGEST for side in one):
        problem = f"{pictures.where}: images of {one[0]} x {one[1]} pixels, not of {SMALLEST} to {LARGEST}"
        raise OptionError(problem, advice, otherwise)
    return (*one, channels)


def _decode(
    pictures: Pictures,
    row: tuple[int, int, int],
    size: tuple[int, int] | None,
    skipped: list[str] | None,
    progress: Progress,
) -> Iterator[np.ndarray]:
    """Yield the pixels, (up to _CHUNK, *row) at a time. Broken ones are named in `skipped`; None: they raise."""

    def pixels(numbers: range) -> list[np.ndarray | str]:
        return [opened(file, pictures.formats, lambda i: to_array(i, size, row[2])) for file in pictures.read(numbers)]

    any_good = False
    for start in range(0, pictures.count, _CHUNK):
        chunk = range(start, min(start + _CHUNK, pictures.count))
        good = []
        for numbers, made in _parallel(pixels, chunk):
            for i, image in zip(numbers, made, strict=True):
                if isinstance(image, str):
                    if skipped is None:
                        raise _broken(pictures, i, image)
                    skipped.append(pictures.name(i))
                elif image.shape != row:
                    raise NarrowsError(
                        f"{pictures.name(i)} has now the shape {image.shape}, not {row}: it changed while it was read; "
                        "load it again"
                    )
                else:
                    good.append(image)
        if good:
            any_good = True
            yield np.stack(good)
        progress("decoding images", chunk.stop, pictures.count)
    if not any_good:
        raise _all_broken(pictures)


def _parallel(work: Callable[[range], _R], numbers: range) -> Iterator[tuple[range, _R]]:
    """Yield, in order, (numbers, work(numbers)) piece by piece; Pillow decodes outside the interpreter lock."""
    pieces = [numbers[start : start + _PIECE] for start in range(0, len(numbers), _PIECE)]
    pool = ThreadPoolExecutor(min(32, os.cpu_count() or 1))
    try:
        yield from zip(pieces, pool.map(work, pieces), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def opened(
    file: str | BinaryIO, formats: Iterable[str], work: "Callable[[Picture], _T]", most: int | None = None
) -> _T | str:
    """Return what `work` makes of the image of at most `most` pixels, or in a few words why it is broken."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file, formats=tuple(formats)) as image:
            if most and (pixels := image.width * image.height) > most:
                return f"it has {pixels:,} pixels, and at most {most:,} are taken"
            return work(image)
    except Image.DecompressionBombError:  # which does not say the size
        return f"it has more than {most or 2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels, the most that are taken"
    except PermissionError:
        raise NarrowsError(f"{file}: no permission to read it; change its mode or its owner") from None
    except MemoryError:
        raise
    except UnidentifiedImageError:
        return f"it is not one of {', '.join(formats)}"
    except FileNotFoundError:
        return "a link to a file that is not there"
    except Exception as error:  # damaged bytes break Pillow's readers in any way
        return _printable(str(error).partition("\n")[0]) or type(error).__name__


def _header(image: "Picture") -> tuple[int, int, int]:
    width, height = image.size
    if orientation_of(image) >= 5:
        width, height = height, width
    return height, width, channels_of(image)


def _flat(image: "Picture", mode: str) -> "Picture":
    """Return `image` in mode L or RGB, transparency laid over black."""
    from PIL import Image

    if image.mode == "F":
        raise NarrowsError("an image of mode F (floats) has no range of its own; pass an array instead")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise NarrowsError("an image of mode I has values outside 0..65535; pass an array instead")
        if (clear := image.info.get("transparency")) is not None:
            values[values == clear] = 0
        return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert(mode)
    if not image.has_transparency_data:
        return image.convert(mode)
    image = image.convert("RGBA")
    black = Image.new(mode, image.size)
    black.paste(image.convert(mode), mask=image.getchannel("A"))
    return black


def _recall(file_name: str) -> tuple[tuple[int, int, int], list[str]] | None:
    try:
        facts = json.loads((cache_folder() / f"{file_name}.json").read_text("utf-8"))
        height, width, channels = map(int, facts["row"])
        return (height, width, channels), [str(name) for name in facts["skipped"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(file_name: str, row: tuple[int, int, int], skipped: list[str]) -> None:
    with contextlib.suppress(OSError):
        write_atomic(cache_folder() / f"{file_name}.json", json.dumps({"row": row, "skipped": skipped}))


def _shape(array: np.ndarray) -> tuple[int, ...]:
    return (array.shape[3], *array.shape[1:3])


def _broken(pictures: Pictures, number: int, reason: str) -> NarrowsError:
    remedy = pictures.remedy
    return OptionError(f"{pictures.name(number)} is a broken image ({reason})", remedy + pictures.option, remedy)


def _all_broken(pictures: Pictures) -> NarrowsError:
    return NarrowsError(f"{pictures.where}: all {pictures.count:,} images are broken; give others")


def _printable(text: str) -> str:
    """Keep odd file names on one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
