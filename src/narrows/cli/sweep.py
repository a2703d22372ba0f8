"""sweep: many runs from one file."""

import shlex
import signal
from pathlib import Path
from typing import Literal

from narrows._util.printing import say
from narrows.cli.app import app


@app.command
def sweep(
    file: Path,
    /,
    *,
    out: Path | None = None,
    resume: bool = False,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    jobs: int | None = None,
) -> int:
    """Train one run for every combination of the settings in a file, and put the answers into one table.

    Examples:

        narrows sweep sweep.toml
        narrows sweep sweep.toml --jobs 4 --out runs/widths
        narrows sweep sweep.toml --out runs/widths --resume
        narrows sweep sweep.toml --engine ray --address 10.0.0.1:6379 --out /shared/widths

    Parameters
    ----------
    file
        A .toml or .json file with settings of `narrows train`, each a value or a list, and a table [sweep]: combine
        (product or zip), taus (each run is a front), cpus and gpus per run, jobs.
    out
        The sweep's folder, new or empty; by default runs/sweep-FILE.
    resume
        Continue what is in the folder: runs that are done stay, others continue, and those that failed are tried again.
    engine
        local: processes on this machine; ray: tasks on a Ray cluster, or one that is started here for the sweep.
    address
        With ray, the cluster's HOST:PORT; by default that of RAY_ADDRESS.
    jobs
        Runs at a time; by default as many as there are cores for, or on an existing cluster as it takes.
    """
    from narrows.report.live.listeners import make_listener
    from narrows.sweeps.start import sweep
    from narrows.training.signals import Interrupted

    try:
        table = sweep(file, out, engine, jobs, address, resume, make_listener())
    except Interrupted as stopped:
        words = ["narrows", "sweep", str(file), *chosen_options(stopped.folder, engine, address, jobs)]
        say(f"stopped by {signal.Signals(stopped.number).name}; continue with: {shlex.join(words)} --resume")
        return 128 + stopped.number
    say(f"{table}\n\n{len(table) - len(table.failed)} of {len(table)} rows done")
    say(f"table: {table.folder / 'table.csv'}")
    say(f"page:  {table.folder / 'compare.html'}")
    return 1 if table.failed else 0


def chosen_options(out: Path, engine: str, address: str | None, jobs: int | None) -> list[str]:
    """Return the words of a command that give its folder and its engine."""
    given = {"--out": out, "--engine": None if engine == "local" else engine, "--address": address, "--jobs": jobs}
    return [str(word) for option, value in given.items() if value is not None for word in (option, value)]
