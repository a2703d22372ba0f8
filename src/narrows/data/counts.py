"""Counts: which values can be counts, and how they are served."""

from dataclasses import replace

import numpy as np
import torch

from narrows._util.errors import NarrowsError
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples, in_batches

ROWS = 512


def as_counts(data: Data) -> Data:
    """Return data whose values are served as they are: bytes are counts, not shares of 255."""
    examples = data.examples
    if isinstance(examples, ArrayExamples) and np.any(np.asarray(examples.scale) != 1):
        examples = replace(examples, scale=1.0)
    return replace(data, examples=examples, values="any")


def check_counts(data: Data) -> bool:
    """Return whether all values are whole numbers; raise if they cannot be counts."""
    whole = True
    for here, x in in_batches(data.examples, np.arange(len(data.examples)), ROWS):
        lowest = float(x.min())
        if lowest < 0:
            row, column = (int(i) for i in torch.nonzero(x == lowest)[0])
            raise NarrowsError(
                f"{data.name}: counts must be 0 or more; row {here.start + row}, column {column} is {lowest:g}. Pass "
                "counts as they were observed, before any logarithm or scaling"
            )
        empty = x.sum(1) == 0
        if empty.any():
            raise NarrowsError(
                f"{data.name}: row {here.start + int(empty.int().argmax())} has no counts, so it says nothing; leave "
                "rows whose total is 0 out"
            )
        whole = whole and bool((x == x.round()).all())
    return whole
