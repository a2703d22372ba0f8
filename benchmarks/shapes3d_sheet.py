"""The drawn Shapes3D beside true images: the sheet docs/shapes3d.png.

    python benchmarks/shapes3d_sheet.py

Twelve of the 50 true images of the tests, across shapes, sizes and angles: true above, drawn below, and what
is left between them (grey: equal). The mean over all 50 stands in the title.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from narrows.data.named.shapes3d import FACTORS, SIZES, Shapes3DExamples, drawn as draw_all

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests/unit/data/sets/shapes3d_samples.npz"
SHEET = ROOT / "docs/shapes3d.png"
CHOSEN = (28, 3, 14, 44, 36, 10, 34, 5, 37, 7, 35, 43)


def psnr(difference: np.ndarray) -> np.ndarray:
    """Return the peak signal-to-noise ratio of each image, in decibels."""
    decibels: np.ndarray = 10 * np.log10(255**2 / np.mean(difference**2, axis=(1, 2, 3)))
    return decibels


def main() -> None:
    """Draw the sheet and print its figures."""
    with np.load(SAMPLES) as file:
        true, factors, supplied = file["images"], file["factors"].astype(np.int64), file["supplied"].astype(np.int64)
    examples = draw_all().examples
    assert isinstance(examples, Shapes3DExamples)
    drawn = examples.bytes_of(np.ravel_multi_index(tuple(factors.T), SIZES))
    difference = drawn.astype(np.float64) - true
    decibels = psnr(difference)
    as_they_came = psnr(examples.bytes_of(np.ravel_multi_index(tuple(supplied.T), SIZES)).astype(np.float64) - true)
    gains = (decibels - as_they_came)[(factors != supplied).any(1)]
    print(f"{len(true)} images: PSNR {decibels.mean():.1f} dB on average, {decibels.min():.1f} dB at worst")
    print(f"with the factors as they came: {as_they_came.mean():.1f} dB and {as_they_came.min():.1f} dB")
    print(f"{len(gains)} images with another scale: {gains.min():.1f} to {gains.max():.1f} dB nearer")

    rows = {"true": true, "drawn": drawn, "drawn - true": np.clip(128 + difference / 2, 0, 255).astype(np.uint8)}
    figure, axes = plt.subplots(len(rows), len(CHOSEN), figsize=(15, 4.6), layout="constrained")
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(name)
        for axis, i in zip(line, CHOSEN, strict=True):
            axis.imshow(images[i], interpolation="nearest")
            axis.set(xticks=[], yticks=[])
    for i, top, bottom in zip(CHOSEN, axes[0], axes[-1], strict=True):
        scale, shape, orientation = factors[i, 3:]
        size, angle = FACTORS[3].values[scale], FACTORS[5].values[orientation]
        top.set_title(f"{FACTORS[4].value_names[shape]}\nsize {size:.2f}\n{angle:+.0f} degrees", fontsize=8)
        bottom.set_xlabel(f"{decibels[i]:.1f} dB", fontsize=8)
    figure.suptitle(
        f"Shapes3D, true and drawn: PSNR {decibels.mean():.1f} dB on average over {len(true)} images, "
        f"{decibels.min():.1f} dB at worst"
    )
    figure.savefig(SHEET, dpi=100)


if __name__ == "__main__":
    main()
