"""The notebooks of examples/notebooks, executed in a Jupyter kernel and stored with their outputs for the site.

python studies/notebooks.py            all of them, into docs/notebooks/*.ipynb, which git ignores
python studies/notebooks.py tables     those that are named

The sources are percent scripts: Python with `# %%` between the cells. An error in a cell ends the program with exit
code 1, after the other notebooks. A notebook is not executed again if its copy is newer than it and than the library;
--all executes every one.
"""

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "examples" / "notebooks"
EXECUTED = ROOT / "docs" / "notebooks"
LONGEST = 240
"""Seconds that one cell may take."""


def execute(source: Path, target: Path) -> None:
    """Execute one notebook from top to bottom and store it with its outputs.

    Raises:
        CellExecutionError: A cell raised an exception; nothing is stored.
    """
    notebook = jupytext.read(source)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        sockets = Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{scratch}/kernel"}})  # files, not ports
        place = {"metadata": {"path": scratch}}
        NotebookClient(notebook, timeout=LONGEST, resources=place, config=sockets).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    nbformat.write(notebook, target)


def is_current(source: Path, target: Path) -> bool:
    """Return whether an executed copy is newer than its source and everything that it imports from narrows."""
    if not target.exists():
        return False
    used = [source, Path(__file__), ROOT / "constraints.txt", *(ROOT / "src").rglob("*.py")]
    return target.stat().st_mtime > max(path.stat().st_mtime for path in used)


def main(words: list[str]) -> int:
    """Execute the notebooks and return the exit code."""
    names = [word for word in words if word != "--all"]
    unknown = [name for name in names if not (SOURCES / f"{name}.py").exists()]
    if unknown:
        print(f"no notebook {unknown[0]}; there are {', '.join(sorted(path.stem for path in SOURCES.glob('*.py')))}")
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # these networks are small, and more threads wait for each other
    failed = False
    for source in sorted(SOURCES.glob("*.py")):
        target = EXECUTED / f"{source.stem}.ipynb"
        if names and source.stem not in names:
            continue
        if "--all" not in words and is_current(source, target):
            print(f"{source.stem}: unchanged")
            continue
        began = time.monotonic()
        try:
            execute(source, target)
        except CellExecutionError as error:
            failed = True
            print(f"{source.stem}: {error}")
        else:
            print(f"{source.stem}: {time.monotonic() - began:.0f} s")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
