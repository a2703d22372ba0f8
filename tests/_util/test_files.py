"""A file is the old one or the new one, never a part, and a failure leaves nothing behind."""

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys

import pytest

from narrows._util.errors import NarrowsError
from narrows._util.files import (
    append_line,
    atomic_file,
    check_regular,
    is_leftover,
    read_json,
    remove_leftovers,
    write_atomic,
)
from refusals import refused


def test_the_new_content_replaces_the_old_whole(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, "old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a"
    write_atomic(path, "old")

    def fail() -> None:
        with atomic_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_in_its_place_is_named_and_stays(tmp_path):
    (tmp_path / "f").mkdir()
    with pytest.raises(IsADirectoryError) as told:
        write_atomic(tmp_path / "f", "new")
    assert told.value.filename == str(tmp_path / "f")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_files_are_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").touch()
    write_atomic(tmp_path / "ours", "x")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    """A real process, killed in the middle of a write; a file that is being written stays."""
    code = (
        "import os, signal, sys; from pathlib import Path; from narrows._util.files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    for name in ("a", "b"):
        killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / name)])
        assert killed.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    write_atomic(tmp_path / "a", "new")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert [left[0][:3], left[1:]] == [".b.", ["a"]]
    with atomic_file(tmp_path / "a") as file:
        remove_leftovers(tmp_path)
        assert [path.name[:3] for path in tmp_path.iterdir() if is_leftover(path)] == [".a."]
        file.write(b"newer")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "newer")]


def test_names_with_wildcards_are_only_themselves(tmp_path):
    (tmp_path / ".ab.x.part").touch()
    write_atomic(tmp_path / "[a]*", "x")
    assert (tmp_path / ".ab.x.part").exists()


def test_a_new_file_replaces_none(tmp_path):
    write_atomic(tmp_path / "a", "mine", new=True)
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "a", "yours", new=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "mine")]


@contextlib.contextmanager
def room_for(size: int):
    """Let no file grow beyond this size, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_does_not_fit_at_any_byte_leaves_the_file_as_it_was(tmp_path):
    path, header = tmp_path / "rows.csv", ["step", "error"]
    first, second = "step,error\n50,0.5\n", "step,error\n50,0.5\n100,0.25\n"
    for size in range(len(first)):
        with room_for(size), pytest.raises(OSError, match=r"File too large|No space left"):
            append_line(path, header, ["50", "0.5"])
        assert path.read_text() == ""
    append_line(path, header, ["50", "0.5"])
    assert path.read_text() == first
    for size in range(len(first), len(second)):
        with room_for(size), pytest.raises(OSError, match=r"File too large|No space left"):
            append_line(path, header, ["100", "0.25"])
        assert path.read_text() == first
    append_line(path, header, ["100", "0.25"])
    assert path.read_text() == second


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a": NaN}', "9" * 5000, "\ud800".encode("utf-8", "surrogatepass")]
)
def test_what_is_not_json_is_said_in_one_line(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refused(read_json, path, "the file").startswith(f"the file {path} is damaged: it is not valid JSON (")


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path):
    assert refused(read_json, tmp_path).startswith(f"cannot read {tmp_path}: Is a directory; check its permissions")


def test_json_from_an_editor_that_marks_its_encoding_is_read(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}


def test_pipes_devices_and_sockets_are_no_files(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for path, kind in (
        ("pipe", "a named pipe"),
        ("link", "a named pipe"),
        ("socket", "a socket"),
        (os.devnull, "a device"),
    ):
        with pytest.raises(NarrowsError, match=f"^{path} is {kind}, not a file; write its content to a file and give"):
            check_regular(path)
    for path in (tmp_path, tmp_path / "gone", "a\0b", __file__):
        check_regular(path)
