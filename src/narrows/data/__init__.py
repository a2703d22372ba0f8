"""Inputs: from a name, a file, a folder or an array to seeded streams of float32 batches.

The data's way, and the reading order of this package:

1. `load` (sources.py) takes what a user types: a set's name (catalogue.py), a file or a folder, each kind read by a
   module of its own. `from_array` (arrays.py) and `from_dataset` (torch_datasets.py) take what you already hold. All
   check every value once and return a `Data` (dataset.py), with the `Factors` (factors.py) of labelled sets.
2. `Data.examples` (examples.py) serves batches by index. Pixels stay as they are stored (bytes, bits, a file
   on disk, a rule that draws them) until a batch asks for them, so a set may be larger than memory.
3. `split` (splits.py) divides the indices into train, validation and test by a stated, seeded rule.
4. `Batches` (batches.py) is the endless stream of training indices; its state is two integers.

Below these: download.py fetches files, cache.py keeps arrays on disk that are expensive to make, mapping.py keeps
mapped files from filling the memory.
"""

from narrows.data.arrays import from_array
from narrows.data.batches import Batches
from narrows.data.cache import cache_folder
from narrows.data.dataset import Data, Values
from narrows.data.examples import ArrayExamples, Examples, PackedExamples
from narrows.data.factors import Factor, Factors
from narrows.data.own.torch_datasets import from_dataset
from narrows.data.progress import Progress, silent
from narrows.data.sets.catalogue import SETS, NamedSet, find_set, open_set
from narrows.data.sources import absolute, load
from narrows.data.splits import Splits, split, thinned

__all__ = [
    "SETS",
    "ArrayExamples",
    "Batches",
    "Data",
    "Examples",
    "Factor",
    "Factors",
    "NamedSet",
    "PackedExamples",
    "Progress",
    "Splits",
    "Values",
    "absolute",
    "cache_folder",
    "find_set",
    "from_array",
    "from_dataset",
    "load",
    "open_set",
    "silent",
    "split",
    "thinned",
]
