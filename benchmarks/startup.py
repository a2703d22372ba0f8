"""How long a user waits: for `narrows --help`, and from `narrows train` to the first batch, with the data cached.

python benchmarks/startup.py
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NARROWS = [sys.executable, "-m", "narrows"]
TIMES = 5


def help_seconds() -> float:
    """Time `narrows --help`."""
    start = time.perf_counter()
    subprocess.run([*NARROWS, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def first_batch_seconds(source: str) -> float:
    """Time `narrows train` until its first row of metrics is written, then stop it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [*NARROWS, "train", source, "--source", "drawn", "--tau", "20", "--log-every", "1", "--out", str(run)]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        metrics = run / "metrics.csv"
        while not (metrics.exists() and metrics.read_text().count("\n") > 1):
            if process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        process.send_signal(signal.SIGTERM)
        process.wait()
        return seconds


def main() -> None:
    """Print the best and the median of some tries."""
    first_batch_seconds("dsprites")  # draws the set, if it is not cached
    for name, measure in (
        ("narrows --help", help_seconds),
        ("narrows train dsprites, to its first batch", lambda: first_batch_seconds("dsprites")),
        ("narrows train shapes3d, to its first batch", lambda: first_batch_seconds("shapes3d")),
    ):
        seconds = sorted(measure() for _ in range(TIMES))
        print(f"{name:45} best {seconds[0]:.2f} s, median {seconds[TIMES // 2]:.2f} s", flush=True)


if __name__ == "__main__":
    main()
