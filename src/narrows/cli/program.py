"""The program: run one command and return its exit code."""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from cyclopts import App, ArgumentCollection, CycloptsError
from cyclopts.config import Dict

from narrows._util.allocator import keep_memory
from narrows._util.errors import NarrowsError, as_option
from narrows._util.launch import OTHERS_FIRST, ProcessLost, is_first_to_report
from narrows._util.printing import print_error, say
from narrows._util.surroundings import check_surroundings
from narrows.cli import apply, bench, data, evaluate, explore, report, reproduce, sweep, train, watch  # noqa: F401
from narrows.cli.app import app
from narrows.cli.output import OutputError, flush_output, open_streams, unwritten
from narrows.cli.words import check_word, in_our_words
from narrows.runs.folder import read_settings, way_on
from narrows.training.config import PROMISES, config_from_dict
from narrows.training.signals import Interrupted, ended_by

BAD_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.EROFS
)  # fmt: skip
"""What is wrong with a path that cannot be used, in contrast to a disk that fails or is full."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Arguments:
        arguments: The command line; without it, the program's own, and then the allocator is set up too.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        open_streams()
        keep_memory()
    try:
        code = _run(tokens)
        if code == 2 and arguments is None and "pyarrow" in sys.modules:
            os._exit(code)  # a thread of pyarrow may still be reading ahead and would abort a normal exit
        return code
    finally:
        if arguments is None and "torch" in sys.modules:
            from narrows._util.processes import leave_group

            leave_group()


def _run(tokens: list[str]) -> int:
    """Run one command and return its exit code; everything that a user can meet is answered by one line."""
    try:
        check_surroundings()
        if any("\0" in token for token in tokens):
            raise NarrowsError("a word of the command line has a NUL character in it; leave it out")
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        flush_output()
        return code if isinstance(code, int) else 0
    except NarrowsError as error:
        if is_first_to_report(OTHERS_FIRST if isinstance(error, ProcessLost) else 0):
            print_error(error.spelled(as_option))
        return 2
    except CycloptsError as error:
        if is_first_to_report():
            print_error(in_our_words(error))
        return 2
    except Interrupted as stopped:
        if is_first_to_report():
            with contextlib.suppress(OSError):
                say(f"{stopped}; {way_on(stopped.folder)}")
                flush_output()
        return 128 + stopped.number
    except KeyboardInterrupt as error:
        number = ended_by(error)
        if is_first_to_report():
            with contextlib.suppress(OSError):
                print(f"narrows: stopped by {signal.Signals(number).name}", file=sys.stderr)
        return 128 + number
    except OutputError as error:
        return unwritten(error)
    except OSError as error:
        if error.errno in BAD_PATH and error.filename is not None:
            print_error(f"{os.fsdecode(error.filename)}: {error.strerror}; check the path and its permissions")
            return 2
        print_error(str(error))
        return 1


def _complete(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Complete and check what was typed, before cyclopts converts it."""
    for argument in arguments:
        for token in (token for token in argument.tokens if token.source == "cli"):
            check_word(argument.name, token.value, get_args(argument.hint) or (argument.hint,))
    typed = {argument.name[2:].replace("-", "_"): argument.tokens for argument in arguments if argument.tokens}
    if "config" in typed:
        path = Path(typed["config"][0].value)
        stored = read_settings(path)
        config_from_dict(stored, str(path))  # raises if a setting cannot be used
        settings = {name: value for name, value in stored.items() if value is not None}
        if commands[0] == "front" or typed.keys() & set(PROMISES):
            settings = {name: value for name, value in settings.items() if name not in PROMISES}
        Dict({commands[0]: settings}, source=str(path))(app, commands, arguments)


app.config = (_complete,)
