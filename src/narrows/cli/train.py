"""train, front, resume, show."""

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from narrows._util.errors import NarrowsError, setting
from narrows._util.launch import is_first_process
from narrows._util.printing import print_line, say, warn
from narrows.cli.app import app
from narrows.cli.output import OutputError, flush_output
from narrows.runs.folder import RunFolder, resuming
from narrows.runs.front import FrontFolder
from narrows.training.config import TrainConfig

if TYPE_CHECKING:
    from narrows.training.front import FrontOutcome
    from narrows.training.start import Outcome

DEFAULTS = TrainConfig()
Resume = Annotated[
    bool,
    Parameter(
        negative="",
        help="Start the run in --out if it is not there yet, continue it if it was stopped, print the answer if it "
        "has ended: the same command again goes on after anything.",
    ),
]


@app.command
def train(
    data: str | None = None,
    /,
    *,
    out: Path | None = None,
    config: Path | None = None,
    resume: Resume = False,
    live: bool = False,
    settings: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
) -> None:
    """Train a model that is as narrow as tau allows, and certify it on data it has never seen.

    Examples:

        narrows train
        narrows train my.npy --explained 0.95
        narrows train my.npy --as-good-as 10
        narrows train images.npz::faces --tau 40 --width 16 --out runs/faces
        narrows train photos/ --image-size 64 --tau 100 --n 64
        narrows train table.csv --columns height,weight,age --tau 0.2
        narrows train --config runs/faces/config.json --seed 1
        narrows train my.npy --explained 0.95 --live
        narrows train my.npy --explained 0.95 --out runs/my --resume

    Parameters
    ----------
    data
        A named set (see `narrows data list`), a file (.npy, .npz, .csv, .parquet, .h5, FILE::key), a folder of
        images or shards, a pattern ('parts/*.npy'), an address (s3://..., https://...), or hf:NAME.
    out
        The run's folder, new or empty (with --resume also its own); by default the next free runs/NAME-1,
        runs/NAME-2, ...
    config
        A .toml or .json file with any of these settings, such as another run's config.json.
    live
        Show the curves while it trains, in the terminal and in the run's report.html, which reloads itself.
    """
    from narrows.report.live.listeners import make_listener
    from narrows.training.start import train

    chosen = _with_data(settings, data)
    _show(train(chosen, out, listener=make_listener(live), resume=resume), chosen.data)


@app.command
def front(
    data: str | None = None,
    /,
    *,
    taus: str,
    out: Path | None = None,
    config: Path | None = None,
    resume: Resume = False,
    live: bool = False,
    settings: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
) -> None:
    """Find how many dimensions each of several taus needs, from one run.

    Examples:

        narrows front digits.npy --taus 3,4,6,8,10,14,18,22,26,30 --n 32

    Parameters
    ----------
    data
        As for `narrows train`.
    taus
        The taus, separated by commas.
    out
        The front's folder, new or empty (with --resume also its own), with one run per tau; by default the next free
        runs/NAME-front-1, ...
    config
        A .toml or .json file with any of these settings, such as another run's config.json; its tau is not used.
    live
        Show the curves while it trains, in the terminal and in the front's report.html, which reloads itself.
    """
    from narrows.report.live.listeners import make_listener
    from narrows.training.front import train_front

    _show(train_front(_with_data(settings, data), taus.split(","), out, listener=make_listener(live), resume=resume))


@app.command
def resume(run: Path, /, *, steps: int | None = None, live: bool = False) -> None:
    """Continue a stopped run exactly as if it had not stopped.

    Parameters
    ----------
    run
        The run's folder.
    steps
        Train to this many batches in all, more than the run was asked for.
    live
        Show the curves while it trains, as for `narrows train`.
    """
    from narrows.report.live.listeners import make_listener
    from narrows.training.front import resume_front
    from narrows.training.start import resume

    if FrontFolder(run).about.exists():
        if steps is not None:
            raise NarrowsError(f"{setting('steps')} is for single runs; a front ends by itself")
        outcome: Outcome | FrontOutcome = resume_front(run, listener=make_listener(live))
    else:
        outcome = resume(run, steps, listener=make_listener(live))
    _show(outcome)


@app.command
def show(run: Path, /, *, json: bool = False) -> None:
    """Print a run's answer again, or its progress.

    Parameters
    ----------
    run
        The run's folder.
    json
        Print result.json instead of text; a list of them for a front.
    """
    from narrows.report import text
    from narrows.report.contents import read_run

    front_folder = FrontFolder(run)
    if front_folder.about.exists():
        answers = ", ".join(result.to_json().rstrip() for result in front_folder.read_results())
        say(f"[{answers}]" if json else text.front_table(front_folder))
        return
    folder = RunFolder(run)
    folder.read_config()  # raises if there is no run
    result = folder.read_result()
    if result is None and json:
        raise NarrowsError(f"{run} has no result yet; continue it with `{resuming(run)}`")
    if result is None:
        say(text.progress(read_run(folder)))
    else:
        say(result.to_json().rstrip() if json else text.full_answer(result, folder))


def _with_data(settings: TrainConfig, data: str | None) -> TrainConfig:
    if data is None:
        return settings
    if settings.data not in (DEFAULTS.data, data):
        raise NarrowsError(f"the data are named twice, as {data} and as {settings.data}; leave one out")
    return replace(settings, data=data)


def _show(outcome: "Outcome | FrontOutcome", named: str = "") -> None:
    """Print the answer, draw the curves and write the reports, on the first process; `named` are the data as typed."""
    from narrows.inference.trained import was_named
    from narrows.report.comparison import write_front
    from narrows.report.figures.figure_files import draw_curves, draw_front
    from narrows.report.live.page import drop_live
    from narrows.report.run_page import write_report
    from narrows.report.text import front_table, full_answer
    from narrows.training.signals import StopRequest
    from narrows.training.start import Outcome

    if not is_first_process():
        return
    for line in outcome.warnings:
        warn(f"{line}; the one before it was used")
    with StopRequest():  # the results are written; a Ctrl-C now would only cut the answer off
        if isinstance(outcome, Outcome):
            run = outcome.folder
            print_line(f"\n{full_answer(outcome.result, run)}\nmodel:  {run.model}")
            _make("figure", partial(draw_curves, run))
            _make("report", partial(write_report, run, outcome.data, trust_data=was_named(run, [named])))
        else:
            front, results, data = outcome.folder, outcome.results, outcome.data
            runs = [front.level(result.tau or 0.0) for result in results]
            print_line(f"\n{front_table(front)}\ntable:  {front.table}")
            _make("figure", *(partial(draw_curves, run) for run in runs), partial(draw_front, front, results))
            _make("report", *(partial(write_report, run, data) for run in runs), partial(write_front, front, data))
        drop_live(outcome.folder.report)
        try:
            flush_output()
        except OutputError as error:
            if error.errno != errno.EPIPE:  # who closed a pipe does not want to read on
                warn(f"the answer could not be printed ({error.strerror}); the results are safe")


def _make(what: str, *calls: Callable[[], Path | None]) -> None:
    """Write figures or reports and print the path of the last; if one fails, print a warning: the results are safe."""
    try:
        *_, path = (call() for call in calls)
        print_line(f"{what}: {path}")
    except Exception as error:
        warn(f"the {what} could not be written ({type(error).__name__}: {error}); the results are safe")
