"""Shards: several files that are one set, used where they lie and never copied.

==========================  =========================================================================================
parts/part-*.npy            a pattern: *, ?, [0-9], ** for folders at any depth
parts/part-{000..079}.npy   a range: every number must be there
parts                       a folder that holds only .npy files, or only tables (.csv, .tsv, .parquet)
==========================  =========================================================================================

The rows of the first shard come first, then those of the second, sorted by name in natural order: part-2 comes before
part-10. So a run from shards equals a run from one file with the same rows, bit for bit. In a folder, names that begin
with a dot or an underscore are left out, as other programs mark notes to themselves (`_SUCCESS`).
"""

import dataclasses
import functools
import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from narrows._util.errors import NarrowsError
from narrows._util.files import check_regular
from narrows._util.progress import Progress, silent
from narrows._util.text import printable
from narrows.data.arrays import channels_last, check_dtype, from_rows
from narrows.data.dataset import Data, Missing, Values
from narrows.data.readers.archives import map_npy
from narrows.data.readers.image_files import ENDINGS as IMAGES
from narrows.data.rows import JoinedRows

ShardKind = Literal["npy", "table"]
SHARD_ENDINGS: dict[ShardKind, tuple[str, ...]] = {
    "npy": (".npy",),
    "table": (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq"),
}
MOST_OPEN = 256
"""Shards that are mapped at a time: each holds a file open, and a process may have few."""
MOST_NUMBERS = 1_000_000
"""Files of one range."""
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_WILDCARD = re.compile(r"[*?]|\[[^\]]+\]")


def natural(name: str) -> tuple[list[str | int], str]:
    """Return the key that sorts names as people count: part-2 before part-10."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"([0-9]+)", name)], name


def is_pattern(text: str) -> bool:
    """Return whether a path or an address stands for several files by a pattern or a range."""
    return (_WILDCARD.search(text) or _RANGE.search(text)) is not None


def expanded(text: str) -> list[str]:
    """Return the names that the ranges in a text stand for; both ends count, and keep their leading zeros."""
    found = _RANGE.search(text)
    if found is None:
        return [text]
    first, last, width = int(found[1]), int(found[2]), len(found[1])
    if not first <= last < first + MOST_NUMBERS:
        raise NarrowsError(f"{text}: {{{found[1]}..{found[2]}}} must count up, by at most {MOST_NUMBERS:,} numbers")
    names = (f"{text[: found.start()]}{i:0{width}}{text[found.end() :]}" for i in range(first, last + 1))
    return [one for name in names for one in expanded(name)]


def shard_kind(names: Sequence[str]) -> ShardKind | None:
    """Return which kind of shards these files are; None if they are of several kinds, or of one that has no shards."""
    for kind, endings in SHARD_ENDINGS.items():
        if names and all(name.lower().endswith(endings) for name in names):
            return kind
    return None


def matching(pattern: str) -> list[Path]:
    """Return the files that a pattern or a range stands for, in natural order; raise if there are none."""
    names = expanded(os.path.expanduser(pattern))
    found = [Path(one) for name in names for one in _files(name)]
    if not found:
        raise NarrowsError(f"no shards match {pattern}; check the pattern, and quote it so that the shell keeps it")
    if not shard_kind([path.name for path in found]):
        raise NarrowsError(
            f"{pattern} matches {_listed(found)} files; shards of one set are either .npy files or tables "
            "(.csv, .tsv, .parquet): choose a pattern for one kind"
        )
    for path in found:
        check_regular(path)
    return sorted(set(found), key=lambda path: natural(str(path)))


def _files(name: str) -> Iterator[str]:
    if _WILDCARD.search(name):
        yield from (one for one in glob.iglob(name, recursive=True) if not os.path.isdir(one))
    elif os.path.isfile(name):
        yield name
    else:
        raise NarrowsError(f"the shard {name} does not exist; restore it, or give the range of those that do")


def _endings(paths: Sequence[Path]) -> list[tuple[str, int]]:
    return Counter("".join(path.suffixes[-1:]) or path.name for path in paths).most_common(3)


def in_folder(folder: Path) -> list[Path]:
    """Return the shards of a folder in natural order, or nothing if it holds anything else."""
    with os.scandir(folder) as entries:
        found = [Path(entry.path) for entry in entries if not entry.name.startswith((".", "_"))]
    if not shard_kind([path.name for path in found]) or not all(map(os.path.isfile, found)):
        return []
    return sorted(found, key=lambda path: natural(path.name))


def check_not_mixed(folder: Path) -> None:
    """Raise if a folder holds shards, but of several kinds or beside other files, and neither images nor folders."""
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if not entry.name.startswith((".", "_"))]
    paths = [Path(entry.path) for entry in found]
    shards = [path for path in paths if shard_kind([path.name])]
    if not shards or any(entry.is_dir() or entry.name.lower().endswith(IMAGES) for entry in found):
        return
    for path in shards:
        check_regular(path)
        if not path.exists():
            raise NarrowsError(f"{path} is a broken symlink; fix or remove it")
    ending, _ = _endings(shards)[0]
    raise NarrowsError(
        f"{folder} holds {_listed(paths)} files; a folder that is one set holds only .npy files, only tables (.csv, "
        f".tsv, .parquet), or images: give a pattern such as '{folder / f'*{ending}'}'"
    )


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(f"{count:,} {printable(ending, 40)}" for ending, count in _endings(paths))


def shards_of(path: Path) -> list[Path]:
    """Return the shards that a pattern, a range or a folder stands for; the file itself if it is one."""
    if is_pattern(str(path)) and not os.path.exists(path):
        return matching(str(path))
    return in_folder(path) if path.is_dir() else [path]


def changed_since(data: str, time: float) -> list[Path]:
    """Return the shards on this machine that were written, or put in place, after a time; none if all of them were.

    A copy of a whole set is younger than what it is a copy of, so that says nothing about single shards.
    """
    try:
        paths = shards_of(Path(os.path.expanduser(data)))
        facts = [path.stat() for path in paths]
    except (NarrowsError, OSError, ValueError):  # an address, a named set, or gone
        return []
    found = [path for path, one in zip(paths, facts, strict=True) if max(one.st_mtime, one.st_ctime) > time]
    return found if len(found) < len(paths) else []


def set_name(path: Path) -> str:
    """Return what a set of shards is called: its folder, for a pattern the last one without wildcards."""
    while is_pattern(path.name):
        path = path.parent
    return path.absolute().name or "shards"


def shards_note(paths: Sequence[Path]) -> str:
    """Return which shards a set consists of, and in which order."""
    if len(paths) == 1:
        return f"read from {paths[0]}"
    return f"read from {len(paths)} shards, sorted by name from {paths[0]} to {paths[-1].name}"


def load_npy_shards(
    path: Path, values: Values = "unit", progress: Progress = silent, missing: Missing = "refuse"
) -> Data:
    """Map the .npy files that `path` stands for as one array, and check its values."""
    paths = shards_of(path)
    shards: list[Shard] = []
    for one in paths:
        shards.append(_shard(one))
        check_alike(shards[0].path, shards[0].layout, one, shards[-1].layout)
    first = shards[0]
    row = channels_last(np.broadcast_to(np.zeros((), first.dtype), first.shape), str(first.path)).shape[1:]
    mapped = functools.lru_cache(MOST_OPEN)(lambda number: channels_last(shards[number].mapped(), str(paths[number])))
    rows = JoinedRows([shard.shape[0] for shard in shards], row, first.dtype, mapped)
    data = from_rows(rows, values, str(path), progress, missing)
    return dataclasses.replace(data, name=set_name(path), note=shards_note(paths))


def check_alike(first: object, layout: tuple[object, ...], other: object, others: tuple[object, ...]) -> None:
    """Raise if two shards, described by the shape of a row and a type or by columns, cannot belong to one set."""
    if layout != others:
        here, there = (" ".join(map(str, one)) for one in (layout, others))
        raise NarrowsError(
            f"{other} holds {there}, and {first} holds {here}; shards of one set need the same: leave one of them out"
        )


@dataclasses.dataclass(frozen=True)
class Shard:
    """A .npy file as it was when the set was read."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    start: int
    """Where its values begin."""
    fortran: bool
    facts: tuple[int, int]
    """Its size and the time of its last change."""

    @property
    def layout(self) -> tuple[object, ...]:
        """What all shards have in common, for errors."""
        return ("rows of", self.shape[1:], self.dtype)

    def mapped(self) -> np.ndarray:
        """Map the values; raise if the file is not what it was."""
        try:
            with self.path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if (facts.st_size, facts.st_mtime_ns) != self.facts:
                    raise NarrowsError(
                        f"the shard {self.path} changed while it was used; restore it and go on with `narrows resume`, "
                        "or start again"
                    )
                order: Literal["F", "C"] = "F" if self.fortran else "C"
                return np.memmap(file, self.dtype, "r", self.start, self.shape, order)
        except OSError as error:
            raise NarrowsError(
                f"the shard {self.path} cannot be read any more ({error.strerror or error}); restore it and go on "
                "with `narrows resume`"
            ) from None


def _shard(path: Path) -> Shard:
    array = map_npy(path)
    check_dtype(array.dtype, str(path))
    channels_last(array, str(path))
    facts = path.stat()
    start = array.offset if isinstance(array, np.memmap) else 0
    return Shard(path, array.shape, array.dtype, start, np.isfortran(array), (facts.st_size, facts.st_mtime_ns))
