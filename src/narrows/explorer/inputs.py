"""The inputs that can go through a model: test inputs, which it never saw, and those that a user brought.

An input has a name, `test-0`, `test-1`, ... or `upload-1`, which is all that the page knows of it. The test inputs are
the report's: evenly spaced, at most 1,000, held in memory, so that the data are read once. Of uploads the few that were
used last are kept, so that those on a page stay unless another page brings many.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from narrows.data import Data, split
from narrows.errors import NarrowsError
from narrows.report import sheets
from narrows.report.evidence import evenly_spaced
from narrows.using import exact, layout

MOST_UPLOADS = 16


class Gone(NarrowsError):
    """An upload that is no longer kept; the page, which knows its name, says whether it was the first or the second."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this input is gone: of uploads the {MOST_UPLOADS} used last are kept; choose another")
        self.name = name


@dataclass
class Inputs:
    """Test inputs and uploads, all of one shape."""

    held: Tensor
    """Test inputs, `(count, *shape)`; none of them if the data could not be read."""
    missing: str = ""
    """Why there are none."""
    _uploads: dict[str, Tensor] = field(default_factory=dict)
    _count: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input, (D,) or (C, H, W)."""
        return tuple(self.held.shape[1:])

    @property
    def is_image(self) -> bool:
        """True for images, false for vectors."""
        return len(self.shape) == 3

    def get(self, name: object) -> Tensor:
        """Return one input, `(1, *shape)`."""
        text = name if isinstance(name, str) else ""
        kind, _, digits = text.partition("-")
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
        if kind == "test" and 0 <= number < len(self.held):
            return self.held[number : number + 1]
        if text in self._uploads:
            self._uploads[text] = self._uploads.pop(text)  # now the one used last
            return self._uploads[text]
        if kind == "upload" and 0 < number <= self._count:
            raise Gone(text)
        raise NarrowsError(f"there is no input {str(name)[:40]!r}; choose another")

    def add(self, x: Tensor) -> str:
        """Keep an upload, `(1, *shape)`, and return its name; of many, the one not used for longest is forgotten."""
        self._count += 1
        name = f"upload-{self._count}"
        self._uploads[name] = x
        while len(self._uploads) > MOST_UPLOADS:
            del self._uploads[next(iter(self._uploads))]
        return name

    @cached_property
    def levels(self) -> tuple[float, float]:
        """Return what is black and what is white in pictures."""
        return sheets.levels([layout(self.held)]) if len(self.held) else (0.0, 1.0)

    def column_ranges(self) -> list[list[float]]:
        """Return where each value of a vector lies, from the 1st to the 99th percentile of the test inputs."""
        if self.is_image or not len(self.held):
            return []
        return np.percentile(self.held.numpy(), (1, 99), axis=0).T.tolist()


def held_inputs(data: Data, split_seed: int) -> Inputs:
    """Return evenly spaced test inputs, as a saved model takes them."""
    index = evenly_spaced(split(data, split_seed).test, data.examples.shape)
    return Inputs(exact(data).batch(index).contiguous())


def no_inputs(shape: tuple[int, ...], why: str) -> Inputs:
    """Return what is left when the data cannot be read: room for uploads."""
    return Inputs(torch.empty(0, *shape), why)
