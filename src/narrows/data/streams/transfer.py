"""Bytes of files that lie elsewhere, however often the connection breaks.

A `Source` answers two questions: how large is a file, and which bytes are in this range? `pieces` asks again after a
failure, with growing pauses, and only for what is still missing. It passes on exactly the bytes that were asked for: a
server that sends more is cut off, and one that sends less is asked again. A file that changed since the set was listed
ends the run in one line, because rows of two versions do not belong together.

https:// goes through requests, which needs no other package and lets every answer be compared with what was listed (its
length, its place in the file, its ETag). All other protocols go through fsspec.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from narrows._util.errors import NarrowsError
from narrows._util.text import printable
from narrows._version import __version__

ATTEMPTS = 6
"""Tries in a row without a new byte, before a transfer is given up."""
TRIES_TO_LIST = 3
"""Tries before a set is known: whoever made a slip in an address should hear of it soon."""
PAUSE = 0.5
"""Seconds before the second try; doubled for each further one."""
FIRST_ANSWER = 6.0
"""Seconds in which a server must answer for the first time, whatever the libraries below would wait and try again."""
PIECE = 1 << 20
TIMEOUT = (10, 60)
"""Seconds to connect, and between two pieces of data."""
EXTRA = "pip install 'narrows[remote]'"


class Temporary(Exception):
    """A transfer failed in a way that may pass; the text says why."""


@dataclass(frozen=True)
class File:
    """A file of a set, as it was when the set was listed."""

    source: "Source"
    path: str
    """What the source calls it."""
    address: str
    """How the user knows it."""
    size: int
    """Bytes."""
    tag: str
    """Changes with the content: an ETag, a checksum or a time; "" if the source has none."""


class Source(Protocol):
    """Where files lie."""

    def stat(self, path: str) -> tuple[int, str]:
        """Return the size and the tag of a file; raise `Temporary` if there was no answer."""
        ...

    def read(self, file: File, start: int, stop: int) -> Iterator[bytes]:
        """Yield bytes of a file from `start` on, perhaps more or fewer than up to `stop`; raise `Temporary`."""
        ...


def shown(address: str) -> str:
    """Return an address without passwords and without what follows a question mark, which may be a signature."""
    return printable(re.sub(r"//[^/@]*@", "//", address).partition("?")[0])


def stat(source: Source, path: str, address: str, tries: int = TRIES_TO_LIST) -> tuple[int, str]:
    """Return the size and the tag of a file."""
    for attempt in range(tries):
        try:
            return source.stat(path)
        except Temporary as error:
            if attempt == tries - 1:
                raise _given_up(address, error, tries) from None
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError


def first_answer(ask: Callable[[], object], address: str) -> Exception | None:
    """Ask a server for something small, and return the error if that fails.

    Raises:
        NarrowsError: It has not returned in time.
    """
    failed: list[Exception] = []

    def call() -> None:
        try:
            ask()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(FIRST_ANSWER)
    if thread.is_alive():
        where = ", AWS_ENDPOINT_URL" if address.startswith("s3://") else ""
        raise NarrowsError(
            f"{shown(address)}: its server could not be reached within {FIRST_ANSWER:g} s; check the address{where} "
            "and the network"
        )
    return failed[0] if failed else None


def pieces(
    file: File, start: int = 0, stop: int | None = None, ended: threading.Event | None = None
) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` to `stop`, all of them and no more.

    Arguments:
        file: The file.
        start: The first byte.
        stop: The end; by default that of the file.
        ended: Stops the transfer when it is set.

    Raises:
        NarrowsError: The file is gone, has changed or may not be read, or the connection fails again and again.
    """
    stop, failures = file.size if stop is None else stop, 0
    while start < stop:
        before = start
        try:
            for piece in file.source.read(file, start, stop):
                if ended is not None and ended.is_set():
                    return
                piece = piece[: stop - start]
                start += len(piece)
                yield piece
                if start == stop:
                    return
            raise Temporary("the connection was closed early")
        except Temporary as error:
            failures = 1 if start > before else failures + 1
            if failures == ATTEMPTS:
                raise _given_up(file.address, error, ATTEMPTS) from None
            time.sleep(PAUSE * 2 ** (failures - 1))


def read_range(file: File, start: int, stop: int) -> bytes:
    """Return the bytes of a file from `start` to `stop`."""
    return b"".join(pieces(file, start, stop))


def check_unchanged(file: File) -> None:
    """Raise if a file is not the one that was listed."""
    if stat(file.source, file.path, file.address, ATTEMPTS) != (file.size, file.tag):
        raise changed(file)


def changed(file: File) -> NarrowsError:
    """Return the error for a file that is not the one that was listed."""
    return NarrowsError(
        f"{shown(file.address)} changed on its server while it was used; restore it and go on with `narrows resume`, "
        "or start a new run"
    )


def _given_up(address: str, error: Temporary, tries: int) -> NarrowsError:
    return NarrowsError(
        f"cannot read {shown(address)} ({error}; {tries} tries); check the network and try again: a run goes on "
        "with `narrows resume`"
    )


class Http:
    """Files of web servers."""

    def __init__(self) -> None:
        self._local = threading.local()  # a session of requests is not for several threads

    def stat(self, path: str) -> tuple[int, str]:
        """See `Source`; asks for one byte, because signed addresses and some servers refuse HEAD."""
        with self._answer(path, path, "bytes=0-0") as response:
            length = response.headers.get("Content-Length", "")
            if response.status_code == 206:
                length = response.headers.get("Content-Range", "").rpartition("/")[2]
            if not length.isdigit():
                raise NarrowsError(f"{shown(path)}: its server does not say how large it is; use another server")
            return int(length), _tag(response)

    def read(self, file: File, start: int, stop: int) -> Iterator[bytes]:
        """See `Source`."""
        import requests
        import urllib3

        with self._answer(file.path, file.address, f"bytes={start}-{stop - 1}") as response:
            if response.status_code == 206:
                place, _, total = response.headers.get("Content-Range", "").partition("/")
                if total not in (str(file.size), "*"):
                    raise changed(file)
                if not place.startswith(f"bytes {start}-"):
                    raise Temporary("the server sent another part of the file")
            elif start:
                raise NarrowsError(
                    f"{shown(file.address)}: its server sends whole files only (no Range requests); use another "
                    "server, or download the files and give their folder"
                )
            if _tag(response) != file.tag:
                raise changed(file)
            try:
                yield from response.raw.stream(PIECE, decode_content=False)
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
                raise Temporary(_reason(error)) from None

    def _answer(self, path: str, address: str, wanted: str) -> Any:
        import requests
        import urllib3

        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        headers = {"User-Agent": f"narrows/{__version__}", "Accept-Encoding": "identity", "Range": wanted}
        try:
            response = self._local.session.get(path, headers=headers, stream=True, timeout=TIMEOUT)
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema):
            raise NarrowsError(f"{shown(address)} is not an address; check it") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise Temporary(_reason(error)) from None
        status = response.status_code
        if status in (200, 206):
            return response
        response.close()
        if status in (408, 425, 429) or status >= 500:
            raise Temporary(f"HTTP {status}")
        if status in (401, 403):
            raise NarrowsError(
                f"{shown(address)} may not be read (HTTP {status}); if it needs a login, put it into ~/.netrc"
            )
        raise NarrowsError(f"{shown(address)} does not exist (HTTP {status}); check the address")


def _tag(response: Any) -> str:
    return str(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")


def _reason(error: BaseException) -> str:
    """Return in a few words what is wrong with a connection; addresses are left out, they may hold secrets."""
    import requests
    import urllib3

    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
        return "no answer in time"
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return printable(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, urllib3.exceptions.ProtocolError | requests.ConnectionError):
        return "connection lost"
    return type(error).__name__


class FileSystem:
    """Files of any other protocol, by fsspec."""

    def __init__(self, address: str) -> None:
        import fsspec

        try:
            self.fs, self.root = fsspec.core.url_to_fs(address)
        except ImportError:
            protocol = address.partition("://")[0]
            raise NarrowsError(f"reading {protocol}:// needs another package: {EXTRA}") from None
        except ValueError as error:
            raise NarrowsError(
                f"{shown(address)} cannot be read ({_brief(error)}); use s3://, gs://, https:// or hf://"
            ) from None
        except Exception as error:
            raise self.failed(address, error) from None

    def stat(self, path: str) -> tuple[int, str]:
        """See `Source`."""
        try:
            self.fs.invalidate_cache(path)
            facts = self.fs.info(path)
        except Exception as error:
            raise self.failed(path, error) from None
        return int(facts["size"]), tag_of(facts)

    def read(self, file: File, start: int, stop: int) -> Iterator[bytes]:
        """See `Source`."""
        for first in range(start, stop, 8 * PIECE):
            last = min(first + 8 * PIECE, stop)
            try:
                piece: bytes = self.fs.cat_file(file.path, start=first, end=last)
            except Exception as error:
                raise self.failed(file.address, error) from None
            if not piece:
                raise changed(file)
            yield piece
            if len(piece) < last - first:
                return

    def failed(self, address: str, error: Exception) -> Exception:
        """Return what to raise for an error of fsspec or of a library below it, which may be of any class."""
        kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
        if "Credentials" in kinds or "RefreshError" in kinds:
            return NarrowsError(
                f"{shown(address)}: no credentials were found; set them as its own tools expect them, for S3 with "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or `aws configure`, or FSSPEC_S3_ANON=true if the bucket "
                "is public"
            )
        if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
            return NarrowsError(f"{shown(address)} does not exist; check the bucket and the path")
        if isinstance(error, PermissionError):
            return NarrowsError(f"{shown(address)} may not be read; check its permissions and your credentials")
        if isinstance(error, ImportError):
            return NarrowsError(f"reading {shown(address)} needs another package: {EXTRA}")
        return Temporary(_brief(error))


def tag_of(facts: dict[str, Any]) -> str:
    """Return what changes with a file's content, of the facts that a file system knows."""
    names = ("ETag", "etag", "blob_id", "md5Hash", "generation", "mtime", "LastModified", "created")
    return next((str(facts[name]).strip('"') for name in names if facts.get(name)), "")


def _brief(error: BaseException) -> str:
    """Return the class and the first line of an error, without what follows a question mark in an address."""
    text = re.sub(r"//[^/@\s]*@", "//", re.sub(r"\?\S*", "", str(error).partition("\n")[0]))
    return printable(f"{type(error).__name__}: {text}" if text else type(error).__name__, 160)
