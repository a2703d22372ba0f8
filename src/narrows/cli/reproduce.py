"""reproduce: the paper's experiments."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import say, shown_lines
from narrows.cli.app import app
from narrows.cli.sweep import chosen_options
from narrows.paper.plan import Name, Options

DEFAULTS = Options()


@app.command
def reproduce(
    experiment: Name,
    /,
    *,
    out: Path | None = None,
    resume: bool = False,
    jobs: int = 1,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    options: Annotated[Options, Parameter(name="*")] = DEFAULTS,
) -> int:
    """Repeat one of the paper's four experiments, and compare our numbers with the paper's.

    Examples:

        narrows reproduce training --recipe paper,fast --budget 0.3
        narrows reproduce front --recipe fast --only 6,10,18,30
        narrows reproduce front --one-run
        narrows reproduce reconstructions --recipe fast
        narrows reproduce table --only mnist,dsprites-5 --budget 0.05 --jobs 2

    Parameters
    ----------
    experiment
        training: dSprites with tau = 20; front: MNIST, ten values of tau; reconstructions: dSprites with tau = 20 and
        35; table: five sets, as good as plain VAEs with 5, 10 and 30 dimensions.
    out
        Folder for the runs, the table and the page; by default runs/reproduce-EXPERIMENT.
    resume
        Continue what is in the folder; rows that are done stay.
    jobs
        Runs at a time, each with its share of the cores.
    engine
        local: on this machine; ray: on a Ray cluster, or one that is started here.
    address
        With ray, the cluster's HOST:PORT; by default that of RAY_ADDRESS.
    """
    from narrows.paper.experiments import plan
    from narrows.paper.folder import ExperimentFolder
    from narrows.paper.page import command, write_page
    from narrows.paper.scheduler import run_jobs
    from narrows.report.live.listeners import make_listener
    from narrows.sweeps.engine import Engine, Resources, cores
    from narrows.training.signals import Interrupted

    if jobs < 1:
        raise NarrowsError(f"{setting('jobs')} must be at least 1; it is {jobs}")
    share = 1 if address else max(1, cores() // jobs)
    chosen = Engine(engine, jobs, address, Resources(share)).checked()
    chosen.check_reachable()
    planned = plan(experiment, options)
    folder = ExperimentFolder(out or Path("runs") / f"reproduce-{experiment}", experiment)
    folder.open(options, resume)
    try:
        rows = run_jobs(folder, planned, chosen, make_listener(), lambda rows: write_page(folder, options, rows))
    except Interrupted as stopped:
        words = [
            *command(experiment, options),
            *chosen_options(folder.path, engine, address, jobs if jobs > 1 else None),
        ]
        say(f"stopped by {signal.Signals(stopped.number).name}; continue with: {shlex.join(words)} --resume")
        return 128 + stopped.number
    page = write_page(folder, options, rows)
    for row in rows:
        if row.status != "done":
            print(shown_lines(f"{row.set}, n = {row.n}, {row.recipe}: {row.status}: {row.reason}"), file=sys.stderr)
    say(f"{sum(row.status == 'done' for row in rows)} of {len(rows)} rows done")
    say(f"table: {folder.table}")
    say(f"page:  {page}")
    return 0 if any(folder.read_rows(job.key) for job in planned) else 1
