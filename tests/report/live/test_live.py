"""Runs that are watched while they train: in their own terminal, from another one, in a pipe, and after a kill."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import command, run, small
from narrows.cli import main
from narrows.runs.folder import RunFolder
from narrows.runs.records import MetricRow

FAST = small(recipe="fast", n=6, log_every=5)
PATIENCE = 240.0
"""Seconds until a test gives up waiting; nothing is measured by it."""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: object, columns: int = 100, lines: int = 30, encoding: str = "utf-8") -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment = {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": encoding}
        self.process = subprocess.Popen(command(*arguments), stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.seen = b""

    def read_until(self, wanted: Callable[[str], bool]) -> str:
        """Read what the terminal gets until it is as wanted, or nothing more comes."""
        end = time.monotonic() + PATIENCE
        while not wanted(self.text()):
            assert time.monotonic() < end, self.text()
            if not select.select([self.ours], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.ours, 65536)
            except OSError:
                break
            if not piece:
                break
            self.seen += piece
        return self.text()

    def text(self) -> str:
        """What it got, without colours; a form feed is where the screen was drawn anew."""
        drawn = re.sub(r"\r\x1b\[2K(\x1b\[1A\x1b\[2K)*", "\f", self.seen.decode(errors="replace"))
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).replace("\r", "")

    def rest(self) -> str:
        return self.read_until(lambda _: False)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)


@contextlib.contextmanager
def terminal(*arguments: object, **look: object) -> Iterator[Terminal]:
    made = Terminal(*arguments, **look)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def training(images: Path, out: Path, *more: object) -> Iterator[subprocess.Popen]:
    """A run that would not end by itself; it has begun when the block starts, and is gone when it ends."""
    arguments = command("train", images, "--tau", 1, "--steps", 1_000_000, "--out", out, *more, *FAST)
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: RunFolder(out).config.exists() and len(RunFolder(out).read_rows()) > 2)
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def ended(images, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("live") / "ended"
    assert main(["train", str(images), "--tau", "60", "--steps", "100", "--out", str(out), *FAST]) == 0
    return out


def test_train_live_shows_the_curves_and_leaves_the_report(images, tmp_path):
    out = tmp_path / "r"
    with terminal("train", images, "--live", "--tau", 60, "--steps", 150, "--out", out, *FAST) as live:
        text = live.read_until(lambda text: "Tolerance hits" in text)
        assert f"live page: {out / 'report.html'}" in text
        text = live.rest()
        assert live.process.wait() == 0
    for fact in ("of 150", "held-out error", "τ = 60", "Open gates", "began the last phase", "ended training"):
        assert fact in text
    assert any(0x2800 < ord(character) <= 0x28FF for character in text)
    assert "dimensions are enough" in text or "dimensions is enough" in text or "not certain" in text
    page = (out / "report.html").read_text()
    assert "data-refresh" not in page
    assert "Costs of removal are measured when the run ends" not in page


def test_curves_that_cannot_be_drawn_are_one_warning(tmp_path, capsys):
    from narrows.report.live.listeners import terminal_listener
    from narrows.training.config import TrainConfig, to_dict
    from narrows.training.listeners import RunStart

    folder = RunFolder(tmp_path / "r")
    folder.checkpoints.mkdir(parents=True)
    folder.write_config(to_dict(TrainConfig(tau=1.0, n=4)))
    folder.metrics.write_text("step\nthis is no row\n")
    listener = terminal_listener(live=True)
    listener.begin(RunStart(TrainConfig(tau=1.0, n=4), folder, [], 0))
    listener.row(MetricRow(10, 2.5, 4.0, 4, 1.5, 0.25, 4.0, 6.5, 1.0, 2.25))
    listener.end()
    assert capsys.readouterr().err.count("narrows: warning: training goes on without the curves (") == 1


def test_live_changes_nothing_about_the_model(images, ended, tmp_path):
    words = ["--live", "--tau", "60", "--steps", "100", "--out", str(tmp_path / "r"), *FAST]
    assert main(["train", str(images), *words]) == 0
    assert (tmp_path / "r" / "model.safetensors").read_bytes() == (ended / "model.safetensors").read_bytes()


def test_a_stopped_run_has_a_page_that_does_not_reload_itself(images, tmp_path):
    out = tmp_path / "r"
    page = RunFolder(out).report
    with training(images, out, "--live") as process:
        assert 'data-refresh="' in page.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        text = page.read_text()
    assert "data-refresh" not in text
    assert "This run has not ended" in text


def test_watch_says_that_a_killed_run_has_no_news(images, tmp_path):
    out = tmp_path / "r"
    with training(images, out) as process, terminal("watch", out, "--every", 0.1, "--silence", 1.5) as watching:
        watching.read_until(lambda text: "Tolerance hits" in text and "batches/s" in text)
        last = RunFolder(out).read_rows()[-1].step
        watching.read_until(lambda text: max(map(as_number, re.findall(r"batch ([\d,]+) of", text))) > last)
        process.kill()
        process.wait()
        told = re.compile(
            rf"no news for \d+ s; if it was stopped, continue it with `narrows resume {re.escape(str(out))}`"
        )
        watching.read_until(lambda text: told.search(" ".join(text.split())) is not None)
        assert watching.process.poll() is None
        os.kill(watching.process.pid, signal.SIGINT)
        watching.rest()
        assert watching.process.wait() == 130
        assert b"Traceback" not in watching.seen
        assert watching.seen.rindex(b"\x1b[?25l") < watching.seen.rindex(b"\x1b[?25h")  # the cursor is back


def as_number(text: str) -> int:
    return int(text.replace(",", ""))


def test_watch_gives_the_cursor_back_when_it_is_terminated(ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "unfinished")
    RunFolder(folder).result.unlink()
    with terminal("watch", folder) as shown:
        shown.read_until(lambda text: "Tolerance hits" in text)
        shown.process.terminate()
        shown.rest()
        assert shown.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert shown.seen.rindex(b"\x1b[?25h") > shown.seen.rindex(b"\x1b[?25l")


def test_watch_in_a_pipe_prints_lines_and_ends_with_the_run(images, tmp_path):
    out = tmp_path / "r"
    arguments = command("train", images, "--tau", 60, "--steps", 400, "--out", out, *FAST)
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        wait_for(RunFolder(out).config.exists)
        done = run("watch", out, "--every", 0.1)
        assert process.wait() == 0
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, *_ = lines = done.stdout.splitlines()
    assert re.fullmatch(
        r"batch [\d,]+ of 400: held-out error \S+ \(tau 60\), \d of 6 open, lambda \S+, hits \d+%.*", first
    )
    assert any(line.startswith("batch 400 of 400: ") for line in lines)
    shown = run("show", out).stdout
    assert done.stdout.endswith(f"\n\n{shown}")


@pytest.mark.parametrize(("columns", "encoding"), [(60, "utf-8"), (60, "ascii"), (40, "ascii"), (140, "utf-8")])
def test_narrow_terminals_and_those_without_unicode(ended, columns, encoding):
    with terminal("watch", ended, columns=columns, lines=24, encoding=encoding) as watching:
        text = watching.rest()
        assert watching.process.wait() == 0
    curves, _, answer = text.rpartition("\f")[2].partition("\n\n")
    assert max(map(len, curves.splitlines())) <= columns
    assert "Tolerance hits" in curves
    assert answer.strip() == run("show", ended).stdout.strip()
    assert curves.isascii() == (encoding == "ascii")


def test_watch_a_front_to_its_end(images, tmp_path):
    out = tmp_path / "f"
    words = ["--taus", "60,80", "--steps", "60", "--out", str(out), "--live", *FAST]
    assert main(["front", str(images), *words]) == 0
    assert "data-refresh" not in (out / "report.html").read_text()
    done = run("watch", out)
    assert done.returncode == 0
    assert done.stdout.startswith("tau 80, 2 of 2\nbatch 60 of 60: ")
    assert done.stdout.endswith(run("show", out).stdout)


def test_a_folder_without_a_run_gets_one_line(tmp_path, ended):
    for words, expected in (
        (["watch", tmp_path / "missing"], "missing is not a run folder: it does not exist; check the path"),
        (["watch", tmp_path], "is not a run folder"),
        (["watch", ended, "--every", 0], "--every must be a number of seconds from 0.01 to 1,000,000; it is 0"),
        (["watch", ended, "--silence", "nan"], "--silence must be a number of seconds"),
        (["watch"], "run"),
    ):
        done = run(*words)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("narrows: error: ")
        assert done.stderr.count("\n") == 1
        assert expected.lower() in done.stderr.lower()


def test_watching_does_not_load_torch(ended):
    code = (
        f"import sys; from narrows.cli import main; main(['watch', {str(ended)!r}]); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([command()[0], "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
