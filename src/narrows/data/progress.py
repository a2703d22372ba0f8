"""How long work tells how far it is: one function, called now and then, drawn by whoever called."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""(what, done, total): "downloading x.gz", 4096, 9912422; total is 0 where it is not known."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""
