"""Data: from a name, a file, a folder or an array to seeded batches of float32 examples.

In reading order:

1. load.py: `load` reads what a user types, a named set (named/) or files (readers/, one module per kind), with the
   options of options.py. arrays.py and readers/torch_datasets.py: `from_array` and `from_dataset` wrap what you already
   hold. All three check every value once and return a `Data` (dataset.py), with the `Factors` (factors.py) of labelled
   sets.
2. examples.py: `Data.examples` serves batches by index. Pixels stay as they are stored (bytes, bits, a file on disk, a
   rule that draws them) until a batch is requested, so a set may be larger than memory. `Data.exact` serves a table in
   float64.
   mixed.py: a table's categories, served as one value per level. decoded.py: the way back to a table's columns.
3. splits.py: `split` divides the indices into train, validation and test by a stated, seeded rule. counting.py: how
   rows count, by their weights and groups.
4. units.py: the shift and the unit in which columns and arrays are trained.
5. batches.py: `Batches` is the endless stream of training indices; its state is two integers.
6. streams/: sets of shards that are larger than the disk, or lie on another machine. rows.py: many arrays as one.

Below these, cache.py keeps arrays on disk that are expensive to make, statistics.py has the one streaming mean and
variance, and synthetic.py makes data with a known number of dimensions.
"""

from narrows.data.arrays import from_array
from narrows.data.batches import Batches
from narrows.data.cache import cache_folder
from narrows.data.dataset import Data
from narrows.data.examples import ArrayExamples, Examples, PackedExamples
from narrows.data.factors import Factor, Factors
from narrows.data.load import absolute, load
from narrows.data.named.catalogue import SETS, NamedSet, find_set, open_set
from narrows.data.readers.torch_datasets import from_dataset
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
    "Splits",
    "absolute",
    "cache_folder",
    "find_set",
    "from_array",
    "from_dataset",
    "load",
    "open_set",
    "split",
    "thinned",
]
