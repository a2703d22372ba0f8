"""How long after a slider's move its image is there: asked of the server, and seen in a browser.

python benchmarks/explorer.py [RUN]

Without a run, a model of dSprites is trained for a few batches: what a decoding costs depends on its size alone. The
server's time is that of a whole request over one connection, as the page makes it; the browser's goes from the slider's
event to the decoded image (`shown` in explorer.js). There the moves come one by one, each after the image of the one
before.
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
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> None:
    """Print a line each for start-up, server and browser."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        config = narrows.TrainConfig(data="dsprites", source="drawn", tau=20.0, n=10, steps=20)
        _, run = narrows.train(config, Path(folder) / "run")
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
        _tell("server", asked(server))
        found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
        if found is None:
            print("no browser is on the PATH")
        else:
            _tell("browser", seen(server, found))
        server.shutdown()
        thread.join()


def asked(server: Server) -> list[float]:
    """Return the milliseconds of whole requests."""
    assert server.explorer is not None
    n = server.explorer.model(0).n
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    times = []
    for value in np.linspace(-2, 2, MOVES):
        question = {"model": 0, "code": [float(value)] + [0.0] * (n - 1), "input": "test-0"}
        start = time.perf_counter()
        connection.request(
            "POST", f"/{server.token}/decode", json.dumps(question), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        times.append(1e3 * (time.perf_counter() - start))
    connection.close()
    return times


def seen(server: Server, browser: str) -> list[float]:
    """Return the milliseconds from moves to their images in a browser."""
    from playwright.sync_api import sync_playwright

    last = "performance.getEntriesByName('shown')[0]"
    times = []
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(server.address)
        page.wait_for_selector("html.ready")
        page.locator("#z-0").focus()
        for move in range(MOVES):
            page.evaluate("performance.clearMeasures('shown')")
            page.keyboard.press("ArrowRight" if move // 20 % 2 == 0 else "ArrowLeft")
            page.wait_for_function(f"() => {last}")
            times.append(page.evaluate(f"{last}.duration"))
    return times


def _tell(what: str, times: list[float]) -> None:
    median, most = np.percentile(times, 50), np.percentile(times, 95)
    print(f"{what}: {median:.1f} ms in the middle, 95% within {most:.1f} ms, longest {max(times):.1f} ms")


if __name__ == "__main__":
    main()
