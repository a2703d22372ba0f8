"""Inputs: from a name, a file or an array to seeded streams of float32 batches.

The data's way, and the reading order of this package:

1. `load` (sources.py) takes a name ("dsprites") or a .npy / .npz file, `from_array` (arrays.py) an array you
   already hold. Both check every value once and return a `Data` (dataset.py).
2. `Data.examples` (examples.py) serves batches by index. Pixels stay as they are stored (bytes, bits, a file
   on disk) until a batch asks for them, so a set may be larger than memory.
3. `split` (splits.py) divides the indices into train, validation and test by a stated, seeded rule.
4. `Batches` (batches.py) is the endless stream of training indices; its state is two integers.

dsprites.py draws the dSprites set, so that the first run needs no download; cache.py keeps such arrays on
disk; idx.py reads MNIST's file format.
"""

from narrows.data.arrays import from_array
from narrows.data.batches import Batches
from narrows.data.cache import cache_folder
from narrows.data.dataset import Data, Values
from narrows.data.dsprites import FACTORS, draw, draw_sprite, dsprites
from narrows.data.examples import ArrayExamples, Examples, PackedExamples
from narrows.data.idx import read_idx
from narrows.data.sources import SETS, load
from narrows.data.splits import Splits, split

__all__ = [
    "FACTORS",
    "SETS",
    "ArrayExamples",
    "Batches",
    "Data",
    "Examples",
    "PackedExamples",
    "Splits",
    "Values",
    "cache_folder",
    "draw",
    "draw_sprite",
    "dsprites",
    "from_array",
    "load",
    "read_idx",
    "split",
]
