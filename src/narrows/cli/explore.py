"""explore."""

import time
from contextlib import closing
from pathlib import Path

from narrows.cli.app import app
from narrows.errors import NarrowsError

LARGEST_PORT = 65_535


@app.command
def explore(run: Path, /, *, port: int = 0) -> int:
    """Open a local page on which a model's dimensions are sliders, and its inputs can be changed.

    Prints the address of the page, which only this machine reaches. Ctrl-C ends it.

    Parameters
    ----------
    run
        A run's folder, a front's (a slider over tau changes the model), or a model file.
    port
        Of 127.0.0.1; 0 takes one that is free.
    """
    if not 0 <= port <= LARGEST_PORT:
        raise NarrowsError(f"--port must be 0 (any that is free) to {LARGEST_PORT}; it is {port}")
    import threading

    import torch

    from narrows.explorer.models import open_explorer
    from narrows.explorer.server import Server
    from narrows.report.live import make_loading
    from narrows.training.signals import StopRequest

    torch.set_num_threads(1)  # decoding one example is too little to share
    with Server(port) as server:
        with closing(make_loading()) as loading:
            explorer = open_explorer(run, loading)
            server.explore(explorer)
        with StopRequest() as stop:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
            thread.start()
            print(f"explore {explorer.name}: {server.address}\nCtrl-C ends it", flush=True)
            while not stop.signal:
                time.sleep(0.1)
            server.shutdown()
            thread.join()
    print("ended")
    return 0
