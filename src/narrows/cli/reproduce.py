"""reproduce: the paper's experiments."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from narrows.cli.app import app
from narrows.errors import NarrowsError
from narrows.experiments.plan import Options

ALL = Options()


@app.command
def reproduce(
    experiment: Literal["training", "front", "reconstructions", "table"],
    /,
    *,
    out: Path | None = None,
    resume: bool = False,
    jobs: int = 1,
    options: Annotated[Options, Parameter(name="*")] = ALL,
) -> int:
    """Repeat one of the paper's four experiments, and see our numbers beside its own.

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
        Go on with what is in the folder; what is done is not done again.
    jobs
        Runs at a time, each with its share of the cores.
    """
    from narrows.experiments.board import Board, plan
    from narrows.experiments.running import run
    from narrows.report.live import make_display
    from narrows.report.reproduction import command, write_page
    from narrows.training.signals import Interrupted

    if jobs < 1:
        raise NarrowsError(f"--jobs must be at least 1; it is {jobs}")
    todo = plan(experiment, options)
    board = Board(out or Path("runs") / f"reproduce-{experiment}", experiment)
    board.open(options, resume)
    try:
        rows = run(board, todo, jobs, make_display(), lambda rows: write_page(board, options, rows))
    except Interrupted as stopped:
        where = f"--out {shlex.quote(str(board.path))}{f' --jobs {jobs}' if jobs > 1 else ''} --resume"
        print(f"stopped by {signal.Signals(stopped.number).name}; go on with: {command(experiment, options)} {where}")
        return 128 + stopped.number
    page = write_page(board, options, rows)
    for row in rows:
        if row.status != "done":
            print(f"{row.set}, n = {row.n}, {row.recipe}: {row.status}: {row.reason}", file=sys.stderr)
    print(f"{sum(row.status == 'done' for row in rows)} of {len(rows)} rows done")
    print(f"table: {board.table}")
    print(f"page:  {page}")
    asked = {job.key for job in todo}
    return 0 if any(board.done(key) for key in asked) else 1
