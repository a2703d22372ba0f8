"""The program: run one command and return its exit code."""

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from cyclopts import App, ArgumentCollection, CycloptsError
from cyclopts.config import Dict

from narrows._util.allocator import keep_memory
from narrows._util.errors import NarrowsError, as_option
from narrows.cli import apply, data, evaluate, explore, report, reproduce, train, watch  # noqa: F401
from narrows.cli.app import app
from narrows.runs.folder import read_settings, way_on
from narrows.training.config import PROMISES, config_from_dict
from narrows.training.signals import Interrupted, ended_by


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Arguments:
        arguments: The command line; without it, the program's own, and then the allocator is set up too.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        keep_memory()
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return code if isinstance(code, int) else 0
    except (CycloptsError, NarrowsError) as error:
        text = error.spelled(as_option) if isinstance(error, NarrowsError) else str(error)
        print(f"narrows: error: {' '.join(text.split())}", file=sys.stderr)
        if arguments is None and "pyarrow" in sys.modules:
            sys.stderr.flush()  # a thread of pyarrow may still be reading ahead and would abort a normal exit
            os._exit(2)
        return 2
    except KeyboardInterrupt as error:
        number = ended_by(error)
        print(f"narrows: stopped by {signal.Signals(number).name}", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:  # nobody reads our output any more; the results are in their files
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except Interrupted as stopped:
        print(f"{stopped}; {way_on(stopped.folder)}")
        return 128 + stopped.number
    except OSError as error:
        print(f"narrows: error: {error}", file=sys.stderr)
        return 1
    finally:
        if arguments is None and "torch" in sys.modules:
            from narrows._util.processes import leave_group

            leave_group()


def _complete(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Complete and check what was typed, before cyclopts converts it; cyclopts would round 2.5 to a whole number."""
    typed = {argument.name[2:].replace("-", "_"): argument.tokens for argument in arguments if argument.tokens}
    if "config" in typed:
        path = Path(typed["config"][0].value)
        stored = read_settings(path)
        config_from_dict(stored, str(path))  # raises if a setting cannot be used
        settings = {name: value for name, value in stored.items() if value is not None}
        if commands[0] == "front" or typed.keys() & set(PROMISES):
            settings = {name: value for name, value in settings.items() if name not in PROMISES}
        Dict({commands[0]: settings}, source=str(path))(app, commands, arguments)
    for argument in arguments:
        if int in (argument.hint, *get_args(argument.hint)):
            for token in argument.tokens:
                if re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*", token.value):
                    raise NarrowsError(f"{argument.name} must be a whole number; it is {token.value}")


app.config = (_complete,)
