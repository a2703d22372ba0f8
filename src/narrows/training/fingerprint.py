"""The fingerprint of a set: a digest that a model keeps of the data it was trained on."""

import hashlib

import numpy as np

from narrows.data import Data, Splits, thinned
from narrows.data.examples import in_batches

FINGERPRINT_EXAMPLES = 4_096


def fingerprint(data: Data, splits: Splits) -> str:
    """Return a digest of the data: the same data give the same.

    It covers size, shape, columns, weights, groups and up to 4,096 evenly spaced examples; of a streamed set the names,
    sizes and counts of its shards and up to 4,096 of the held-out examples.
    """
    examples = data.examples
    if data.stream is None:
        about, index = "", np.unique(np.linspace(0, len(examples) - 1, FINGERPRINT_EXAMPLES).astype(np.int64))
    else:
        held_out = np.concatenate([splits.validation, splits.test])
        about, index = data.stream.digest, thinned(held_out, FINGERPRINT_EXAMPLES)
    digest = hashlib.sha256(f"{len(examples)} {examples.shape} {data.columns}{about}".encode())
    for _, x in in_batches(examples, index, rows=64):
        digest.update(x.contiguous().numpy().tobytes())
    for counted in (data.counting.weights, data.counting.groups):
        if counted is not None:
            digest.update(counted.tobytes())
    return digest.hexdigest()
