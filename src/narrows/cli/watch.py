"""watch: a run at work, from another terminal."""

from pathlib import Path

from narrows.cli.app import app
from narrows.errors import NarrowsError


@app.command
def watch(run: Path, /, *, every: float = 1.0, silence: float = 30.0) -> int:
    """Show a run's curves while it trains in another process; ends with it, and shows the answer.

    It only reads the run's folder. In a pipe it prints a line now and then.

    Examples:

        narrows watch runs/my-1

    Parameters
    ----------
    run
        The folder of a run or of a front.
    every
        Seconds between two looks.
    silence
        Seconds without news after which to say so; slow runs are given more.
    """
    from narrows.report.watching import watch

    for name, value in (("every", every), ("silence", silence)):
        if not 0.01 <= value <= 1e6:
            raise NarrowsError(f"--{name} must be a number of seconds from 0.01 to 1,000,000; it is {value:g}")
    watch(run, every, silence)
    return 0
