"""The options that say how data are read.

A training run, `load` and everything that opens a run's data again share them. To add one, add a field here and to
`TrainConfig` (a test compares the two), and use it in load.py or in the reader it is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from narrows.data.dataset import Categories, Missing, Values
from narrows.data.named.catalogue import Source

SplitBy = Literal["row", "shard"]

Kind = Literal["set", "hub", "folder", "npy", "npz", "table", "hdf5", "remote"]
APPLIES_TO: dict[str, tuple[tuple[Kind, ...], str]] = {
    "source": (("set",), "sets that can be drawn (dsprites, shapes3d)"),
    "image_size": (("folder", "hub", "remote"), "folders of images and hf: sets"),
    "skip_broken": (("folder",), "folders of images"),
    "columns": (("table", "remote"), "tables (.csv, .tsv, .parquet)"),
    "missing": (("npy", "npz", "table", "hdf5"), "arrays and tables that are read as a whole"),
    "categories": (("table",), "tables (.csv, .tsv, .parquet)"),
    "group_column": (("table",), "tables (.csv, .tsv, .parquet)"),
    "weight_column": (("table",), "tables (.csv, .tsv, .parquet)"),
    "stream": (("npy", "table", "remote", "hub"), "shards (.npy, .parquet) and hf: sets"),
    "split_by": (("npy", "table", "remote", "hub"), "shards that are streamed"),
    "cache_size": (("npy", "table", "remote", "hub"), "shards that are streamed"),
}
"""The kinds of data that an option is for, and how they are described."""


@dataclass(frozen=True)
class ReadOptions:
    """How data are read: the same settings for `load`, a training run, and everything that opens a run's data again."""

    source: Source = "auto"
    """Named sets that can be drawn: the official file, the drawn set, or whichever is available (auto)."""
    image_size: str | int | tuple[int, int] | None = None
    """Images: scale and crop each to 64, "48x64" or (48, 64), height x width."""
    skip_broken: bool = False
    """Folders of images: leave out files that cannot be read."""
    columns: str | Sequence[str] | None = None
    """Tables: the columns to take, a list or "a,b,c"; None for all."""
    missing: Missing = "refuse"
    """Arrays and tables: whether NaN (an empty field) is refused, or masked as a value that was not observed."""
    categories: Categories = "refuse"
    """Tables: whether columns of texts are refused, or are categories, and so are those of true and false (auto)."""
    group_column: str | None = None
    """Tables: the column that says which rows belong together (a subject, a plate); it is not trained on."""
    weight_column: str | None = None
    """Tables: the column that says how much each row counts; it is not trained on."""
    values: Values = "unit"
    """unit: floats must lie in [0, 1]; any: any finite numbers."""
    stream: bool = False
    """Shards on a disk: read them through the cache, as those on other machines always are."""
    split_by: SplitBy = "row"
    """Streamed shards: hold out rows, or whole shards, by a hash."""
    cache_size: str | int = "8GB"
    """Streamed shards: what they may take on the local disk at a time, "2GB", "500MB" or bytes."""

    def given(self) -> list[str]:
        """Return the names of the options that apply to some kinds of data only and are not at their defaults."""
        return [f.name for f in fields(self) if f.name in APPLIES_TO and getattr(self, f.name) != f.default]

    def only_for(self, kind: Kind) -> "ReadOptions":
        """Return these options with those that do not apply to `kind` at their defaults."""
        out = [name for name, (kinds, _) in APPLIES_TO.items() if kind not in kinds]
        if kind != "remote" and not self.stream:
            out += ["split_by", "cache_size"]
        return replace(self, **{name: getattr(ReadOptions, name) for name in out})
