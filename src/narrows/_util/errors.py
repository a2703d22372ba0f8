"""The one exception a user is meant to see: what is wrong, where, and what to do about it, in one line.

An error is often about a setting, and every surface has its own name for it: `--batch 50` on the command line,
`batch=50` in `TrainConfig`, `batch_size=50` in the estimator. So the code that finds the problem only marks the
setting, and the surface that shows the error spells it:

    raise NarrowsError(f"{setting('batch', 50)} cannot be shared evenly among 4 processes")

    str(error)                   batch=50 cannot be shared evenly among 4 processes
    error.spelled(as_option)     --batch 50 cannot be shared evenly among 4 processes
"""

import difflib
import re
from collections.abc import Callable, Iterable

from narrows._util.text import printable

Spelling = Callable[[str, str | None], str]
"""(name, value or None) -> how a surface writes a setting."""

_NUMBER = re.compile(r"[-+.0-9e]+")
_MARK = re.compile("\x02(\\w+)(?:\x1f([^\x03]*))?\x03")


class NarrowsError(ValueError):
    """Input that cannot be used.

    The command line prints its text as one line and exits with code 2. `str(error)` names settings as Python does;
    `spelled` names them in another way.
    """

    def spelled(self, spelling: Spelling) -> str:
        """Return the text with every marked setting written by `spelling`, and nothing that a terminal would obey.

        Errors name what others wrote: files, keys, columns, messages of other libraries.
        """
        return printable(_MARK.sub(lambda mark: spelling(mark.group(1), mark.group(2)), self.marked), longest=None)

    @property
    def marked(self) -> str:
        """The text with its marks, to be put into another error."""
        return super().__str__()

    def __str__(self) -> str:
        return self.spelled(as_argument)


def setting(name: str, value: object = None) -> str:
    """Return a mark for a setting, to be put into the text of a `NarrowsError`.

    Arguments:
        name: The setting as `TrainConfig` calls it, or another option of a command, such as "out".
        value: The value it has, or should have; left out when the text is about the setting alone.
    """
    return f"\x02{name}\x03" if value is None else f"\x02{name}\x1f{printable(value, longest=None)}\x03"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: "; did you mean 'conv'?", or "" if no known one is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def as_argument(name: str, value: str | None) -> str:
    """Write a setting as Python does: `batch`, `batch=50`, `network='conv'`."""
    if value is None:
        return name
    return f"{name}={value}" if _NUMBER.fullmatch(value) else f"{name}={value!r}"


def as_option(name: str, value: str | None) -> str:
    """Write a setting as the command line does: `--batch`, `--batch 50`."""
    option = f"--{name.replace('_', '-')}"
    return option if value is None else f"{option} {value}"


class OptionError(NarrowsError):
    """Data that an option of training would make usable; `otherwise` is the advice for commands without that option.

    Arguments:
        problem: What is wrong, and where.
        option: The advice where the option exists.
        otherwise: The advice where it does not.
    """

    def __init__(self, problem: str, option: str, otherwise: str) -> None:
        super().__init__(problem, option, otherwise)

    @property
    def marked(self) -> str:
        """The text with its marks, to be put into another error."""
        return f"{self.args[0]}; {self.args[1]}"

    @property
    def otherwise(self) -> NarrowsError:
        """The same error for a command that has no such option."""
        return NarrowsError(f"{self.args[0]}; {self.args[2]}")
