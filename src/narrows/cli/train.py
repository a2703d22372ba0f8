"""train, front, resume, show."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from narrows.cli.app import app
from narrows.errors import NarrowsError
from narrows.fronts import FrontFolder
from narrows.runs import RunFolder
from narrows.training.config import TrainConfig, config_from_dict

if TYPE_CHECKING:
    from narrows.data import Data

DEFAULTS = TrainConfig()


@app.command
def train(
    data: str | None = None,
    /,
    *,
    out: Path | None = None,
    config: Path | None = None,
    live: bool = False,
    settings: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
) -> int:
    """Train a model that is as narrow as tau allows, and certify it on data it never saw.

    Examples:

        narrows train
        narrows train my.npy --explained 0.95
        narrows train my.npy --as-good-as 10
        narrows train images.npz::faces --tau 40 --width 16 --out runs/faces
        narrows train photos/ --image-size 64 --tau 100 --n 64
        narrows train table.csv --columns height,weight,age --tau 0.2
        narrows train --config runs/faces/config.json --seed 1
        narrows train my.npy --explained 0.95 --live

    Parameters
    ----------
    data
        A named set (see `narrows data list`), a file (.npy, .npz, .csv, .parquet, .h5, FILE::key), a folder of
        images, or hf:NAME of the Hugging Face hub.
    out
        Folder for the run, new or empty; by default the next free runs/NAME-1, NAME-2, ...
    config
        A .toml or .json file with any of these settings, such as another run's config.json.
    live
        Show the curves while it trains, here and in the run's report.html, a page that loads itself again.
    """
    from narrows.report.live import make_display
    from narrows.training.entry import train

    settings, display = _with_data(settings, data), make_display(live)
    _, folder = train(settings, out, display=display)
    _tell(folder, display.data)
    return 0


@app.command
def front(
    data: str | None = None,
    /,
    *,
    taus: str,
    out: Path | None = None,
    config: Path | None = None,
    live: bool = False,
    settings: Annotated[TrainConfig, Parameter(name="*")] = DEFAULTS,
) -> int:
    """Find how many dimensions each of several tolerances needs, from one run: tightest first, then looser.

    Examples:

        narrows front digits.npy --taus 3,4,6,8,10,14,18,22,26,30 --n 32

    Parameters
    ----------
    data
        As for `narrows train`.
    taus
        The tolerances, separated by commas.
    out
        Folder for the front, new or empty; one run a tau goes into it. By default the next free runs/NAME-front-1, ...
    config
        A .toml or .json file with any of these settings, such as another run's config.json; its tau is not used.
    live
        Show the curves while it trains, here and in the front's report.html, a page that loads itself again.
    """
    from narrows.report.live import make_display
    from narrows.training.front import train_front

    settings = _with_data(settings, data)
    try:
        numbers = [float(word) for word in taus.split(",")]
    except ValueError:
        raise NarrowsError(f"--taus must be numbers separated by commas, such as 3,4,6; it is {taus!r}") from None
    display = make_display(live)
    _, folder = train_front(settings, numbers, out, display=display)
    _tell_front(folder, display.data)
    return 0


@app.command
def resume(run: Path, /, *, steps: int | None = None, live: bool = False) -> int:
    """Go on with a stopped run, exactly as if it had not stopped.

    Parameters
    ----------
    run
        The run's folder.
    steps
        Train to this many batches in all, more than the run was asked for.
    live
        Show the curves while it trains, as for `narrows train`.
    """
    from narrows.report.live import make_display
    from narrows.training.entry import resume
    from narrows.training.front import resume_front

    display = make_display(live)
    if FrontFolder(run).about.exists():
        if steps is not None:
            raise NarrowsError("--steps is for single runs; a front ends by itself")
        _, levels = resume_front(run, display=display)
        _tell_front(levels, display.data)
        return 0
    _, folder, passed = resume(run, steps, display=display)
    for line in passed:
        print(f"narrows: warning: {line}; the one before it was used", file=sys.stderr)
    _tell(folder, display.data)
    return 0


@app.command
def show(run: Path, /, *, json: bool = False) -> int:
    """Show a run's answer again, or how far it is.

    Parameters
    ----------
    run
        The run's folder.
    json
        Print result.json instead of words; of a front, a list of them.
    """
    from narrows.report import words

    if FrontFolder(run).about.exists():
        front_folder = FrontFolder(run)
        results = front_folder.read_results()
        if json:
            print(f"[{', '.join(result.to_json().rstrip() for result in results)}]")
        else:
            print(words.front_table(front_folder))
        return 0
    folder = RunFolder(run)
    settings = config_from_dict(folder.read_config(), str(folder.config))
    result = folder.read_result()
    if result is None and json:
        raise NarrowsError(f"{run} has no result yet; go on with `narrows resume {run}`")
    if result is None:
        print(words.progress(folder, settings.steps, folder.read_rows()))
    else:
        print(result.to_json().rstrip() if json else words.full_answer(result, folder))
    return 0


def _with_data(settings: TrainConfig, data: str | None) -> TrainConfig:
    if data is None:
        return settings
    if settings.data not in (DEFAULTS.data, data):
        raise NarrowsError(f"the data are named twice, {data} and {settings.data}; leave one out")
    return replace(settings, data=data)


def _tell(folder: RunFolder, data: "Data | None") -> None:
    """Print the answer, draw the curves, write the report and say where all is; of several processes the first does."""
    from narrows.report.curves import draw_curves
    from narrows.report.live import is_first_process
    from narrows.report.live_page import drop_live
    from narrows.report.words import full_answer
    from narrows.training.signals import StopRequest

    if not is_first_process():
        return
    with StopRequest():  # the results are written; a Ctrl-C now would only cut the answer off
        result = folder.read_result()
        print()
        if result is not None:
            print(full_answer(result, folder))
        print(f"model:  {folder.model}")
        _make("figure", lambda: draw_curves(folder))
        _make("report", lambda: _write_report(folder, data))
        drop_live(folder.report)


def _tell_front(folder: FrontFolder, data: "Data | None") -> None:
    """Print a front's table, draw it, write its reports and say where all is."""
    from narrows.report.curves import draw_curves, draw_front
    from narrows.report.live import is_first_process
    from narrows.report.live_page import drop_live
    from narrows.report.words import front_table

    if not is_first_process():
        return
    results = folder.read_results()
    levels = [folder.level(result.tau or 0.0) for result in results]
    print()
    print(front_table(folder))
    print(f"table:  {folder.table}")

    def draw() -> Path:
        for level in levels:
            draw_curves(level)
        return draw_front(folder, results)

    def write() -> Path:
        from narrows.report.comparison import write_front

        for level in levels:
            _write_report(level, data)
        return write_front(folder, data)

    _make("figure", draw)
    _make("report", write)
    drop_live(folder.report)


def _write_report(folder: RunFolder, data: "Data | None") -> Path:
    from narrows.report.run_page import write_report

    return write_report(folder, data)


def _make(what: str, make: Callable[[], Path | None]) -> None:
    """Make a figure or a report and say where it is; whatever goes wrong there, the results are safe: one line."""
    try:
        print(f"{what}: {make()}")
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"narrows: warning: the {what} could not be written ({reason}); the results are safe", file=sys.stderr)
