"""What would break libraries in the middle of their imports is answered by one line, before anything is written."""

import os
import subprocess

import numpy as np
import pytest

import narrows
from commands import command
from narrows._util.surroundings import check_surroundings
from refusals import refused


@pytest.mark.parametrize("text", ["abc", "", "1.5", "9" * 20, "9" * 5_000])
def test_a_date_that_is_none(text, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    said = refused(narrows.train, narrows.TrainConfig(explained=0.9), tmp_path / "run", np.zeros((60, 3), np.float32))
    assert "SOURCE_DATE_EPOCH must be a whole number of seconds; it is " in said
    assert len(said) < 300
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    check_surroundings()


def test_the_program_in_a_folder_that_is_gone(tmp_path):
    """From a shell in that folder, as it happens to users: torch alone would end the process."""
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    words = ["sh", "-c", script, tmp_path / "gone", *command("data", "list")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "narrows: error: the working directory cannot be used (No such file or directory); if it was deleted, change "
        "to another folder\n"
    )
