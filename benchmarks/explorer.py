"""How long it takes from a slider's move to its image, measured at the server and in a browser.

python benchmarks/explorer.py [RUN]

Without a run, a model of dSprites is trained for a few batches: the cost of decoding depends on its size only. The
server's time is that of a whole request over one connection, as the page sends it; the browser's time runs from the
slider's event to the decoded image. Each move waits for the image of the one before.
"""

import http.client
import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

import narrows
from narrows.explorer.models import open_explorer
from narrows.explorer.server import Server

MOVES = 200
MOVE = """async (key) => {
  const slider = document.getElementById("z-0"), image = document.querySelector("#decoded img");
  const changed = new Promise((done) => new MutationObserver(done).observe(image, { attributeFilter: ["src"] }));
  const start = performance.now();
  slider.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
  await changed;
  await image.decode();
  return performance.now() - start;
}"""
"""Presses a key on the first slider and returns the milliseconds until the image is there."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> None:
    """Print one line each for the start, the server and the browser."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        config = narrows.TrainConfig(data="dsprites", source="drawn", tau=20.0, n=10, steps=20)
        run = narrows.train(config, Path(folder) / "run").folder
        measure(run.path)


def measure(run: Path) -> None:
    """Serve a run and move its first slider."""
    start = time.perf_counter()
    with Server() as server:
        explorer = open_explorer(run)
        server.explore(explorer)
        print(f"{explorer.name}, {explorer.model(0).n} dimensions: ready after {time.perf_counter() - start:.1f} s")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        _print("server", time_requests(server))
        found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
        if found is None:
            print("no browser is on the PATH")
        else:
            _print("browser", time_images(server, found))
        server.shutdown()
        thread.join()


def time_requests(server: Server) -> list[float]:
    """Return the milliseconds of each request."""
    n = server.explorer.model(0).n
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    times = []
    for value in np.linspace(-2, 2, MOVES):
        request = {"model": 0, "code": [float(value)] + [0.0] * (n - 1), "input": "test-0"}
        start = time.perf_counter()
        connection.request("POST", f"/{server.token}/decode", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        times.append(1e3 * (time.perf_counter() - start))
    connection.close()
    return times


def time_images(server: Server, browser: str) -> list[float]:
    """Return the milliseconds from each move to its image in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(server.address)
        page.wait_for_selector("html.ready")
        keys = ["ArrowRight" if move // 20 % 2 == 0 else "ArrowLeft" for move in range(MOVES)]
        return [page.evaluate(MOVE, key) for key in keys]


def _print(what: str, times: list[float]) -> None:
    median, most = np.percentile(times, 50), np.percentile(times, 95)
    print(f"{what}: {median:.1f} ms in the middle, 95% within {most:.1f} ms, longest {max(times):.1f} ms")


if __name__ == "__main__":
    main()
