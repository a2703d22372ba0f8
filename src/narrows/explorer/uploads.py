"""A user's image, made into an input of the model as the run's own images were made.

Nothing is decoded before its size is known: the server counts the bytes, and the header states the pixels. The formats
are the loader's three, and so are the rules for grey and colour, transparency, orientation and size
(data/readers/images.py). An image that cannot be used raises an error, whose text the page shows.
"""

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows.data.readers.images import FORMATS, channels_of, opened, orientation_of, to_array

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MOST_BYTES = 20_000_000
MOST_PIXELS = 40_000_000
_TURNED = ("mirrored", "rotated", "mirrored", "rotated and mirrored", "rotated", "rotated and mirrored", "rotated")
"""What the EXIF orientations 2 to 8 mean."""


def read_upload(content: bytes, shape: tuple[int, ...], low: float, high: float) -> tuple[Tensor, str]:
    """Return the image as an input, `(1, *shape)`, with black at `low` and white at `high`, and how it was changed."""
    if len(shape) != 3:
        raise NarrowsError("this run was trained on vectors, so images cannot be uploaded")
    channels, height, width = shape
    if channels not in (1, 3):
        raise NarrowsError(f"this run's images have {channels} channels; only 1 or 3 can be uploaded")
    if not content:
        raise NarrowsError("this file is empty; choose an image")

    def convert(image: "Picture") -> tuple[np.ndarray, str]:
        changes = _changes(image, channels, (height, width))
        return to_array(image, (height, width), channels), changes

    with warnings.catch_warnings(action="ignore"):  # about odd EXIF and large sizes, which are handled here
        converted = opened(io.BytesIO(content), FORMATS, convert, MOST_PIXELS)
    if isinstance(converted, str):
        raise NarrowsError(f"this file cannot be used: {converted}; choose another image ({', '.join(FORMATS)})")
    values = torch.from_numpy(converted[0].astype(np.float32)) / 255 * (high - low) + low
    return values.movedim(-1, 0)[None].contiguous(), converted[1]


def _changes(image: "Picture", channels: int, size: tuple[int, int]) -> str:
    """Return an image's size and how it is changed."""
    kinds = {1: "grey", 3: "colour"}
    before, after = kinds[channels_of(image)], kinds[channels]
    done = [f"{image.width} x {image.height} pixels"]
    if (frames := getattr(image, "n_frames", 1)) > 1:
        done.append(f"the first of {frames:,} frames")
    width, height = image.size
    if (orientation := orientation_of(image)) > 1:
        done.append(f"{_TURNED[orientation - 2]} by its EXIF orientation")
        width, height = (width, height) if orientation < 5 else (height, width)
    if (height, width) != size:
        same = height * size[1] == width * size[0]
        done.append(f"scaled to {size[1]} x {size[0]}" + ("" if same else " and cropped to the centre"))
    if before != after:
        done.append(f"converted from {before} to {after}")
    if image.has_transparency_data:
        done.append("transparency filled with black")
    return "; ".join(done)
