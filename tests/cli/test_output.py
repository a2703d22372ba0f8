"""Standard output and standard error as a shell may leave them: closed, full, without Unicode, one column wide."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from commands import HANGS, SMALL, command, in_a_terminal
from disks import full_disk, unreadable
from narrows.cli import main
from narrows.runs.folder import RunFolder

COMMANDS = (
    "train", "front", "resume", "show", "watch", "report", "encode", "decode", "reconstruct", "sample", "evaluate",
    "export", "explore", "data", "reproduce",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("output") / "run"
    assert main(["train", str(images), "--tau", "30", "--steps", "40", "--out", str(folder), *SMALL]) == 0
    return folder


def shell(line: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `"$@"` is the command."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, "bash", *command(*arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **environment},
        timeout=HANGS,
    )


def test_without_arguments_the_help_is_shown(capsys):
    assert main([]) == 0
    assert "How many latent dimensions does my data need?" in capsys.readouterr().out


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_a_command_as_it_ends_others(trained, unbuffered):
    for arguments in (["--help"], ["train", "--help"], ["--version"], ["data", "list"], ["show", trained]):
        done = shell('"$@" | true', *arguments, PYTHONUNBUFFERED=unbuffered)
        assert (done.returncode, done.stderr) == (128 + 13, ""), arguments


def test_the_first_line_can_be_taken(trained):
    done = shell('"$@" | head -1', "show", trained)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("where", "reason"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")]
)
def test_output_that_cannot_be_written_is_one_line(trained, where, reason):
    for arguments in (["--help"], ["data", "list"], ["show", trained]):
        done = shell(f'"$@" {where}', *arguments)
        assert done.returncode == 1
        assert done.stderr == f"narrows: error: cannot write to standard output: {reason}\n"


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full", "<&- >&- 2>&-"])
def test_an_error_that_cannot_be_written_leaves_its_exit_code(where, tmp_path):
    assert shell(f'"$@" {where}', "show", tmp_path / "none").returncode == 2


@pytest.mark.parametrize("where", [">&-", "> /dev/full", "| true", ">&- 2>&- <&-"])
def test_training_goes_on_and_everything_is_written(images, tmp_path, where):
    out = tmp_path / "r"
    done = shell(f'"$@" {where}', "train", images, "--tau", 30, "--steps", 20, "--out", out, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert ("the results are safe" in done.stderr) == (where in (">&-", "> /dev/full"))
    assert RunFolder(out).read_result() is not None
    assert {"report.html", "curves.png"} <= {path.name for path in out.iterdir()}


def test_a_full_disk_under_a_report_is_named(trained, capsys):
    with full_disk():
        assert main(["report", str(trained)]) == 2
    error = capsys.readouterr().err
    assert f"cannot write the report {trained / 'report.html'}: File too large" in error
    assert "None" not in error


@pytest.fixture
def public(trained):
    """A copy of the run that others may read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield shutil.copytree(trained, Path(folder) / "run")


@pytest.mark.parametrize(
    ("name", "command_name", "line"),
    [
        ("model.safetensors", "sample", "cannot read the model {path}: Permission denied; check the path"),
        ("result.json", "show", "cannot read {path}: Permission denied; check its"),
        ("metrics.csv", "show", "cannot read {path}: Permission denied; check its"),
        (
            "config.json",
            "show",
            "cannot read the config file {path}: Permission denied; check its",
        ),
    ],
)
def test_a_file_that_may_not_be_read_is_neither_missing_nor_damaged(public, capsys, name, command_name, line):
    output = ["-o", str(public.parent / "x.npy")] if command_name == "sample" else []
    words = [command_name, str(public), *output]
    assert main(words) == 0  # everything is imported
    capsys.readouterr()
    with unreadable(public / name):
        assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"narrows: error: {line.format(path=public / name)}")


def test_a_folder_that_may_not_be_read_is_named(public, capsys):
    with unreadable(public):
        assert main(["show", str(public)]) == 2
    assert "Permission denied; check the path and its permissions" in capsys.readouterr().err


def test_a_terminal_without_unicode_gets_escapes(trained, tmp_path):
    for arguments in (["show", trained], ["evaluate", trained, "--samples", 50], ["report", trained], ["data", "list"]):
        done = shell('"$@"', *arguments, PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr) == (0, ""), arguments
    for name in COMMANDS:
        done = shell('"$@"', name, "--help", PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr) == (0, ""), name
    done = shell('"$@"', "show", tmp_path / "τ⠿", PYTHONIOENCODING="ascii")
    assert done.stderr.startswith("narrows: error: ")
    assert "\\u03c4\\u283f is not a run folder" in done.stderr


def test_training_in_a_terminal_without_unicode(images, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    out = tmp_path / "é"
    code, text = in_a_terminal("train", images, "--tau", 30, "--steps", 30, "--live", "--out", out, *SMALL)
    assert code == 0, text
    assert "Traceback" not in text
    assert "warning" not in text


@pytest.mark.parametrize("size", [(0, 0), (2, 3)])
def test_a_tiny_terminal_is_served(images, tmp_path, size):
    """Help in one column took forever and all memory."""
    for name in ("train", "reproduce", "data"):
        code, text = in_a_terminal(name, "--help", size=size)
        assert code == 0
        assert "Usage: " in text
    for way in ([], ["--live"]):
        out = tmp_path / f"r{len(way)}"
        code, text = in_a_terminal("train", images, "--tau", 30, "--steps", 30, "--out", out, *way, *SMALL, size=size)
        assert code == 0, text
        assert "warning" not in text
    code, text = in_a_terminal("watch", out, size=size)
    assert code == 0, text


@pytest.mark.parametrize("columns", ["0", "2", "99999999"])
def test_every_help_has_a_sensible_width_whatever_columns_says(columns):
    for name in COMMANDS:
        done = shell('"$@"', name, "--help", COLUMNS=columns)
        assert done.returncode == 0
        assert 20 <= max(map(len, done.stdout.splitlines())) <= 500


def test_escape_sequences_in_names_are_shown_and_not_obeyed(trained, tmp_path, capsys):
    hostile = tmp_path / "a\x1b[31mb\x07\u202ec"
    assert main(["show", str(hostile)]) == 2
    assert main(["train", "--config", str(hostile)]) == 2
    assert main(["report", str(trained), "-o", str(hostile.with_suffix(".html"))]) == 0
    assert main(["sample", str(trained), "-o", str(hostile.with_suffix(".npy"))]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\\x1b[31mb\\x07\\u202ec") == 2
    assert captured.out.count("\\x1b[31mb\\x07\\u202ec") == 2
    assert not set("\x1b\x07\u202e") & set(captured.out + captured.err)


def test_paths_that_are_not_utf_8_train_and_have_reports(images, tmp_path, capsys):
    data, out = (Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/\xff\xfe.npy", b"/r\xff"))
    shutil.copy(images, data)
    arguments = [str(data), "--tau", "30", "--steps", "20", "--live", "--out", str(out), *SMALL]
    assert main(["train", *arguments]) == 0
    assert main(["report", str(out)]) == 0
    assert main(["encode", str(out), "-o", f"{out}.npy"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "r\\udcff.npy" in captured.out
    assert "\\udcff\\udcfe" in (out / "report.html").read_text()


def test_what_files_hold_is_shown_and_not_obeyed(images, tmp_path, capsys):
    """Names of data, of columns and of the arrays in an archive may be anybody's."""
    data = tmp_path / "a\x1b]0;title\x07b.npy"
    shutil.copy(images, data)
    out = tmp_path / "r"
    assert main(["train", str(data), "--tau", "30", "--steps", "20", "--out", str(out), *SMALL]) == 0
    for name in ("show", "report", "watch"):
        assert main([name, str(out)]) == 0
    assert main(["evaluate", str(out), "--samples", "50"]) == 0
    (tmp_path / "t.csv").write_text("\x1b[31mred,b\n" + "x,y\n" * 200)
    assert main(["train", str(tmp_path / "t.csv"), "--tau", "1"]) == 2
    np.savez(tmp_path / "t.npz", **{"\x1b[31mred": np.zeros((9, 9)), "b": np.zeros((9, 9))})
    assert main(["train", str(tmp_path / "t.npz"), "--tau", "1"]) == 2
    decisions = RunFolder(out).decisions
    decisions.write_text("step,action,open,error,gates\n7,\x1b[31mred,4,1.0,\n")
    main(["show", str(out)])
    captured = capsys.readouterr()
    assert "\\x1b]0;title\\x07" in captured.out
    assert captured.err.count("\\x1b[31mred") == 4
    assert not set("\x1b\x07") & set(captured.out + captured.err)
