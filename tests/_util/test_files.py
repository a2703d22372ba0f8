"""A file is the old one or the new one, never a part, and a failure leaves nothing behind."""

import os
import stat

import pytest

from narrows._util.files import atomic_file, write_atomic


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
