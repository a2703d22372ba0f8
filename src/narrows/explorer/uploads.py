"""A picture that a user brings, made into an input of the model as the run's own images were made.

Nothing is decoded before its size is known: the bytes are counted by the server, the pixels are read from the header.
The formats are the loader's three; the rules of grey and colour, transparency, orientation and size are the loader's
too (`data/own/images.py`). What cannot be used is answered by one sentence for the page.
"""

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from narrows.data.own.images import FORMATS, channels_of, opened, orientation_of, to_array
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MOST_BYTES = 20_000_000
MOST_PIXELS = 40_000_000
_TURNED = ("mirrored", "turned", "mirrored", "turned and mirrored", "turned", "turned and mirrored", "turned")
"""What the EXIF orientations 2 to 8 ask for."""


def read_upload(content: bytes, shape: tuple[int, ...], low: float, high: float) -> tuple[Tensor, str]:
    """Return the picture as an input, `(1, *shape)`, black being `low` and white `high`, and what was done to it."""
    if len(shape) != 3:
        raise NarrowsError("this run is about vectors, not about images: there is nothing to upload")
    channels, height, width = shape
    if channels not in (1, 3):
        raise NarrowsError(f"this run's images have {channels} channels; a picture has 1 or 3: none can be taken")
    if not content:
        raise NarrowsError("this file is empty; choose a picture")
    if len(content) > MOST_BYTES:
        raise NarrowsError(f"this file has {len(content):,} bytes; at most {MOST_BYTES:,} are taken: make it smaller")

    def work(image: "Picture") -> tuple[np.ndarray, str]:
        told = _told(image, channels, (height, width))
        return to_array(image, (height, width), channels), told

    with warnings.catch_warnings():  # Pillow warns of odd EXIF and large sizes, which are dealt with here
        warnings.simplefilter("ignore")
        made = opened(io.BytesIO(content), FORMATS, work, MOST_PIXELS)
    if isinstance(made, str):
        raise NarrowsError(f"this file cannot be used as a picture: {made}; choose another ({', '.join(FORMATS)})")
    values = torch.from_numpy(made[0].astype(np.float32)) / 255 * (high - low) + low
    return values.movedim(-1, 0)[None].contiguous(), made[1]


def _told(image: "Picture", channels: int, size: tuple[int, int]) -> str:
    """Say what is done to a picture."""
    kinds = {1: "grey", 3: "colour"}
    before, after = kinds[channels_of(image)], kinds[channels]
    done = [f"{image.width} x {image.height} pixels"]
    if (frames := getattr(image, "n_frames", 1)) > 1:
        done.append(f"the first of {frames:,} frames")
    width, height = image.size
    if (orientation := orientation_of(image)) > 1:
        done.append(f"{_TURNED[orientation - 2]} as its EXIF says")
        width, height = (width, height) if orientation < 5 else (height, width)
    if (height, width) != size:
        same = height * size[1] == width * size[0]
        done.append(f"scaled to {size[1]} x {size[0]}" + ("" if same else ", the centre cut out"))
    if before != after:
        done.append(f"{before} made {after}")
    if image.has_transparency_data:
        done.append("laid over black")
    return "; ".join(done)
