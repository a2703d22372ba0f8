"""report: a run, a front, or several runs as one page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from narrows._util.errors import NarrowsError, setting
from narrows._util.printing import say
from narrows.cli.app import TrustData, app
from narrows.runs.folder import RunFolder
from narrows.runs.front import FrontFolder

COMPARISON = Path("compare.html")


@app.command
def report(
    *runs: Path, out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None, trust_data: TrustData = False
) -> None:
    """Write a report about a run, or a comparison of several, as one page that needs no network.

    Examples:

        narrows report runs/my-1
        narrows report runs/my-1 runs/my-2 -o compare.html

    Parameters
    ----------
    runs
        Folders of runs, finished or not, or of a front.
    out
        The .html file; by default report.html in the run's folder, or compare.html here for several runs.
    """
    from narrows.inference.stream import check_output
    from narrows.report.comparison import write_comparison, write_front
    from narrows.report.run_page import write_report

    if not runs:
        raise NarrowsError("report needs the folder of a run, such as `narrows report runs/my-1`")
    usual, front = COMPARISON if len(runs) > 1 else RunFolder(runs[0]).report, FrontFolder(runs[0])
    if out or usual.exists():
        check_output(out or usual, ".html", ".htm")
    out = out or usual
    try:
        if len(runs) > 1:
            written = write_comparison([folder for run in runs for folder in _folders(run)], out, trust_data)
        elif front.about.exists():
            written = write_front(front, out=out, trust_data=trust_data)
        else:
            written = write_report(RunFolder(runs[0]), out=out, trust_data=trust_data)
    except OSError as error:
        raise NarrowsError(
            f"cannot write the report {out}: {error.strerror}; choose another {setting('out')}"
        ) from error
    say(f"report: {written}")


def _folders(run: Path) -> list[RunFolder]:
    """Return the run, or the runs of a front."""
    front = FrontFolder(run)
    return front.levels() if front.about.exists() else [RunFolder(run)]
