"""What a soak does again and again: train, report and encode in one process, ask an explorer, kill and resume runs."""

import contextlib
import http.client
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

SETTINGS = {
    "tau": 4.0, "n": 4, "width": 2, "steps": 120, "batch": 16, "threads": 1, "device": "cpu", "log_every": 10,
    "eval_every": 40, "checkpoint_every": 20,
}  # fmt: skip
RECIPES = ("fast", "paper")
UNLIKE = ("seconds",)
"""Entries of result.json that differ from run to run."""


class Wrong(Exception):
    """Something that must not happen in a soak."""


def make_data(path: Path) -> None:
    """Write 400 images of 16 x 16 with a bright square."""
    rng = np.random.default_rng(0)
    x = np.zeros((400, 16, 16), np.uint8)
    for image, (row, column, size) in zip(x, rng.integers((1, 1, 2), (8, 8, 8), (400, 3)), strict=True):
        image[row : row + size, column : column + size] = 255
    np.save(path, x)


def options(recipe: str, seed: int) -> list[str]:
    """Return the settings of a run as options of `narrows train`."""
    named = {**SETTINGS, "recipe": recipe, "seed": seed}
    return [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]


def work_in_one_process(folder: Path, seed: int, seconds: float) -> None:
    """Train both recipes and the estimator, report, encode, decode and sample, in turn; print the count of each.

    Everything happens in this process, as in a notebook that stays open for a day.
    """
    import torch

    import narrows
    from narrows.cli import main
    from narrows.report.figures.figure_files import draw_curves

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # such short runs certify nothing
    data, rng = folder / "data.npy", random.Random(seed)
    rows = np.load(data).reshape(400, -1)[:, ::8] / 255
    done: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def command(*arguments: object) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            if main([str(argument) for argument in arguments]) != 0:
                raise Wrong(f"narrows {arguments[0]} failed")
        done[str(arguments[0])] += 1

    for number in range(10**9):
        if time.monotonic() > end:
            return
        run = folder / "library" / f"run-{number % 2}"
        shutil.rmtree(run, ignore_errors=True)
        settings = {**SETTINGS, "recipe": RECIPES[number % 2], "seed": rng.randrange(1000)}
        outcome = narrows.train(narrows.TrainConfig(data=str(data), **settings), run)
        narrows.write_report(outcome.folder, outcome.data)
        draw_curves(outcome.folder)
        done.update(("train", "report"))
        command("show", run)
        command("report", run)
        codes, decoded = run / "codes.npy", run / "decoded.npy"
        command("encode", run, "-o", codes)
        command("decode", run, codes, "-o", decoded)
        command("reconstruct", run, data, "-o", decoded)
        command("sample", run, "--sampler", rng.choice(("prior", "gaussian", "mixture")), "-o", decoded)
        with contextlib.suppress(narrows.NarrowsError):
            narrows.resume(run, steps=140)  # a fast run that has ended refuses
        estimator = narrows.NarrowVAE(4, max_steps=60, width=2, random_state=number)
        estimator.inverse_transform(estimator.fit(rows).transform(rows))
        done["estimator"] += 1
        halves = [str(path) for path in run.rglob("*.part")]
        if halves:
            raise Wrong(f"half-written files are left: {halves}")
        print(json.dumps(done), flush=True)


class Activity(threading.Thread):
    """A loop in a thread of the soak, until it is asked to stop; an exception in it ends the soak.

    Arguments:
        name: What it does.
        once: Does it once, and returns how often that counts.
    """

    def __init__(self, name: str, once: Callable[[], Counter[str]]) -> None:
        super().__init__(name=name, daemon=True)
        self.once, self.asked = once, threading.Event()
        self.done: Counter[str] = Counter()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.asked.is_set():
                self.done.update(self.once())
        except Exception as error:
            self.error = error


class Explorer:
    """`narrows explore` in its own process, and requests to it."""

    def __init__(self, run: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        command = [sys.executable, "-m", "narrows", "explore", str(run)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        address = self.process.stdout.readline().rpartition("http://127.0.0.1:")[2].strip()
        port, _, self.path = address.partition("/")
        if not port:
            raise Wrong("narrows explore did not start")
        self.port = int(port)
        self.n = len(self.ask(self.connect(), "model", {"model": 0})["sliders"])

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection: http.client.HTTPConnection, name: str, request: dict | bytes) -> dict:
        """Send one request and return its answer."""
        kind, body = "application/octet-stream", request
        if not isinstance(request, bytes):
            kind, body = "application/json", json.dumps(request)
        connection.request("POST", f"/{self.path}{name}", body, {"Content-Type": kind})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status not in (200, 422):
            raise Wrong(f"the explorer answers {name} with {response.status}: {answer}")
        return answer

    def visit(self) -> Counter[str]:
        """Open the page, move sliders, upload an image, ask something that is refused, and leave."""
        from PIL import Image

        connection, rng = self.connect(), self.rng
        connection.request("GET", f"/{self.path}")
        connection.getresponse().read()
        picture = io.BytesIO()
        Image.fromarray(np.full((rng.randint(4, 40), rng.randint(4, 40)), rng.randrange(256), np.uint8)).save(
            picture, "PNG"
        )
        uploaded = self.ask(connection, "upload", picture.getvalue())["input"]
        requests: list[tuple[str, dict | bytes]] = [
            ("model", {"model": 0}),
            ("input", {"model": 0, "input": uploaded}),
            ("between", {"model": 0, "inputs": ["test-0", uploaded]}),
            ("check", {"model": 0, "off": [j for j in range(self.n) if rng.random() < 0.5]}),
            ("decode", {"model": 7, "code": "x" * rng.randrange(5_000)}),
            ("upload", rng.randbytes(rng.randrange(1, 5_000))),
        ]
        for _ in range(20):
            code = [rng.gauss(0, 1) for _ in range(self.n)]
            requests.append(("decode", {"model": 0, "code": code, "input": "test-1"}))
        for name, request in requests:
            self.ask(connection, name, request)
        connection.close()
        time.sleep(1)
        return Counter({"visits": 1, "requests": len(requests) + 2})

    def end(self) -> None:
        """End the server."""
        self.process.send_signal(signal.SIGTERM)  # not SIGINT, which a soak in the background ignores
        out, _ = self.process.communicate(timeout=60)
        if self.process.returncode != 0 or "ended" not in out:
            raise Wrong(f"narrows explore ended with code {self.process.returncode}")


class Kills:
    """Runs in processes of their own that are killed at a random time and resumed, and end as if they had not been."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.number = 0
        self.expected = {recipe: self._end(recipe, folder / f"undisturbed-{recipe}") for recipe in RECIPES}

    def once(self) -> Counter[str]:
        """Kill one run several times, until it ends, and compare it with the undisturbed one."""
        self.number += 1
        recipe, run = RECIPES[self.number % 2], self.folder / f"killed-{self.number % 2}"
        shutil.rmtree(run, ignore_errors=True)
        counts = Counter({"resumed runs": 1})
        for _ in range(self.rng.randint(1, 3)):
            process = subprocess.Popen(self._command(recipe, run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.rng.uniform(0.0, 8.0))
            process.kill()
            counts["kills"] += process.wait() == -signal.SIGKILL
        if self._end(recipe, run) != self.expected[recipe]:
            raise Wrong(f"{run} was killed and resumed, and its answer or model differs from an undisturbed run")
        halves = [str(path) for path in run.rglob("*.part")]
        if halves:
            raise Wrong(f"half-written files are left: {halves}")
        return counts

    def _command(self, recipe: str, run: Path) -> list[str]:
        """Return the command that goes on: resume where there is a checkpoint, or else train from the start."""
        narrows = [sys.executable, "-m", "narrows"]
        if any((run / "checkpoints").glob("batch-*.ckpt")):
            return [*narrows, "resume", str(run)]
        shutil.rmtree(run, ignore_errors=True)
        return [*narrows, "train", str(self.folder / "data.npy"), "--out", str(run), *options(recipe, 0)]

    def _end(self, recipe: str, run: Path) -> tuple[dict, bytes]:
        done = subprocess.run(self._command(recipe, run), capture_output=True, text=True)
        if done.returncode != 0:
            raise Wrong(f"{' '.join(done.args[2:5])} ended with code {done.returncode}: {done.stderr[-500:]}")
        answer = json.loads((run / "result.json").read_text())
        return {k: v for k, v in answer.items() if k not in UNLIKE}, (run / "model.safetensors").read_bytes()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of all processes: one thread, and temporary files and caches that can be counted."""
    home = str(folder / "home")
    return {
        **os.environ, "NARROWS_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "temporary"), "MPLCONFIGDIR": home,
        "HF_HOME": home, "TORCHINDUCTOR_CACHE_DIR": home, "OMP_NUM_THREADS": "1",
    }  # fmt: skip
