"""`load`: from what a user types to checked `Data`.

==============================  ==========================================================================
dsprites, mnist, ...            a named set (named/catalogue.py)
my.npy                          an array, mapped from disk and not read (readers/archives.py)
my.npz, my.npz::key             an array of an archive, or a sparse matrix (readers/archives.py)
my.csv, .tsv, .parquet          a table of numbers (readers/tables.py)
my.h5, my.h5::group/key         a dataset of an HDF5 file (readers/hdf5.py)
parts/*.npy, parts/*.parquet    several files as one set (readers/shards.py)
a folder                        all PNG, JPEG and WebP images in it (readers/images.py), or its shards
s3://..., gs://..., https://... shards that lie elsewhere (streams/)
hf:NAME, hf:NAME@CONFIG::COLUMN a set of the Hugging Face hub (readers/hub.py)
==============================  ==========================================================================

Pickled objects are never loaded, because a pickle from a stranger runs code.
"""

import contextlib
import csv
import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from narrows._util.checks import FLAG, FUNCTION, TEXT, argument, one_of, path_argument, several
from narrows._util.errors import NarrowsError, setting
from narrows._util.files import check_regular
from narrows._util.progress import Progress, silent
from narrows._util.room import bytes_in
from narrows._util.text import printable
from narrows.data.arrays import check_missing
from narrows.data.dataset import Categories, Data, Missing, Values
from narrows.data.mixed import Column
from narrows.data.named.catalogue import SETS, Source, open_set
from narrows.data.options import APPLIES_TO, Kind, ReadOptions, SplitBy
from narrows.data.readers.archives import load_npy, load_npz
from narrows.data.readers.hdf5 import load_hdf5
from narrows.data.readers.hub import load_hub
from narrows.data.readers.images import LARGEST, SMALLEST, load_images
from narrows.data.readers.shards import check_not_mixed, in_folder, is_pattern, load_npy_shards, matching, shard_kind
from narrows.data.readers.tables import Roles, load_table
from narrows.data.streams.addresses import hub_address, is_address

ENDINGS: dict[str, Kind] = {
    ".npy": "npy",
    ".npz": "npz",
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq"), "table"),
    **dict.fromkeys((".h5", ".hdf5"), "hdf5"),
}
HUB = "hf:"


class MissingData(NarrowsError):
    """There is no file, folder or set of this name."""


def load(
    data: str | os.PathLike[str],
    values: Values = "unit",
    *,
    source: Source = "auto",
    image_size: str | int | tuple[int, int] | None = None,
    skip_broken: bool = False,
    columns: str | Sequence[str] | None = None,
    missing: Missing = "refuse",
    categories: Categories = "refuse",
    group_column: str | None = None,
    weight_column: str | None = None,
    stream: bool = False,
    split_by: SplitBy = "row",
    cache_size: str | int = "8GB",
    progress: Progress = silent,
) -> Data:
    """Read the data that a name, a path or an address stands for, see the table above.

    Arguments:
        data: A named set, a file, shards, a folder of images, an address, or hf:NAME.
        values: "unit" if all values lie in [0, 1] (bytes always do), "any" for any finite numbers.
        source: dsprites and shapes3d: "official" for the published file, "drawn" for the drawn set.
        image_size: Folders of images and hf: sets: scale and crop each to 64, "48x64" or (48, 64), height x width.
        skip_broken: Folders of images: leave out files that cannot be read.
        columns: Tables: the columns to take, a list or "a,b,c"; by default all.
        missing: Arrays and tables: "mask" if NaN or an empty field stands for a value that was not observed.
        categories: Tables: "auto" if columns of texts, and of true and false, are categories.
        group_column: Tables: the column that names the group of each row; a group is never divided between splits.
        weight_column: Tables: the column with the weight of each row, a number from 0 on.
        stream: Shards on a disk: read them through a local cache, as those at an address always are.
        split_by: Streamed shards: hold out rows, or whole "shard"s, by a hash.
        cache_size: Streamed shards: what they may take on the local disk at a time, "2GB", "500MB" or bytes.
        progress: Called with (what, done, total) while data are downloaded, read or converted.

    Returns:
        The data, checked: images served as (C, H, W), vectors as (D,), float32.

    Raises:
        NarrowsError: The data do not exist, cannot be read, or do not fit the options.
    """
    if not isinstance(data, str):
        data = path_argument("data", data)
    argument("values", values, one_of(("unit", "any")))
    argument("skip_broken", skip_broken, FLAG)
    argument("progress", progress, FUNCTION)
    if columns is not None and not isinstance(columns, str):
        columns = tuple(several("columns", columns, TEXT, "names of columns, a list or 'a,b,c'"))
    argument("stream", stream, FLAG)
    argument("split_by", split_by, one_of(("row", "shard")))
    check_missing(missing)
    for name, column in (("group_column", group_column), ("weight_column", weight_column)):
        argument(name, column, TEXT, or_none=True)
    options = ReadOptions(
        source,
        image_size,
        skip_broken,
        columns,
        missing,
        argument("categories", categories, one_of(get_args(Categories))),
        group_column,
        weight_column,
        values,
        stream,
        split_by,
        cache_size,
    )
    return read(data, options, progress)


def read(
    data: str | os.PathLike[str], options: ReadOptions, progress: Progress = silent, known: Sequence[Column] = ()
) -> Data:
    """Read the data as `load` does, with options that are already collected.

    `known` are the columns of the table that a model was trained on, which has the same categories.
    """
    text = str(data)
    kind = kind_of(text)
    for name in options.given():
        kinds, description = APPLIES_TO[name]
        if kind not in kinds:
            raise NarrowsError(f"{setting(name)} is for {description}, and {text} is none of them; leave it out")
    size, values = _size(options.image_size), options.values
    if kind == "remote" or options.stream:
        from narrows.data.streams.stream import load_stream  # not above: only streams need fsspec

        for name in ("missing", "categories", "group_column", "weight_column"):
            if name in options.given():
                raise NarrowsError(f"{setting(name)} is not for data that are streamed; leave it out")
        room, columns = _bytes(options.cache_size), _names(options.columns)
        if kind == "hub":
            text, columns = hub_address(text.removeprefix(HUB))
        return load_stream(text, values, columns, size, options.split_by, room, progress)
    for name in ("split_by", "cache_size"):
        if name in options.given():
            raise NarrowsError(
                f"{setting(name)} is for shards that are streamed; leave it out, or use {setting('stream')}"
            )
    if kind == "set":
        return open_set(SETS[text], options.source, progress)
    if kind == "hub":
        return load_hub(text.removeprefix(HUB), values, size, progress)
    path, key = _path_and_key(text)
    if kind == "folder":
        return load_images(path, size, options.skip_broken, progress)
    if kind == "npz":
        return load_npz(path, key, values, progress, options.missing)
    if kind == "hdf5":
        return load_hdf5(path, key, values, progress, options.missing)
    if key:
        raise NarrowsError(f"{text}: {path} holds one array without a name; leave out ::{key}")
    if kind == "table":
        roles = Roles(options.group_column, options.weight_column)
        names, found = _names(options.columns), options.categories
        return load_table(path, names, progress, options.missing, roles, found, known)
    if path.is_file():
        return load_npy(path, values, progress, options.missing)
    return load_npy_shards(path, values, progress, options.missing)


def absolute(data: str) -> str:
    """Return `data` with the path of a file or folder made absolute, so that a run can be resumed from anywhere."""
    if data in SETS or is_address(data):
        return data
    if data.startswith(HUB):
        folder, separator, column = data.removeprefix(HUB).partition("::")
        whole = os.path.expanduser(folder)
        return f"{HUB}{os.path.abspath(whole)}{separator}{column}" if os.path.isdir(whole) else data
    path, key = _path_and_key(data)
    exists = os.path.exists(path) or (is_pattern(data) and bool(matching(data)))
    return f"{path.absolute()}{'::' if key else ''}{key}" if exists else data


def kind_of(text: str) -> Kind:
    """Return which kind of data a name, a path or an address stands for; raise if it is none."""
    if text in SETS:
        return "set"
    if is_address(text):
        return "remote"
    if text.startswith(HUB):
        return "hub"
    path, key = _path_and_key(text)
    if is_pattern(text) and not os.path.exists(path):
        return shard_kind([shard.name for shard in matching(text)]) or "folder"
    if os.path.islink(path) and not os.path.exists(path):
        raise NarrowsError(f"{text} is a broken symlink; fix or remove it")
    try:
        os.stat(path)
    except PermissionError as error:
        raise NarrowsError(f"{text} cannot be read ({error.strerror}); check its path and mode") from None
    except (OSError, ValueError):
        pass  # it does not exist
    if not text.partition("::")[0] or not os.path.exists(path):
        near = difflib.get_close_matches(text.lower(), SETS, n=1)
        with contextlib.suppress(OSError):
            beside = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
            near += [str(path.parent / name) for name in beside]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise MissingData(
            f"no such file, folder or set: {text[:200]!r} (sets: {', '.join(SETS)}; files: {', '.join(ENDINGS)}){hint}"
        )
    check_regular(path)
    if path.is_dir():
        if key:
            raise NarrowsError(f"{text}: {path} is a folder; leave out ::{key}")
        shards = shard_kind([shard.name for shard in in_folder(path)])
        if shards is None:
            check_not_mixed(path)
        return shards or "folder"
    for ending, kind in ENDINGS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise NarrowsError(
        f"{text}: files of this kind are not read (known: {', '.join(ENDINGS)}); "
        f"save a table as {path.stem}.csv, an array with numpy.save as {path.stem}.npy"
    )


def _path_and_key(text: str) -> tuple[Path, str]:
    file, _, key = (text, "", "") if os.path.exists(text) else text.partition("::")
    return Path(os.path.expanduser(file)), key


def _size(image_size: str | int | tuple[int, int] | None) -> tuple[int, int] | None:
    if image_size is None:
        return None
    if isinstance(image_size, tuple | list) and len(image_size) == 2:
        text = "x".join(map(str, image_size))
    else:
        text = str(image_size).strip().lower()
    found = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", text)
    if found is None:
        raise NarrowsError(f"{setting('image_size')} must be 64, or 48x64 for height x width; it is {image_size!r}")
    size = int(found[1]), int(found[2] or found[1])
    if not all(SMALLEST <= side <= LARGEST for side in size):
        raise NarrowsError(
            f"{setting('image_size')} must have sides of {SMALLEST} to {LARGEST} pixels; it is "
            f"{printable(f'{size[0]} x {size[1]}', 40)}"
        )
    return size


def _bytes(cache_size: str | int) -> int:
    nbytes = bytes_in(cache_size)
    if not nbytes:
        raise NarrowsError(f"{setting('cache_size')} must be a size such as 2GB or 500MB; it is {cache_size!r}")
    return nbytes


def _names(columns: str | Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    names = next(csv.reader([columns], skipinitialspace=True), []) if isinstance(columns, str) else columns
    names = [str(name).strip() for name in names]
    if not names or not all(names):
        raise NarrowsError(f'{setting("columns")} has an empty name: {columns!r}; write a,b,"c, with a comma"')
    return names
