"""explore: a local page with one slider per latent dimension."""

from pathlib import Path

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import say
from narrows.cli.app import TrustData, app
from narrows.cli.output import flush_output

LARGEST_PORT = 65_535


@app.command
def explore(run: Path, /, *, port: int = 0, trust_data: TrustData = False) -> None:
    """Open a local page with one slider per latent dimension, on which inputs can be changed.

    The command prints the address of the page, which only this machine can reach. Ctrl-C ends it.

    Parameters
    ----------
    run
        A run's folder, a front's (a slider over tau changes the model), or a model file.
    port
        The port on 127.0.0.1; 0 chooses a free one.
    """
    if not 0 <= port <= LARGEST_PORT:
        raise NarrowsError(f"{setting('port')} must be 0 (any free port) to {LARGEST_PORT}; it is {port}")
    import torch

    from narrows.explorer.models import open_explorer
    from narrows.explorer.server import Server
    from narrows.report.live.listeners import show_loading
    from narrows.training.signals import StopRequest

    torch.set_num_threads(1)  # decoding one example is too little work to share
    with Server(port) as server:
        with show_loading() as progress:
            explorer = open_explorer(run, progress, trust_data)
            server.explore(explorer)
        with StopRequest() as stop:
            say(f"explore {explorer.name}: {server.address}\nCtrl-C ends it")
            flush_output()
            while not stop.signal:
                server.handle_request()
    say("ended")
