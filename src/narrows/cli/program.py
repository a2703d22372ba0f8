"""The program: one command, one exit code."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from cyclopts import CycloptsError
from cyclopts.config import Dict

from narrows.allocator import keep_memory
from narrows.cli import evaluating, experiments, exploring, reports, sets, training, using, watching  # noqa: F401
from narrows.cli.app import app
from narrows.errors import NarrowsError
from narrows.training.config import COUNTS, PROMISES, read_config_file

WHOLE = (*COUNTS, "seed", "split_seed", "seeds", "jobs", "count", "samples", "components", "port")
"""Options that take whole numbers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. As a program, not when called, it sets up allocator and signals."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        keep_memory()
        signal.signal(signal.SIGTERM, _terminate)
    try:
        _refuse_fractions(tokens)
        _use_config_file(tokens)
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return code if isinstance(code, int) else 0
    except (CycloptsError, NarrowsError) as error:
        print(f"narrows: error: {' '.join(str(error).split())}", file=sys.stderr)
        if arguments is None and "pyarrow" in sys.modules:
            sys.stderr.flush()  # a thread of pyarrow's may still read ahead, and would abort an orderly end
            os._exit(2)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output has gone; the results are in their files
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except Exception as error:
        return _stopped(error)
    finally:
        if arguments is None and "torch" in sys.modules:
            from narrows.processes import leave_group

            leave_group()


def _terminate(number: int, frame: FrameType | None) -> None:
    """End at SIGTERM as at Ctrl-C, so that files and the terminal are left in order."""
    sys.exit(128 + number)


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
        if name in WHOLE and re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", value):
            raise NarrowsError(f"--{name.replace('_', '-')} must be a whole number; it is {value}")


def _options(tokens: list[str]) -> dict[str, str]:
    """Return the options of a command line that have a value, under their settings' names."""
    found = {}
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        name, equals, value = token.partition("=")
        if name.startswith("--") and (equals or after):
            found[name[2:].replace("-", "_")] = value if equals else after
    return found
