"""The inputs that can go through a model: test inputs, which it never saw, and images that a user uploads.

The page knows an input by its name: `test-0`, `test-1`, ... or `upload-1`. The test inputs are the report's: evenly
spaced, at most 1,000, and held in memory, so that the data are read once. The uploads used last are kept, so those on
a page stay unless another page uploads many.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from narrows._util.errors import NarrowsError
from narrows.data import Data, split
from narrows.inference.inspect import evenly_spaced
from narrows.inference.trained import Trained, layout
from narrows.report import images

MOST_UPLOADS = 16


class Gone(NarrowsError):
    """An upload that is no longer kept. The page knows from its name whether it was the first or the second input."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this input is gone: only the {MOST_UPLOADS} uploads used last are kept; choose another")
        self.name = name


@dataclass
class Inputs:
    """Test inputs and uploads, all of one shape."""

    held: Tensor
    """Test inputs, `(count, *shape)`; count is 0 if the data could not be read."""
    missing: str = ""
    """Why there are no test inputs, if there are none."""
    _uploads: dict[str, Tensor] = field(default_factory=dict)
    _count: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input, (D,) or (C, H, W)."""
        return tuple(self.held.shape[1:])

    @property
    def is_image(self) -> bool:
        """Whether the inputs are images; otherwise they are vectors."""
        return len(self.shape) == 3

    def get(self, name: object) -> Tensor:
        """Return one input, `(1, *shape)`."""
        text = name if isinstance(name, str) else ""
        kind, _, digits = text.partition("-")
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
        if kind == "test" and 0 <= number < len(self.held):
            return self.held[number : number + 1]
        if text in self._uploads:
            self._uploads[text] = self._uploads.pop(text)  # it is the one used last now
            return self._uploads[text]
        if kind == "upload" and 0 < number <= self._count:
            raise Gone(text)
        raise NarrowsError(f"unknown input {str(name)[:40]!r}; choose another")

    def add(self, x: Tensor) -> str:
        """Keep an upload, `(1, *shape)`, and return its name; the least recently used one goes."""
        self._count += 1
        name = f"upload-{self._count}"
        self._uploads[name] = x
        while len(self._uploads) > MOST_UPLOADS:
            del self._uploads[next(iter(self._uploads))]
        return name

    @cached_property
    def levels(self) -> tuple[float, float]:
        """The values that are black and white in pictures."""
        return images.levels([layout(self.held)]) if len(self.held) else (0.0, 1.0)

    def column_ranges(self) -> list[list[float]]:
        """Return the 1st and the 99th percentile of each value of a vector over the test inputs; empty for images."""
        if self.is_image or not len(self.held):
            return []
        return np.percentile(self.held.numpy(), (1, 99), axis=0).T.tolist()


@torch.no_grad()
def held_inputs(data: Data, split_seed: int, trained: Trained) -> Inputs:
    """Return evenly spaced test inputs, as a saved model takes them, filled in where values are missing."""
    index = evenly_spaced(split(data, split_seed).test, data.examples.shape)
    return Inputs(trained.filled(data.exact.batch(index)).contiguous())
