"""From an address to the files of a set.

s3://bucket/parts/*.npy                 a pattern, where the server can list its files
https://host/part-{000..079}.npy        a range, for web servers, which have no lists
gs://bucket/parts, hf://datasets/...    a folder with nothing but shards of one kind
parts/*.npy with --stream               files on a (slow) disk of this machine

A run stores the address of its data and shows it, so an address must hold no secret: one with a password or with a
query, which is how signed addresses carry their signature, is refused.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from narrows._util.errors import NarrowsError
from narrows._util.progress import Progress, silent
from narrows.data.readers.shards import expanded, is_pattern, natural, shard_kind, shards_of
from narrows.data.readers.shared import listed
from narrows.data.streams.transfer import (
    File,
    FileSystem,
    Http,
    Source,
    Temporary,
    first_answer,
    shown,
    stat,
    tag_of,
)

THREADS = 16
"""Files that are asked for at a time."""


def is_address(text: str) -> bool:
    """Return whether a text is the address of something on another machine, such as s3://bucket/part-*.npy."""
    return re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE) is not None


def hub_address(source: str) -> tuple[str, list[str] | None]:
    """Return the address of a set of the Hugging Face hub, NAME[@CONFIG][::COLUMN], and the column if one is named.

    The hub keeps a copy of every set as Parquet files, one folder for each configuration; its split "train" is taken.
    """
    whole, _, column = source.partition("::")
    name, _, config = whole.partition("@")
    if os.path.isdir(os.path.expanduser(whole)):
        raise NarrowsError(f"hf:{source} is a folder on this machine; give its files, such as {whole}/*.parquet")
    root = f"hf://datasets/{name}@refs/convert/parquet"
    if not config:
        hub = FileSystem(root)
        try:
            folders = [one["name"] for one in hub.fs.ls(root, detail=True) if one["type"] == "directory"]
        except Exception as error:
            failure = hub.failed(f"hf:{name}", error)
            if isinstance(failure, Temporary):
                raise NarrowsError(f"hf:{name} cannot be listed ({failure}); check the network and the name") from None
            raise failure from None
        configs = [folder.rpartition("/")[2] for folder in folders]
        if len(configs) != 1:
            raise NarrowsError(
                f"hf:{name} has several configurations; choose one with hf:{name}@CONFIG: {listed(configs)}"
            )
        config = configs[0]
    return f"{root}/{config}/train/*.parquet", [column] if column else None


def find_files(text: str, progress: Progress = silent) -> list[File]:
    """Return the files of a set in natural order.

    Raises:
        NarrowsError: There are none, or they cannot be listed.
    """
    if not is_address(text):
        local = FileSystem("file://")
        return _asked(
            local, [(os.path.abspath(path), str(path)) for path in shards_of(Path(os.path.expanduser(text)))], progress
        )
    if ("?" in text and re.match(r"https?://", text)) or re.search(r"//[^/]*@", text):
        raise NarrowsError(
            f"{shown(text)}: an address with a password or a query (?...) would be stored with the run and shown on "
            "its pages; keep secrets in ~/.netrc or in the environment, and give the address without them"
        )
    names = expanded(text)
    if re.match(r"https?://", text):
        if any(map(is_pattern, names)):
            raise NarrowsError(
                f"{text}: web servers have no lists of files; give a range, such as part-{{000..079}}.npy"
            )
        server = Http()
        first_answer(lambda: server.stat(names[0]), text)  # what fails is tried again below
        return _asked(server, [(name, name) for name in names], progress)
    source = FileSystem(names[0])
    folder = _fixed(source.fs._strip_protocol(names[0]))
    failed = first_answer(lambda: source.fs.info(folder), text)
    if failed is not None and isinstance(source.failed(text, failed), Temporary):
        raise _unlisted(text, source.failed(text, failed))
    if len(names) > 1 and not any(map(is_pattern, names)):
        return _asked(source, [(source.fs._strip_protocol(name), name) for name in names], progress)
    files = [file for name in names for file in _listed(source, name)]
    return sorted(files, key=lambda file: natural(file.path))


def _asked(source: Source, files: list[tuple[str, str]], progress: Progress) -> list[File]:
    """Return files with the sizes that their server states."""

    def ask(file: tuple[str, str]) -> File:
        path, address = file
        return File(source, path, address, *stat(source, path, address))

    with ThreadPoolExecutor(THREADS) as pool:
        found = []
        for file in pool.map(ask, files):
            found.append(file)
            progress("asking for the sizes of shards", len(found), len(files))
    return found


def _listed(source: FileSystem, address: str) -> list[File]:
    """Return the files that a pattern, a folder or the address of one file stands for."""
    fs, path = source.fs, source.fs._strip_protocol(address)
    protocol = address.partition("://")[0]
    try:
        if is_pattern(path):
            found = fs.glob(path, detail=True)
        elif fs.isdir(path):
            found = {name: facts for name, facts in fs.glob(f"{path}/*", detail=True).items() if _is_shard(name)}
        else:
            found = {path: fs.info(path)}
        if not found:
            fs.ls(_fixed(path))  # raises what glob keeps to itself: no bucket, no credentials
    except Exception as error:
        failure = source.failed(address, error)
        if isinstance(failure, Temporary):
            raise _unlisted(address, failure) from None
        raise failure from None
    facts = {name: one for name, one in found.items() if one.get("type") != "directory"}
    if not facts:
        raise NarrowsError(f"no shards match {shown(address)}; check the pattern, and quote it against the shell")
    if shard_kind(list(facts)) is None:
        raise NarrowsError(f"{shown(address)} matches files of several kinds; choose a pattern for one kind")
    return [File(source, name, f"{protocol}://{name}", int(one["size"]), tag_of(one)) for name, one in facts.items()]


def _fixed(path: str) -> str:
    """Return the part of a path before its first pattern."""
    return re.split(r"/[^/]*[*?\[]", path)[0]


def _unlisted(address: str, failure: Exception) -> NarrowsError:
    return NarrowsError(f"{shown(address)} cannot be listed ({failure}); check the network")


def _is_shard(path: str) -> bool:
    return not path.rpartition("/")[2].startswith((".", "_"))
