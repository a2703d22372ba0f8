"""What surrounds the process: its working directory, and a variable of the environment that libraries read.

Where one of them is wrong, libraries say so from the middle of an import, in words of their own: torch cannot be loaded
in a folder that is gone, and numpy cannot be imported as a whole, as scipy does, with a date that is none.
"""

import datetime
import os

from narrows._util.errors import NarrowsError

DATE = "SOURCE_DATE_EPOCH"
"""Seconds since 1970: the time that programs are to write into files that can be built again to the same bytes."""


def check_surroundings() -> None:
    """Raise if the working directory is gone, or if `SOURCE_DATE_EPOCH` is not a time."""
    try:
        os.getcwd()
    except OSError as error:
        raise NarrowsError(
            f"the working directory cannot be used ({error.strerror}); if it was deleted, change to another folder"
        ) from None
    text = os.environ.get(DATE, "0")
    try:
        datetime.datetime.fromtimestamp(int(text), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise NarrowsError(
            f"the environment variable {DATE} must be a whole number of seconds; it is {text[:80]!r}; correct it or "
            f"unset it"
        ) from None
