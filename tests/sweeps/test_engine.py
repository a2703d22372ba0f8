"""Calls in processes of their own, on this machine: each way in which one can end, and how all are stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import psutil
import pytest

from commands import HANGS
from narrows._util.errors import NarrowsError
from narrows.sweeps.engine import Engine, Resources, Task, run_tasks
from narrows.sweeps.process import call_alone
from narrows.training.signals import Interrupted


def alone(call, folder, asked=lambda: 0):
    return call_alone(call, folder / "logs" / "one.txt", 3, asked)


def logged(folder):
    log = folder / "logs" / "one.txt"
    return log.read_text() if log.exists() else None


def test_a_call_returns_its_value_from_another_process(tmp_path):
    assert alone(os.getpid, tmp_path).value != os.getpid()
    assert logged(tmp_path) is None, "nothing was printed"
    assert alone(partial(os.getenv, "OMP_NUM_THREADS"), tmp_path).value == "3"


def test_each_way_to_fail_is_a_reason(tmp_path):
    reason = alone(partial(os.listdir, "/no such folder"), tmp_path).reason
    assert reason == "[Errno 2] No such file or directory: '/no such folder'"
    assert alone(partial(int, "x"), tmp_path).reason.startswith("ValueError: invalid literal")
    assert "Traceback" in logged(tmp_path)
    assert alone(partial(os._exit, 7), tmp_path).reason == "its process ended with exit code 7"
    assert "killed by SIGKILL" in alone(partial(signal.raise_signal, signal.SIGKILL), tmp_path).reason
    assert alone(partial(signal.raise_signal, signal.SIGSEGV), tmp_path).reason == "its process was ended by SIGSEGV"


def test_what_a_call_prints_is_kept_and_is_not_its_answer(tmp_path):
    assert alone(partial(print, "a line"), tmp_path).reason == ""
    assert logged(tmp_path) == "a line\n"


def test_a_call_that_is_asked_to_stop_says_so(tmp_path):
    started = time.monotonic()
    ended = alone(partial(time.sleep, HANGS), tmp_path, lambda: signal.SIGTERM if time.monotonic() > started + 1 else 0)
    assert ended.stopped


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    script = (
        "import time; from functools import partial; from pathlib import Path\n"
        "from narrows.sweeps.process import call_alone\n"
        f"call_alone(partial(time.sleep, {HANGS}), Path('log.txt'), 1, lambda: 0)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    process = psutil.Process(parent.pid)
    while not (children := process.children()):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=HANGS)
    assert not alive


def test_tasks_end_in_any_way_and_none_stops_the_others(tmp_path):
    calls = {"a": partial(abs, -3), "b": partial(os._exit, 1), "c": partial(int, "x"), "d": partial(abs, -4)}
    seen = {}
    run_tasks(
        [Task(name, call) for name, call in calls.items()],
        Engine(jobs=2),
        tmp_path,
        lambda task, ended: seen.update({task.name: ended.value or ended.reason}),
    )
    assert seen["a"] == 3
    assert seen["b"] == "its process ended with exit code 1"
    assert seen["c"].startswith("ValueError")
    assert seen["d"] == 4
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["c.txt"]


def children():
    """Return the processes below this one; helpers of earlier tests' libraries may be among them."""
    return set(psutil.Process().children())


def test_an_error_of_the_caller_ends_everything(tmp_path):
    before = children()

    def full_disk(task, ended):
        raise OSError("No space left on device")

    tasks = [Task("short", partial(abs, 1)), Task("long", partial(time.sleep, HANGS)), Task("never", partial(abs, 2))]
    with pytest.raises(OSError, match="No space left"):
        run_tasks(tasks, Engine(jobs=2), tmp_path, full_disk)
    assert not children() - before


def test_a_signal_stops_what_runs_and_starts_nothing_else(tmp_path):
    before = children()
    flag = tmp_path / "started"
    wait = partial(subprocess.run, ["sh", "-c", f"touch {flag}; exec sleep {HANGS}"])
    tasks = [Task("first", wait), Task("second", partial(abs, 1))]
    seen = []

    def stop_soon():
        while not flag.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_soon, daemon=True).start()
    with pytest.raises(Interrupted) as stopped:
        run_tasks(tasks, Engine(jobs=1), tmp_path, lambda task, ended: seen.append(task.name))
    assert (stopped.value.number, stopped.value.folder, seen) == (signal.SIGTERM, tmp_path, [])
    assert not children() - before


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (Engine("slurm"), "engine must be"),
        (Engine(jobs=0), "jobs must be a whole number from 1 on"),
        (Engine(address="10.0.0.1:6379"), "address is for engine='ray'"),
        (Engine(task=Resources(gpus=1)), "gpus is for engine='ray', which gives each run its own"),
    ],
)
def test_engines_that_cannot_be_used(engine, expected):
    with pytest.raises(NarrowsError, match=expected):
        engine.checked()
