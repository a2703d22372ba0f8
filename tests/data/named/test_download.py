"""Downloads over a real connection: whole or absent, resumed, one at a time, and the text of every failure."""

import contextlib
import gzip
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from http_server import LocalServer, Page
from narrows import __version__
from narrows._util.errors import NarrowsError
from narrows.data.named import download
from narrows.data.named.download import RemoteFile, fetch

NAME = "set.bin"
CONTENT = bytes(i * i * 31 % 251 for i in range(300_000))
OTHER = CONTENT[::-1]


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CHECKSUM = sha256(CONTENT)


@pytest.fixture(autouse=True)
def _direct_and_quick(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("NARROWS_MIRROR", raising=False)
    monkeypatch.setattr(download, "_PAUSE", 0.01)


@pytest.fixture
def server():
    with LocalServer({NAME: CONTENT, f"b/{NAME}": CONTENT}) as local:
        yield local


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def remote(*urls, **fields):
    return RemoteFile(NAME, urls, **{"checksum": CHECKSUM, **fields})


def here(server, **fields):
    return remote(f"{server.url}/{NAME}", **fields)


def part(server, folder, path=NAME):
    tag = hashlib.sha256(f"{server.url}/{path}".encode()).hexdigest()[:8]
    return folder / f".{NAME}.{tag}.part"


def left(folder):
    """Every file in `folder` but the lock, which holds nothing."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def refusal(file, folder):
    with pytest.raises(NarrowsError) as caught:
        fetch(file, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_fetched(file, folder):
    path = fetch(file, folder)
    assert path == folder / NAME
    assert path.read_bytes() == CONTENT
    assert left(folder) == [NAME]


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


# Downloads without trouble


def test_the_right_bytes_once(server, folder, capfd):
    assert_fetched(here(server), folder)
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, None)]
    assert server.headers[0]["User-Agent"] == f"narrows/{__version__}"
    assert server.headers[0]["Accept-Encoding"] == "identity"
    assert capfd.readouterr() == ("", "")


def test_md5_and_capitals(server, folder):
    assert_fetched(here(server, checksum=f"MD5:{hashlib.md5(CONTENT).hexdigest().upper()}"), folder)


def test_progress_counts_up_to_the_size(server, folder):
    calls = []
    fetch(here(server), folder, lambda *step: calls.append(step))
    assert {(what, total) for what, _, total in calls} == {(f"downloading {NAME}", len(CONTENT))}
    done = [step[1] for step in calls]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, len(CONTENT))


def test_without_a_stated_length(server, folder):
    server.pages[NAME].length = False
    calls = []
    fetch(here(server), folder, lambda *step: calls.append(step))
    assert calls[-1] == (f"downloading {NAME}", len(CONTENT), 0)


def test_a_compressed_file_stays_compressed(server, folder):
    """Servers call a .gz file "encoded with gzip"; its checksum is of the bytes as they are."""
    packed = gzip.compress(CONTENT)
    server.pages[NAME] = Page(packed, encoding="gzip")
    assert fetch(here(server, checksum=sha256(packed)), folder).read_bytes() == packed


def test_redirects_are_followed_with_the_range(server, folder):
    server.pages[NAME].redirect = f"{server.url}/b/{NAME}"
    folder.mkdir()
    part(server, folder).write_bytes(CONTENT[:1000])
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, "bytes=1000-"), (f"b/{NAME}", "bytes=1000-")]


# Files put there by hand


def test_a_file_put_there_by_hand(folder):
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    assert_fetched(remote(), folder)


def test_a_wrong_file_put_there_by_hand_is_left_alone(server, folder):
    folder.mkdir()
    (folder / NAME).write_bytes(OTHER)
    assert refusal(here(server), folder) == (
        f"{folder / NAME} has the checksum {sha256(OTHER)}, expected {CHECKSUM}; it is left as it is: "
        "remove it and narrows fetches it again"
    )
    assert (folder / NAME).read_bytes() == OTHER
    assert server.requests == []


def test_a_file_that_was_packed_anew_is_known_by_what_it_holds(folder):
    folder.mkdir()
    official = remote(checksum=sha256(gzip.compress(CONTENT, 9, mtime=1)), unpacked=CHECKSUM)
    (folder / NAME).write_bytes(gzip.compress(CONTENT, 1, mtime=2))
    assert fetch(official, folder) == folder / NAME
    for wrong in (gzip.compress(OTHER), gzip.compress(CONTENT)[:-100], CONTENT, b""):
        (folder / NAME).write_bytes(wrong)
        assert "it is left as it is" in refusal(official, folder)


def test_a_folder_in_its_place(server, folder):
    (folder / NAME).mkdir(parents=True)
    assert refusal(here(server), folder).startswith(f"cannot read {folder / NAME} (Is a directory); ")


# Cut connections


def test_cut_and_resumed(server, folder):
    server.pages[NAME].cut_after, server.pages[NAME].cuts = 100_000, 2
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, None), (NAME, "bytes=100000-"), (NAME, "bytes=200000-")]


def test_attempts_count_from_the_last_new_byte(server, folder):
    server.pages[NAME].cut_after, server.pages[NAME].cuts = 20_000, -1
    assert_fetched(here(server), folder)
    assert len(server.requests) == 15


def test_cut_for_good_then_continued_by_the_next_call(server, folder):
    server.pages[NAME].cut_after, server.pages[NAME].cuts = 100_000, 1
    original = server.pages[NAME]

    def die(what, done, total):
        server.pages[NAME] = Page(b"", status=503)

    with pytest.raises(NarrowsError) as caught:
        fetch(here(server), folder, die)
    assert str(caught.value) == (
        f"cannot download {NAME}: {server.url}/{NAME} (HTTP 503); the 0.1 MB received are kept, and the next try "
        f"continues from there; check the network, or put the file yourself at {folder / NAME} ({CHECKSUM})"
    )
    assert left(folder) == [part(server, folder).name]
    assert part(server, folder).read_bytes() == CONTENT[:100_000]

    server.pages[NAME] = original
    server.requests.clear()
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, "bytes=100000-")]


def test_always_cut_at_the_same_place(server, folder):
    server.pages[NAME] = Page(CONTENT, cut_after=100_000, cuts=-1, ranges=False)
    assert "(connection lost after 0.1 MB); the 0.1 MB received are kept" in refusal(here(server), folder)
    assert len(server.requests) == download._ATTEMPTS


def test_cut_without_a_stated_length(server, folder):
    server.pages[NAME] = Page(CONTENT, cut_after=100_000, cuts=1, length=False)
    assert_fetched(here(server, size=len(CONTENT)), folder)
    assert server.requests == [(NAME, None), (NAME, "bytes=100000-")]


def test_silence_counts_as_a_cut(server, folder, monkeypatch):
    monkeypatch.setattr(download, "_TIMEOUT", (10, 1))
    held = threading.Event()
    server.pages[NAME].hold, content = held, server.pages[NAME].content

    def serve_the_next_request(what, done, total):
        if done:
            server.pages[NAME] = Page(content)

    path = fetch(here(server), folder, serve_the_next_request)
    held.set()
    assert path.read_bytes() == CONTENT
    assert server.requests[0] == (NAME, None)
    assert re.fullmatch(r"bytes=\d+-", server.requests[-1][1])


def test_a_server_without_ranges_starts_again(server, folder):
    server.pages[NAME] = Page(CONTENT, cut_after=100_000, cuts=1, ranges=False)
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, None), (NAME, "bytes=100000-")]


def test_a_server_that_sends_another_range(server, folder):
    server.pages[NAME] = Page(CONTENT, cut_after=100_000, cuts=1, shift=7)
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, None), (NAME, "bytes=100000-"), (NAME, None)]


# What an earlier process left


@pytest.mark.parametrize(
    ("found", "requests"),
    [
        (CONTENT[:1234], ["bytes=1234-"]),
        (CONTENT, ["bytes=300000-"]),  # complete: the server has nothing more
        (CONTENT + b"more", ["bytes=300004-", None]),
        (b"garbage", ["bytes=7-", None]),
        (OTHER, ["bytes=300000-", None]),
        (b"", [None]),
    ],
)
def test_a_part_from_earlier(server, folder, found, requests):
    folder.mkdir()
    part(server, folder).write_bytes(found)
    assert_fetched(here(server), folder)
    assert [asked for _, asked in server.requests] == requests


# Mirrors


def test_another_mirror_starts_from_the_beginning_and_each_resumes_its_own_part(server, folder):
    server.pages[NAME] = Page(CONTENT, cut_after=100_000, cuts=-1, ranges=False)
    server.pages[f"b/{NAME}"] = Page(CONTENT, cut_after=200_000, cuts=-1, ranges=False)
    both = remote(f"{server.url}/{NAME}", f"{server.url}/b/{NAME}")
    assert "the 0.2 MB received are kept" in refusal(both, folder)
    assert server.requests[download._ATTEMPTS] == (f"b/{NAME}", None)
    server.requests.clear()
    server.pages[NAME], server.pages[f"b/{NAME}"] = Page(b"", status=404), Page(CONTENT)
    assert_fetched(both, folder)
    assert server.requests == [(NAME, "bytes=100000-"), (f"b/{NAME}", "bytes=200000-")]


def test_dead_mirrors_lead_to_the_next(server, folder):
    server.pages["forbidden"] = Page(b"", status=403)
    server.pages["broken"] = Page(b"", status=500)
    dead = (f"http://127.0.0.1:{closed_port()}/x", "http://nowhere.invalid/x", "ftp://127.0.0.1/x", "http://[/x")
    paths = ("missing", "forbidden", "broken", NAME)
    assert_fetched(remote(*dead, *(f"{server.url}/{path}" for path in paths)), folder)
    assert server.requests == [(path, None) for path in paths]


def test_a_mute_mirror_leads_to_the_next(server, folder, monkeypatch):
    monkeypatch.setattr(download, "_TIMEOUT", (10, 1))
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent_url = f"http://127.0.0.1:{mute.getsockname()[1]}/x"
        assert_fetched(remote(silent_url, f"{server.url}/{NAME}"), folder)
        assert f"{silent_url} (no answer in time)" in refusal(remote(silent_url), folder.with_name("again"))


def test_no_mirror_answers(server, folder):
    port = closed_port()
    urls = (f"http://127.0.0.1:{port}/x", "http://nowhere.invalid/y", f"{server.url}/z?key=secret", "file:///etc/hosts")
    text = refusal(remote(*urls), folder)
    assert text.startswith(
        f"cannot download {NAME}: http://127.0.0.1:{port}/x (Connection refused), http://nowhere.invalid/y ("
    )
    assert text.endswith(
        f"), {server.url}/z (HTTP 404), file:///etc/hosts (No connection adapters were found for 'file:///etc/hosts'); "
        f"check the network, or put the file yourself at {folder / NAME} ({CHECKSUM})"
    )
    assert left(folder) == []


def test_no_address(folder):
    assert refusal(remote(), folder).startswith(f"cannot download {NAME}: no address is known; check the network, or")


@pytest.mark.parametrize("slash", ["", "/"])
def test_your_own_mirror_comes_first(server, folder, monkeypatch, slash):
    monkeypatch.setenv("NARROWS_MIRROR", f"{server.url}/b{slash}")
    assert_fetched(here(server), folder)
    assert server.requests == [(f"b/{NAME}", None)]


def test_your_own_mirror_may_fail_and_its_password_is_not_shown(server, folder, monkeypatch):
    monkeypatch.setenv("NARROWS_MIRROR", f"http://me:secret@{server.url.removeprefix('http://')}/c")
    assert f"{server.url}/c/{NAME} (HTTP 404)" in refusal(remote(), folder)
    assert_fetched(here(server), folder)


# Wrong bytes


def test_wrong_bytes_leave_nothing(server, folder):
    server.pages[NAME].content = OTHER
    assert refusal(here(server), folder) == (
        f"cannot download {NAME}: {server.url}/{NAME} (checksum {sha256(OTHER)}, expected {CHECKSUM}); "
        f"check the network, or put the file yourself at {folder / NAME} ({CHECKSUM})"
    )
    assert left(folder) == []
    assert len(server.requests) == 1


def test_wrong_bytes_over_a_bad_line_are_tried_once_more(server, folder):
    server.pages[NAME] = Page(OTHER, cut_after=200_000, cuts=-1)
    assert f"(checksum {sha256(OTHER)}, expected" in refusal(here(server), folder)
    assert left(folder) == []
    assert [asked for _, asked in server.requests] == [None, "bytes=200000-"] * 2


def test_wrong_bytes_from_the_first_mirror(server, folder):
    server.pages[NAME].content = OTHER
    assert_fetched(remote(f"{server.url}/{NAME}", f"{server.url}/b/{NAME}"), folder)
    assert server.requests == [(NAME, None), (f"b/{NAME}", None)]


# Disks


@pytest.mark.parametrize("length", [True, False])
def test_a_full_disk(server, small_disk, length):
    disk = small_disk(160)
    server.pages[NAME].length = length  # stated: refused at once; not stated: found out on the way
    reason = r"it needs 0.3 MB, and 0\.[12] MB are free" if length else "No space left on device"
    text = refusal(here(server), disk)
    assert re.match(rf"cannot keep {NAME} in {disk} \({reason}\); make room there, or", text)
    assert left(disk) == []

    server.pages[NAME].content = CONTENT[:100_000]
    fetch(here(server, checksum=sha256(CONTENT[:100_000])), disk)
    assert left(disk) == [NAME]


def test_a_file_in_the_way(server, tmp_path):
    (tmp_path / "file").write_text("")
    text = refusal(here(server), tmp_path / "file" / "cache")
    assert text == (
        f"cannot keep {NAME} in {tmp_path / 'file' / 'cache'} (Not a directory); "
        "make room there, or set NARROWS_CACHE to another folder"
    )


@pytest.mark.skipif(os.name != "posix", reason="permissions work differently here")
def test_a_folder_that_cannot_be_written(server, tmp_path):
    fetch(here(server), tmp_path / "warm")  # whatever is imported late is, before privileges are dropped
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o555)
    with as_nobody(tmp_path):
        assert refusal(here(server), folder).startswith(f"cannot keep {NAME} in {folder} (Permission denied); ")
    folder.chmod(0o755)
    (folder / NAME).write_bytes(CONTENT)
    folder.chmod(0o555)
    with as_nobody(tmp_path):
        assert_fetched(here(server), folder)


@contextlib.contextmanager
def as_nobody(folder):
    """Root may write everywhere: be somebody else for a while, who can reach `folder`."""
    if os.geteuid():
        yield
        return
    closed = [parent for parent in (folder, *folder.parents) if not parent.stat().st_mode & 0o001]
    modes = [parent.stat().st_mode for parent in closed]
    for parent in closed:
        parent.chmod(parent.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in zip(closed, modes, strict=True):
            parent.chmod(mode)


# Processes and signals

CHILD = """
import sys
from pathlib import Path
from narrows.data.named import download
from narrows._util.errors import NarrowsError
download._PAUSE = 0.01
url, checksum, folder, limit = sys.argv[1:]
if int(limit):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
def show(what, done, total):
    print(what, done, total, flush=True)
print("ready", flush=True)
if not int(limit):
    sys.stdin.readline()
try:
    download.fetch(download.RemoteFile(url.rsplit("/", 1)[1], (url,), checksum), Path(folder), show)
except NarrowsError as error:
    print(error)
except KeyboardInterrupt:
    print("interrupted")
"""


class Child:
    """A process of its own that fetches the file on request."""

    def __init__(self, server, folder, limit=0):
        command = [sys.executable, "-W", "error", "-c", CHILD, f"{server.url}/{NAME}", CHECKSUM, str(folder)]
        self.process = subprocess.Popen(
            [*command, str(limit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def go(self):
        assert self.process.stdout.readline() == "ready\n"
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Wait for the end; return what was printed since."""
        printed, _ = self.process.communicate(timeout=300)
        return printed

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def test_two_processes_fetch_once(server, folder):
    server.pages[NAME].hold = threading.Event()
    waiting = f"waiting for another process to finish downloading {NAME} 0 0\n"
    with Child(server, folder) as one, Child(server, folder) as two:
        one.go()
        assert one.process.stdout.readline().startswith(f"downloading {NAME}")
        two.go()
        assert two.process.stdout.readline() == waiting
        server.pages[NAME].hold.set()
        one.end()
        assert two.end() == ""
        assert (one.process.returncode, two.process.returncode) == (0, 0)
    assert server.requests == [(NAME, None)]
    assert (folder / NAME).read_bytes() == CONTENT
    assert left(folder) == [NAME]


@pytest.mark.skipif(os.name != "posix", reason="signals work differently here")
@pytest.mark.parametrize("sent", ["SIGKILL", "SIGINT"])
def test_a_stopped_process_is_continued(server, folder, sent):
    server.pages[NAME].hold = threading.Event()
    with Child(server, folder) as child:
        child.go()
        assert child.process.stdout.readline() == f"downloading {NAME} 0 {len(CONTENT)}\n"
        assert child.process.stdout.readline().startswith(f"downloading {NAME} ")  # the first piece is written
        child.process.send_signal(getattr(signal, sent))
        printed = child.end()
    assert printed.endswith("interrupted\n") == (sent == "SIGINT")
    assert not (folder / NAME).exists()
    received = part(server, folder).read_bytes()
    assert 0 < len(received) < len(CONTENT)
    assert CONTENT.startswith(received)

    server.pages[NAME].hold.set()
    assert_fetched(here(server), folder)
    assert server.requests == [(NAME, None), (NAME, f"bytes={len(received)}-")]


@pytest.mark.skipif(os.name != "posix", reason="there are no limits of this kind here")
def test_a_limit_on_the_size_of_files(server, folder):
    with Child(server, folder, limit=100_000) as child:
        printed = child.end()
    assert printed.splitlines()[-1] == (
        f"cannot keep {NAME} in {folder} (File too large); make room there, or set NARROWS_CACHE to another folder"
    )
    assert left(folder) == []


def test_many_threads_fetch_once(server, folder):
    paths, threads = [], []
    for _ in range(12):
        threads.append(threading.Thread(target=lambda: paths.append(fetch(here(server), folder))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert paths == [Path(folder / NAME)] * 12
    assert server.requests == [(NAME, None)]
    assert left(folder) == [NAME]
