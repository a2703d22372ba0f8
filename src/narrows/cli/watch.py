"""watch: the curves of a run that is training in another process."""

from pathlib import Path

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import say
from narrows.cli.app import app
from narrows.cli.train import show


@app.command
def watch(run: Path, /, *, every: float = 1.0, silence: float = 30.0) -> None:
    """Show a run's curves while it trains in another process; when the run ends, show the answer and end too.

    The command only reads the run's folder. In a pipe it prints a line from time to time.

    Examples:

        narrows watch runs/my-1

    Parameters
    ----------
    run
        The folder of a run or of a front.
    every
        Seconds between two updates.
    silence
        Seconds without news after which to say so; slow runs are given more.
    """
    from narrows.report.live.watch import watch

    for name, value in (("every", every), ("silence", silence)):
        if not 0.01 <= value <= 1e6:
            raise NarrowsError(f"{setting(name)} must be a number of seconds from 0.01 to 1,000,000; it is {value:g}")
    watch(run, every, silence)
    say("")
    show(run)
