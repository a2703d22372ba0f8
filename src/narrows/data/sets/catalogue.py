"""The sets known by name: what they are, where they come from, and how they get here.

A set has an official form, files that are downloaded once and verified, and two of them have a drawn form as well,
which needs no download. Asked for without a choice, `open_set` takes the official form when it is cached, else draws,
else downloads.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from narrows.data.cache import cache_folder
from narrows.data.dataset import Data
from narrows.data.factors import Factor
from narrows.data.progress import Progress, silent
from narrows.data.sets import cars3d, cifar100, dsprites, mnist, official, shapes3d
from narrows.data.sets.download import RemoteFile, fetch
from narrows.errors import NarrowsError, OptionError

Origin = Literal["auto", "drawn", "official"]


@dataclass(frozen=True)
class NamedSet:
    """One set: what `narrows data list` tells of it, and the functions that bring it."""

    name: str
    about: str
    count: int
    shape: tuple[int, int, int]  # (C, H, W), as it is served
    factors: tuple[Factor, ...]
    licence: str
    home: str
    files: tuple[RemoteFile, ...]
    read: Callable[[Path, Progress], Data]  # from the folder of the files
    is_unpacked: Callable[[], bool]  # the cache has what `read` needs, without the files
    draw: Callable[[], Data] | None = None

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return cache_folder() / self.name

    @property
    def is_cached(self) -> bool:
        """Whether the official form can be had without a network."""
        return self.is_unpacked() or all((self.folder / file.name).exists() for file in self.files)


def open_set(chosen: NamedSet, origin: Origin = "auto", progress: Progress = silent) -> Data:
    """Return a set in the form that was asked for."""
    if origin == "drawn" and chosen.draw is None:
        drawn = [s.name for s in SETS.values() if s.draw]
        raise NarrowsError(f"{chosen.name} cannot be drawn (only {' and '.join(drawn)} can); leave out --source drawn")
    if chosen.draw and origin == "drawn":
        return replace(chosen.draw(), origin="drawn")
    if chosen.draw and origin == "auto" and not chosen.is_cached:
        data = chosen.draw()
        note = f"{data.note}; for the official file: narrows data get {chosen.name}"
        return replace(data, note=note, origin="drawn")
    return fetch_set(chosen, progress)


def fetch_set(chosen: NamedSet, progress: Progress = silent) -> Data:
    """Return the official form of a set, downloaded and unpacked first where it is not cached."""
    if not chosen.is_unpacked():
        try:
            for file in chosen.files:
                fetch(file, chosen.folder, progress)
        except NarrowsError as error:
            if chosen.draw is None:
                raise
            again = f"bring it here with `narrows data get {chosen.name}`"
            raise OptionError(str(error), "or have it drawn, with --source drawn", again) from None
    data = chosen.read(chosen.folder, progress)
    return replace(data, origin="official") if chosen.draw else data


def _listed(*sets: NamedSet) -> dict[str, NamedSet]:
    return {s.name: s for s in sets}


SETS = _listed(
    NamedSet(
        "dsprites",
        "white shapes on black, drawn from five factors",
        737_280,
        (1, 64, 64),
        dsprites.FACTORS,
        "Apache-2.0",
        "https://github.com/google-deepmind/dsprites-dataset",
        official.DSPRITES_FILES,
        lambda folder, progress: official.read_dsprites(folder / official.DSPRITES_FILES[0].name, progress),
        official.dsprites_is_cached,
        dsprites.drawn,
    ),
    NamedSet(
        "shapes3d",
        "an object in a coloured room, rendered from six factors",
        480_000,
        (3, 64, 64),
        shapes3d.FACTORS,
        "Apache-2.0",
        "https://github.com/google-deepmind/3d-shapes",
        official.SHAPES3D_FILES,
        lambda folder, progress: official.read_shapes3d(folder / official.SHAPES3D_FILES[0].name, progress),
        official.shapes3d_is_cached,
        shapes3d.drawn,
    ),
    NamedSet(
        "cars3d",
        "183 car models from all sides, rendered",
        17_568,
        (3, 64, 64),
        cars3d.FACTORS,
        "not stated",
        "http://www.scottreed.info",
        cars3d.FILES,
        cars3d.read,
        cars3d.is_cached,
    ),
    NamedSet(
        "mnist",
        "handwritten digits",
        70_000,
        (1, 28, 28),
        mnist.FACTORS,
        "not stated",
        "http://yann.lecun.com/exdb/mnist",
        mnist.FILES,
        mnist.read,
        lambda: False,
    ),
    NamedSet(
        "cifar100",
        "photographs of 100 kinds of things, upscaled from 32 x 32",
        60_000,
        (3, 64, 64),
        cifar100.FACTORS,
        "not stated",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        cifar100.FILES,
        cifar100.read,
        cifar100.is_cached,
    ),
)
"""By name."""


def find_set(name: str) -> NamedSet:
    """Return the set called `name`, or say which there are."""
    if name not in SETS:
        near = difflib.get_close_matches(name.lower(), SETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise NarrowsError(f"no such set: {name[:200]!r} (sets: {', '.join(SETS)}){hint}")
    return SETS[name]
