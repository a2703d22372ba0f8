"""report: a run, a front, or several runs as one page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from narrows.cli.app import app
from narrows.errors import NarrowsError
from narrows.fronts import FrontFolder
from narrows.runs import RunFolder

COMPARISON = Path("compare.html")


@app.command
def report(*runs: Path, out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None) -> int:
    """Write what is known about a run as one page that needs no network; of several runs, a comparison.

    Examples:

        narrows report runs/my-1
        narrows report runs/my-1 runs/my-2 -o compare.html

    Parameters
    ----------
    runs
        Folders of runs, ended or not, or of a front.
    out
        The .html file; by default report.html in the run's folder, compare.html here for several.
    """
    from narrows.report.comparison import write_comparison, write_front
    from narrows.report.run_page import write_report

    if not runs:
        raise NarrowsError("report needs the folder of a run, such as `narrows report runs/my-1`")
    try:
        if out is not None:
            _check_out(out)
        out = out or _usual(runs)
        if out.is_dir():
            raise NarrowsError(f"{out} is a folder; name a file")
        if len(runs) > 1:
            made = write_comparison([folder for run in runs for folder in _folders(run)], out)
        elif FrontFolder(runs[0]).about.exists():
            made = write_front(FrontFolder(runs[0]), out=out)
        else:
            made = write_report(RunFolder(runs[0]), out=out)
    except OSError as error:
        raise NarrowsError(f"cannot make the report: {error.strerror}: {error.filename}") from error
    print(f"report: {made}")
    return 0


def _usual(runs: tuple[Path, ...]) -> Path:
    """Return where the page goes if nothing else is said."""
    return COMPARISON if len(runs) > 1 else RunFolder(runs[0]).report


def _check_out(out: Path) -> None:
    if out.suffix not in (".html", ".htm"):
        raise NarrowsError(f"{out}: a report is a .html file; give it that ending")
    if not out.parent.is_dir():
        raise NarrowsError(f"{out}: there is no folder {out.parent}")


def _folders(run: Path) -> list[RunFolder]:
    """Return the run, or a front's runs."""
    front = FrontFolder(run)
    if not front.about.exists():
        return [RunFolder(run)]
    levels = [front.level(tau) for tau in front.read_about()["taus"]]
    return [level for level in levels if level.config.exists()]
