"""Images side by side in one PNG, as a data URI, so that a page with hundreds of images stays small."""

import base64
import io
from collections.abc import Sequence

import numpy as np

BYTES = 600_000
"""The most pixels of one PNG, before compression."""
LARGEST_SIDE, SMALLEST_SIDE = 96, 64
"""The longer side of a cell. Larger images are scaled down; the pixels of smaller ones are repeated."""
ORANGE, BLUE = np.array([213, 94, 0]), np.array([0, 114, 178])
"""The colours of differences: output too bright, output too dark."""


def side_of(cells: int, image: np.ndarray, most: int = BYTES) -> int:
    """Return the longest side that a cell may have so that `cells` of them fit into `most` bytes."""
    channels = 1 if image.ndim == 2 else 3
    longest, area = max(image.shape[:2]), image.shape[0] * image.shape[1]
    fits = int(longest * (most / (cells * area * channels)) ** 0.5)
    return max(8, min(longest, LARGEST_SIDE, fits))


def levels(images: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the values that are black and white: 0 and 1, or the extremes if some values lie outside."""
    low, high = min(float(np.nanmin(x)) for x in images), max(float(np.nanmax(x)) for x in images)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, max(high, low + 1e-12))


def as_bytes(images: np.ndarray, low: float, high: float) -> np.ndarray:
    """Convert (N, H, W) or (N, H, W, C) to bytes, grey or RGB; of four channels, the first three are shown.

    Missing pixels are shown half way between black and white.
    """
    images = np.nan_to_num(images, nan=0.5 * (low + high))
    pixels = (255 * np.clip((images - low) / (high - low), 0, 1)).round().astype(np.uint8)
    return pixels[..., :3] if pixels.ndim == 4 else pixels


def differences(inputs: np.ndarray, outputs: np.ndarray, scale: float) -> np.ndarray:
    """Return (N, H, W, 3) bytes: orange where the output is too bright, blue where it is too dark."""
    apart = np.nan_to_num((outputs - inputs) / max(scale, 1e-12))
    apart = np.clip(apart.mean(-1) if apart.ndim == 4 else apart, -1, 1)[..., None]
    colour = np.where(apart > 0, ORANGE, BLUE)
    return (255 + np.abs(apart) * (colour - 255)).round().astype(np.uint8)


def grid(rows: Sequence[np.ndarray], side: int | None = None) -> str:
    """Return rows of images, (N, H, W) or (N, H, W, 3) bytes each, as a PNG in a data URI."""
    from PIL import Image

    coloured = any(row.ndim == 4 for row in rows)
    height, width = rows[0].shape[1:3]
    scale = min(1.0, (side or side_of(sum(map(len, rows)), rows[0][0])) / max(height, width))
    cell = (max(1, round(width * scale)), max(1, round(height * scale)))
    times = max(1, SMALLEST_SIDE // max(cell))
    cell = (cell[0] * times, cell[1] * times)
    gap = 1
    size = (len(rows[0]) * (cell[0] + gap) - gap, len(rows) * (cell[1] + gap) - gap)
    sheet = Image.new("RGBA" if coloured else "LA", size)
    resampling = Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST
    for i, row in enumerate(rows):
        for j, pixels in enumerate(row):
            one = Image.fromarray(pixels).resize(cell, resampling)
            sheet.paste(one.convert(sheet.mode), (j * (cell[0] + gap), i * (cell[1] + gap)))
    file = io.BytesIO()
    sheet.save(file, "PNG")  # the best compression would take longer than the rest of the report
    return data_uri(file.getvalue())


def data_uri(png: bytes) -> str:
    """Return a PNG as the source of an image inside a page."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
