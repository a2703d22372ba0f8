"""The named sets: what they are, where they come from, and how they are opened.

Every set has an official form: files that are downloaded once and verified. Two sets also have a drawn form, which
needs no download. Without a choice, `open_set` takes the official form if it is cached, else draws the set, else
downloads it.

One module per set holds its FILES and FACTORS and the functions `is_cached` and `read`, and `drawn` where it can be
drawn. To add a set, write such a module and list it in SETS.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Literal

from narrows._util.errors import NarrowsError, OptionError, did_you_mean, setting
from narrows._util.progress import Progress, silent
from narrows.data.cache import cache_folder
from narrows.data.dataset import Data
from narrows.data.factors import Factor
from narrows.data.named import cars3d, cifar100, dsprites, mnist, shapes3d
from narrows.data.named.download import RemoteFile, fetch

Source = Literal["auto", "drawn", "official"]


@dataclass(frozen=True)
class NamedSet:
    """A named set: what `narrows data list` prints about it, and the functions that open it."""

    name: str
    """What users call it."""
    about: str
    """One line about its content."""
    count: int
    """Number of images."""
    shape: tuple[int, int, int]
    """One image as it is served, (C, H, W)."""
    licence: str
    """Its licence, or "not stated"."""
    home: str
    """Its home page."""
    factors: tuple[Factor, ...]
    """The factors or labels of its images."""
    files: tuple[RemoteFile, ...]
    """The official files."""
    is_unpacked: Callable[[], bool]
    """Returns whether the cache holds everything `read` needs, so that the files need not be fetched."""
    read: Callable[[Path, Progress], Data]
    """Reads the set from the folder of its files."""
    draw: Callable[[], Data] | None = None
    """Draws the set, if it can be drawn."""

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return cache_folder() / self.name

    @property
    def is_cached(self) -> bool:
        """Whether the official form can be opened without a network."""
        return self.is_unpacked() or all((self.folder / file.name).exists() for file in self.files)


def open_set(chosen: NamedSet, source: Source = "auto", progress: Progress = silent) -> Data:
    """Open a named set.

    Arguments:
        chosen: The set, see `find_set`.
        source: "official" for its files, downloaded if need be, "drawn" to draw it, "auto" for whichever is available.
        progress: Called with (what, done, total) while files are downloaded and converted.

    Raises:
        NarrowsError: The source is unknown, or the set cannot be drawn, downloaded or read.
    """
    if source not in ("auto", "drawn", "official"):
        raise NarrowsError(f"{setting('source')} must be auto, drawn or official; it is {source!r}")
    if source == "drawn" and chosen.draw is None:
        drawable = " and ".join(s.name for s in SETS.values() if s.draw)
        raise NarrowsError(
            f"{chosen.name} cannot be drawn (only {drawable} can); leave out {setting('source', 'drawn')}"
        )
    if chosen.draw and (source == "drawn" or (source == "auto" and not chosen.is_cached)):
        data = chosen.draw()
        more = "" if source == "drawn" else f"; for the official file: narrows data get {chosen.name}"
        return replace(data, note=data.note + more, source="drawn")
    if not chosen.is_unpacked():
        try:
            for file in chosen.files:
                fetch(file, chosen.folder, progress)
        except NarrowsError as error:
            if chosen.draw is None:
                raise
            otherwise = f"fetch it with `narrows data get {chosen.name}`"
            raise OptionError(str(error), f"or draw it, with {setting('source', 'drawn')}", otherwise) from None
    data = chosen.read(chosen.folder, progress)
    return replace(data, source="official") if chosen.draw else data


def _of(
    module: ModuleType, about: str, count: int, shape: tuple[int, int, int], home: str, licence: str = "not stated"
) -> NamedSet:
    """Return the set of a module, which gives it its name."""
    name, draw = module.__name__.rpartition(".")[2], getattr(module, "drawn", None)
    facts = (name, about, count, shape, licence, home)
    return NamedSet(*facts, module.FACTORS, module.FILES, module.is_cached, module.read, draw)


_LISTED = (
    _of(
        dsprites,
        "white shapes on black, drawn from five factors",
        737_280,
        (1, 64, 64),
        "https://github.com/google-deepmind/dsprites-dataset",
        "Apache-2.0",
    ),
    _of(
        shapes3d,
        "an object in a coloured room, rendered from six factors",
        480_000,
        (3, 64, 64),
        "https://github.com/google-deepmind/3d-shapes",
        "Apache-2.0",
    ),
    _of(cars3d, "183 car models from all sides, rendered", 17_568, (3, 64, 64), "http://www.scottreed.info"),
    _of(mnist, "handwritten digits", 70_000, (1, 28, 28), "http://yann.lecun.com/exdb/mnist"),
    _of(
        cifar100,
        "photographs of 100 kinds of things, upscaled from 32 x 32",
        60_000,
        (3, 64, 64),
        "https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
)
SETS = {listed.name: listed for listed in _LISTED}
"""The named sets, by name."""


def find_set(name: str) -> NamedSet:
    """Return the set called `name`; raise if there is none, with the nearest name."""
    if name not in SETS:
        hint = did_you_mean(name.lower(), SETS)
        raise NarrowsError(f"no such set: {name[:200]!r} (sets: {', '.join(SETS)}){hint}")
    return SETS[name]
