"""Which other files an HDF5 file may lead to: those in its own folder and below it.

A dataset may lie in another file than the one that was named: behind an external link, in the sources of a virtual
dataset, or in external storage. A file that a stranger wrote could so name any file of yours, and its content would end
up in your model. So links and virtual datasets are followed only within the folder of the named file, where sets of
several files are kept, and external storage, which takes the bytes of any file for numbers, not at all. All of this is
checked before HDF5 opens anything. It returns fill values where sources are missing, so those are looked for, too.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from narrows._util.errors import NarrowsError
from narrows._util.files import check_regular
from narrows._util.room import amount

if TYPE_CHECKING:
    import h5py

_MOST_LINKS = 16
"""Links and virtual datasets, one behind the other."""
_LARGEST_CHUNK = 1 << 30
"""Bytes: HDF5 decompresses a chunk as a whole."""


@dataclass(frozen=True)
class Reach:
    """What may be opened for a dataset that the user named."""

    path: Path
    """The file that the user named."""
    text: str
    """How the user named it, with a key."""

    def check_links(self, file: "h5py.File", key: str, depth: int = 0) -> None:
        """Raise if the way to `key` in `file` leads into a file that may not be opened."""
        import h5py

        way, here = key.strip("/").split("/"), file["/"]
        while way and isinstance(here, h5py.Group):
            part, way = way[0], way[1:]
            link = here.get(part, getlink=True) if part else None
            if isinstance(link, h5py.HardLink):
                here = here[part]
            if not isinstance(link, h5py.SoftLink | h5py.ExternalLink):
                continue
            if (depth := depth + 1) > _MOST_LINKS:
                raise NarrowsError(f"{self.text} goes through more than {_MOST_LINKS} links; name the array itself")
            if isinstance(link, h5py.ExternalLink):
                target = self._inside(_near(link.filename, file), f"links to {link.filename}")
                with _opened(target) as other:
                    if other is not None:
                        self.check_links(other, "/".join([link.path, *way]), depth)
                return
            way = [*link.path.strip("/").split("/"), *way]
            here = file["/"] if link.path.startswith("/") else here

    def files(self, dataset: "h5py.Dataset", depth: int = 0) -> set[Path]:
        """Return the files that hold the dataset: its own, and the sources of a virtual one.

        Raises:
            NarrowsError: One of them is missing or may not be opened, or the dataset cannot be read in parts.
        """
        import h5py

        if dataset.external:
            raise NarrowsError(
                f"{self.text} keeps its values in another file, {dataset.external[0][0]} (HDF5's external storage), "
                "which is not read because it could be any file of yours; if you trust it, copy the array into the "
                "file with h5repack"
            )
        chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
        if chunk > _LARGEST_CHUNK:
            raise NarrowsError(
                f"{self.text} is stored in chunks of {amount(chunk)}, and a chunk can only be read as a whole; write "
                "it again with chunks of a few megabytes"
            )
        own = Path(dataset.file.filename)
        found = {self._inside(own, f"links to {own}")}
        for source in dataset.virtual_sources() if dataset.is_virtual else ():
            if depth == _MOST_LINKS:
                raise NarrowsError(f"{self.text} is put together through too many files; copy it into one array")
            near = own if source.file_name == "." else _near(source.file_name, dataset.file)
            for file in sorted(near.parent.glob(near.name.replace("%b", "*"))) if "%b" in near.name else [near]:
                self._inside(file, f"takes values from {source.file_name}")
                with _opened(file) as other:
                    if other is not None:
                        self.check_links(other, source.dset_name, depth)
                    item = None if other is None else other.get(source.dset_name)
                    if not isinstance(item, h5py.Dataset):
                        raise NarrowsError(
                            f"{self.text} is put together from other files, and {source.file_name} does not exist or "
                            f"holds no array {source.dset_name!r}; put it beside {own}"
                        )
                    found |= self.files(item, depth + 1)
        return found

    def _inside(self, file: Path, does: str) -> Path:
        """Return `file`; raise if it lies outside the named file's folder, or if reading it would wait."""
        check_regular(file)
        folders = (self.path.parent.resolve(), self.path.resolve().parent)
        if file.exists() and file != self.path and not any(map(file.resolve().is_relative_to, folders)):
            raise NarrowsError(
                f"{self.text} {does}, outside the folder {self.path.parent}, where it could be any file of yours; if "
                f"you trust it, move that file into {self.path.parent}, or copy the array into one file"
            )
        return file


def _near(name: str, file: "h5py.File") -> Path:
    """Return the file that HDF5 opens for a name in `file`: beside that file, or else from the current folder."""
    beside = Path(file.filename).parent / name
    return beside if beside.exists() or "%b" in name else Path(name)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator["h5py.File | None"]:
    """Open a file that holds a part of another's dataset; yield None if it is no HDF5 file."""
    import h5py

    if not (file.is_file() and h5py.is_hdf5(file)):
        yield None
        return
    with h5py.File(file, "r") as opened:
        yield opened
