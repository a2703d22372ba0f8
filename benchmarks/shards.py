"""Shards that are larger than the disk: speed, memory and disk, and what cut connections and SIGKILL do.

    python benchmarks/shards.py [FOLDER] [--small]

A shard of drawn Shapes3D (40,600 images, 499 MB) is linked 80 times in FOLDER: a set of 40 GB that takes half a
gigabyte. A web server on loopback serves it, in a process of its own, and cuts one answer in fifty at a random place.
The cache may take 2 GB.

1. Speed: batches of 64 through a training step (width 32), in alternating rounds from an array in memory and from the
   stream, in one process, so that a busy machine disturbs both alike.
2. Memory: `narrows train` over the border of two windows, with its peak of resident memory and of the cache folder,
   from Linux. Then the same run is killed with SIGKILL three times and resumed: its model must be the same.
3. S3: 20 shards of 15 MB on moto's server, through s3fs, against the same shards streamed from disk: the same model.

`--small` does all of it with shards of 1,000 images. The last line has all figures as JSON.
"""

import contextlib
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch

from data import make_step
from narrows._util.allocator import keep_memory
from narrows.data import ArrayExamples, Batches, load, split
from narrows.data.cache import write_array
from narrows.data.examples import in_batches

SHARDS, IMAGES, SMALL_IMAGES = 80, 40_600, 1_000
CUT = 0.02
"""Share of the answers that are cut."""
ROUNDS, PER_ROUND = 16, 15


class Cutting(BaseHTTPRequestHandler):
    """Serves files by range, and closes some connections in the middle."""

    protocol_version = "HTTP/1.1"
    folder = Path()
    cuts = answers = 0

    def do_GET(self) -> None:
        """Answer with a range of a file, or with how many answers were cut."""
        if self.path == "/cuts":
            self._send(200, {}, json.dumps([Cutting.cuts, Cutting.answers]).encode())
            return
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self._send(404, {}, b"")
            return
        size = path.stat().st_size
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(found[1]), min(int(found[2]) + 1, size)) if found else (0, size)
        Cutting.answers += 1
        self.send_response(206 if found else 200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        cut = random.random() < CUT
        end = random.randrange(start, stop) if cut else stop
        with path.open("rb") as file:
            while start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, min(end - start, 1 << 20))
        if cut:
            Cutting.cuts += 1
            self.close_connection = True

    def _send(self, status: int, fields: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may go away in the middle."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


def serve(folder: Path) -> None:
    """Serve a folder until the process is ended; print the port first."""
    Cutting.folder = folder
    server = QuietServer(("127.0.0.1", 0), Cutting)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextlib.contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """Serve a folder from another process, and yield its address."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def write_shards(folder: Path, images: int) -> None:
    """Write one shard of drawn Shapes3D, and link it as all others."""
    examples = load("shapes3d", source="drawn").examples
    index = np.random.default_rng(0).choice(len(examples), images, replace=False)
    chunks = (
        x.permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).numpy() for _, x in in_batches(examples, index, 1000)
    )
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "part-00.npy"
    with first.open("wb") as file:
        write_array(file, (64, 64, 3), np.dtype(np.uint8), chunks)
    for i in range(1, SHARDS):
        (folder / f"part-{i:02}.npy").unlink(missing_ok=True)
        os.link(first, folder / f"part-{i:02}.npy")


def speed(address: str, first: Path, cache: str) -> dict[str, float]:
    """Return the median times of a batch and a step from memory and from the stream, in alternating rounds."""
    memory = ArrayExamples(np.load(first), 1 / 255)
    started = time.perf_counter()
    data = load(address, cache_size=cache)
    splits = split(data)
    opened = time.perf_counter() - started
    print(f"listed, headers read and {len(splits.train):,} + 15,000 rows copied in {opened:.0f} s", flush=True)
    step = make_step(memory.shape)
    plain, stream = Batches(np.arange(len(memory)), 64, 0), Batches(splits.training, 64, 0)
    started = time.perf_counter()
    data.examples.batch(stream.next())
    waited = time.perf_counter() - started
    ways: dict[str, Any] = {
        "memory": lambda: step(memory.batch(plain.next())),
        "stream": lambda: step(data.examples.batch(stream.next())),
        "memory, loader only": lambda: memory.batch(plain.next()),
        "stream, loader only": lambda: data.examples.batch(stream.next()),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for i in range(ROUNDS):
        for way in list(ways) if i % 2 else reversed(list(ways)):
            started = time.perf_counter()
            for _ in range(PER_ROUND):
                ways[way]()
            times[way].append((time.perf_counter() - started) / PER_ROUND * 1e3)
    medians = {way: float(np.median(found)) for way, found in times.items()}
    ratio = np.array(times["stream"]) / np.array(times["memory"])
    for way, found in medians.items():
        print(f"    {way:24} {found:8.2f} ms   {1e3 / found:8.1f} batches/s")
    print(f"    a step from the stream takes {np.median(ratio):.3f} of one from memory (quartiles", end=" ")
    print(f"{np.quantile(ratio, 0.25):.3f}, {np.quantile(ratio, 0.75):.3f}); the first batch came after {waited:.1f} s")
    return {**medians, "ratio": float(np.median(ratio)), "opened": opened, "first batch": waited}


def train(out: Path, address: str, steps: int, cache: str, *more: str) -> list[str]:
    """Return the command of a run that is small enough for thousands of batches."""
    settings = ["--cache-size", cache, "--tau", "60", "--steps", str(steps), "--width", "4", "--recipe", "paper"]
    settings += ["--eval-every", "400", "--checkpoint-every", "200", "--out", str(out), *more]
    return [sys.executable, "-m", "narrows", "train", address, *settings]


def watched(command: list[str], cache: Path) -> dict[str, float]:
    """Run a command, and return its peaks in megabytes: resident memory by kind, and the shards in the cache."""
    peaks = dict.fromkeys(("VmHWM", "RssAnon", "RssFile", "cache"), 0.0)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in peaks:
                    peaks[name] = max(peaks[name], int(value.split()[0]) / 1e3)
        with contextlib.suppress(OSError):
            held = sum(file.stat().st_blocks * 512 for file in (cache / "streams").rglob("*"))
            peaks["cache"] = max(peaks["cache"], held / 1e6)
        time.sleep(0.05)
    assert process.returncode == 0, process.returncode
    return peaks


def batches_done(out: Path) -> int:
    """Return the batch of the last row of a run's metrics.csv; 0 if there is none."""
    try:
        return int((out / "metrics.csv").read_text().splitlines()[-1].partition(",")[0])
    except (OSError, ValueError, IndexError):
        return 0


def killed_and_resumed(command: list[str], out: Path, kills: int, steps: int) -> int:
    """Run a command, kill it after a random batch, and resume, several times; return how often it was killed."""
    rng, done = random.Random(0), 0
    resume = [sys.executable, "-m", "narrows", "resume", str(out)]
    for i in range(kills):
        process = subprocess.Popen(resume if i else command, stdout=subprocess.DEVNULL)
        last = (i + rng.uniform(0.2, 0.9)) * steps / kills
        while batches_done(out) < last and process.poll() is None:
            time.sleep(0.05)
        done += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(resume, check=True, stdout=subprocess.DEVNULL)
    return done


def same(a: Path, b: Path) -> bool:
    """Return whether two runs have the same model, byte for byte."""
    return (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()


def object_store(folder: Path) -> dict[str, Any]:
    """Train from moto's S3 server and from the same shards on disk; return whether the models are the same."""
    from moto.server import ThreadedMotoServer

    shards = folder / "s3" / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    examples = load("shapes3d", source="drawn").examples
    for i in range(20):
        x = examples.batch(np.arange(i * 1220, (i + 1) * 1220) * 19).permute(0, 2, 3, 1)
        np.save(shards / f"part-{i:02}.npy", x.mul(255).round().to(torch.uint8).numpy())
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it prints every request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    import s3fs

    fs = s3fs.S3FileSystem()
    fs.mkdir("bucket")
    size = 0
    for path in shards.iterdir():
        fs.put(str(path), f"bucket/shards/{path.name}")
        size += path.stat().st_size
    started = time.perf_counter()
    there = train(folder / "run-s3", "s3://bucket/shards/*.npy", 400, "66MB")
    subprocess.run(there, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    local = train(folder / "run-disk", str(shards), 400, "66MB", "--stream")
    subprocess.run(local, check=True, stdout=subprocess.DEVNULL)
    equal = same(folder / "run-s3", folder / "run-disk")
    server.stop()
    print(f"S3: {size / 1e6:.0f} MB in 20 shards, cache 66 MB, 400 batches in {seconds:.0f} s", end="; ")
    print(f"the same model as from the same shards on disk: {equal}")
    return {"bytes": size, "seconds": seconds, "equal": equal}


def main() -> None:
    """Print the tables, and the same as JSON in the last line."""
    if "--serve" in sys.argv:
        serve(Path(sys.argv[2]))
    keep_memory()
    if "--speed" in sys.argv:
        print(json.dumps(speed(sys.argv[2], Path(sys.argv[3]), sys.argv[4])))
        return
    small = "--small" in sys.argv
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    images, cache, steps = (SMALL_IMAGES, "50MB", 200) if small else (IMAGES, "2GB", 1400)
    results: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__, "load": os.getloadavg()}
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=given[0] if given else None) as name:
        folder = Path(name)
        os.environ["NARROWS_CACHE"] = str(folder / "cache")
        write_shards(folder / "set", images)
        size = (folder / "set" / "part-00.npy").stat().st_size
        print(f"{SHARDS} shards of {size / 1e6:.0f} MB, {SHARDS * size / 1e9:.1f} GB in all; cache {cache}")
        with web_server(folder / "set") as url:
            address = f"{url}/part-{{00..79}}.npy"
            # In a process of its own, so that its shards do not count below.
            measure = [sys.executable, __file__, "--speed", address, str(folder / "set" / "part-00.npy"), cache]
            measured = subprocess.run(measure, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
            print("\n".join(measured[:-1]), flush=True)
            results["speed"] = json.loads(measured[-1])
            started = time.perf_counter()
            results["peaks MB"] = peaks = watched(train(folder / "run", address, steps, cache), folder / "cache")
            seconds = time.perf_counter() - started
            print(f"a run of {steps} batches in {seconds:.0f} s, peaks in MB: {peaks}", flush=True)
            again = folder / "again"
            kills = killed_and_resumed(train(again, address, steps, cache), again, 3, steps)
            results["kills"], results["equal"] = kills, same(folder / "run", again)
            cuts, answers = json.loads(urlopen(f"{url}/cuts").read())
            results["cuts"], results["answers"] = cuts, answers
            print(f"killed {kills} times and resumed: the same model: {results['equal']}")
            print(f"the server cut {cuts:,} of {answers:,} answers")
        results["s3"] = object_store(folder)
    print(f"load of the machine after: {os.getloadavg()[0]:.1f}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
