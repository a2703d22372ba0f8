"""12. The command line: parse, dispatch, exit codes; no arithmetic.

Exit codes: 0 the run ended (whether or not tau was met: the answer says so), 1 something broke, 2 the input cannot
be used (one line says what, where and what to do), 128 + signal when a run was stopped by one.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.config import Dict

from narrows._version import __version__
from narrows.allocator import keep_memory
from narrows.errors import NarrowsError
from narrows.fronts import FrontFolder
from narrows.runs import RunFolder
from narrows.training.config import COUNTS, PROMISES, TrainConfig, config_from_dict, read_config_file

HELP = """How many latent dimensions does my data need?

narrows trains a variational autoencoder under one promise, "the error stays
at or below tau", and closes latent dimensions while it trains, as many as the
promise allows; they are cut out of the model that is saved.

    narrows train                             built-in dSprites, tau = 20
    narrows train my.npy --explained 0.95     your array, table, folder of images
    narrows front my.npy --taus 5,10,20       the curve: dimensions against tau
    narrows data list                         the sets known by name
    narrows show runs/my-1                    the answer again
    narrows resume runs/my-1                  go on after an interruption
"""

DEFAULTS = TrainConfig()

app = App(name="narrows", help=HELP, version=__version__, help_format="plaintext", version_flags=["--version"])
data_app = App(name="data", help="The sets known by name: list them, fetch one, see where they are kept.")
app.command(data_app)


@app.command
def train(
    data: str | None = None,
    /,
    *,
    out: Path | None = None,
    config: Path | None = None,
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

    Parameters
    ----------
    data
        A named set (see `narrows data list`), a file (.npy, .npz, .csv, .parquet, .h5, FILE::key), a folder of
        images, or hf:NAME of the Hugging Face hub.
    out
        Folder for the run, new or empty; by default the next free runs/NAME-1, NAME-2, ...
    config
        A .toml or .json file with any of these settings, such as another run's config.json.
    """
    from narrows.report.live import make_display
    from narrows.training.entry import train

    settings = settings if data is None else replace(settings, data=data)
    _, folder = train(settings, out, display=make_display())
    _tell(folder)
    return 0


@app.command
def front(
    data: str | None = None,
    /,
    *,
    taus: str,
    out: Path | None = None,
    config: Path | None = None,
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
    """
    from narrows.report.live import make_display
    from narrows.training.front import train_front

    settings = settings if data is None else replace(settings, data=data)
    try:
        numbers = [float(word) for word in taus.split(",")]
    except ValueError:
        raise NarrowsError(f"--taus must be numbers separated by commas, such as 3,4,6; it is {taus!r}") from None
    _, folder = train_front(settings, numbers, out, display=make_display())
    _tell_front(folder)
    return 0


@app.command
def resume(run: Path, /, *, steps: int | None = None) -> int:
    """Go on with a stopped run, exactly as if it had not stopped.

    Parameters
    ----------
    run
        The run's folder.
    steps
        Train to this many batches in all, more than the run was asked for.
    """
    from narrows.report.live import make_display
    from narrows.training.entry import resume
    from narrows.training.front import resume_front

    if FrontFolder(run).about.exists():
        if steps is not None:
            raise NarrowsError("--steps is for single runs; a front ends by itself")
        _, levels = resume_front(run, display=make_display())
        _tell_front(levels)
        return 0
    _, folder, passed = resume(run, steps, display=make_display())
    for line in passed:
        print(f"narrows: warning: {line}; the one before it was used", file=sys.stderr)
    _tell(folder)
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
            print(words.front_table(results, front_folder.read_about()["taus"]))
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


@data_app.command(name="list")
def list_sets() -> int:
    """List the sets: size, shape, factors, licence, where each comes from, and whether it is cached."""
    from narrows.data import SETS
    from narrows.report.sets import describe

    print("\n\n".join(describe(one) for one in SETS.values()))
    return 0


@data_app.command
def get(name: str, /, *, source: Literal["drawn", "official"] = "official") -> int:
    """Fetch a set, verify it and make it ready, so that training needs no network.

    A download that was cut off goes on where it stopped.

    Parameters
    ----------
    name
        As in `narrows data list`.
    source
        official: the published files; drawn: draw it instead (dsprites, shapes3d).
    """
    from narrows.data import find_set, open_set
    from narrows.report.live import make_loading

    loading = make_loading()
    try:
        data = open_set(find_set(name), source, loading)
    finally:
        loading.close()
    print(f"{data.name}: {len(data.examples):,} examples; {data.note}")
    return 0


@data_app.command
def path(name: str | None = None, /) -> int:
    """Print the folder of the cache, or that of one set's files. NARROWS_CACHE chooses another.

    Parameters
    ----------
    name
        As in `narrows data list`.
    """
    from narrows.data import cache_folder, find_set

    print(find_set(name).folder if name else cache_folder())
    return 0


def _tell(folder: RunFolder) -> None:
    """Draw the curves and print the answer and where everything is; of several processes only the first does."""
    from narrows.report.curves import draw_curves
    from narrows.report.live import is_first_process
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
        _draw(lambda: draw_curves(folder))


def _tell_front(folder: FrontFolder) -> None:
    """Draw the front and print its table and where everything is."""
    from narrows.report.curves import draw_curves, draw_front
    from narrows.report.live import is_first_process
    from narrows.report.words import front_table

    if not is_first_process():
        return
    results = folder.read_results()
    print()
    print(front_table(results, folder.read_about()["taus"]))
    print(f"table:  {folder.table}")

    def draw() -> Path:
        for result in results:
            draw_curves(folder.level(result.tau or 0.0))
        return draw_front(folder, results)

    _draw(draw)


def _draw(figure: Callable[[], Path | None]) -> None:
    """Draw a figure and say where it is; where it cannot be written, the results are safe all the same."""
    try:
        print(f"figure: {figure()}")
    except OSError as error:
        print(f"narrows: warning: the figure could not be written: {error}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Only as a program, not when called, it sets up the allocator."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        keep_memory()
    try:
        _refuse_fractions(tokens)
        _use_config_file(tokens)
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return code if isinstance(code, int) else 0
    except (CycloptsError, NarrowsError) as error:
        print(f"narrows: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone; the results are in their files
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except Exception as error:
        return _stopped(error)


def _stopped(error: Exception) -> int:
    """Answer a signal with how to go on; anything else is our fault and keeps its traceback."""
    from narrows.training.signals import Interrupted

    if isinstance(error, Interrupted):
        print(f"{error}; go on with: narrows resume {shlex.quote(str(error.folder))}")
        return 128 + error.number
    if isinstance(error, OSError):
        print(f"narrows: error: {error}", file=sys.stderr)
        return 1
    raise error


def _use_config_file(tokens: list[str]) -> None:
    """Let the file behind --config set the defaults; what the command line says wins."""
    for command in ("train", "front"):
        app[command].config = ()
    options = _options(tokens)
    if tokens and tokens[0] in ("train", "front") and "config" in options:
        path = Path(options["config"])
        settings = {k: v for k, v in read_config_file(path).items() if v is not None}
        if tokens[0] == "front" or any(promise in options for promise in PROMISES):
            settings = {k: v for k, v in settings.items() if k not in PROMISES}
        app[tokens[0]].config = (Dict({tokens[0]: settings}, source=str(path)),)


def _refuse_fractions(tokens: list[str]) -> None:
    """Refuse 2.5 where a whole number is due: the parser would round it."""
    for name, value in _options(tokens).items():
        if name in (*COUNTS, "seed", "split_seed") and re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", value):
            raise NarrowsError(f"--{name.replace('_', '-')} must be a whole number; it is {value}")


def _options(tokens: list[str]) -> dict[str, str]:
    """Return the options of a command line that have a value, under their settings' names."""
    found = {}
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        name, equals, value = token.partition("=")
        if name.startswith("--") and (equals or after):
            found[name[2:].replace("-", "_")] = value if equals else after
    return found


if __name__ == "__main__":
    sys.exit(main())
