"""Sizes that no memory can hold, as an error that says so."""

import contextlib
from collections.abc import Iterator

from narrows._util.errors import NarrowsError

_SIGNS = ("memory", "overflow", "exceeded")
"""How the messages of torch and numpy show it; they have no class of their own for it."""


@contextlib.contextmanager
def within_memory(what: str, remedy: str) -> Iterator[None]:
    """Let a failed allocation say what was too large, and what to do.

    Arguments:
        what: What is made, such as "10 samples".
        remedy: What to do: "draw fewer at a time".

    Raises:
        NarrowsError: The memory does not suffice, or the size is beyond any address.
    """
    try:
        yield
    except (MemoryError, OverflowError) as error:
        raise NarrowsError(f"there is not enough memory for {what}; {remedy}") from error
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, NarrowsError) or not any(sign in str(error).lower() for sign in _SIGNS):
            raise
        raise NarrowsError(f"there is not enough memory for {what}; {remedy}") from error
