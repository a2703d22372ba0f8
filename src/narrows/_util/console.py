"""Consoles of a sensible size: a terminal may be one column wide or say that it has none, and rich wraps forever."""

from rich.console import Console, ConsoleDimensions

NARROWEST, WIDEST = 20, 500
"""Columns that a console has at least and at most, whatever COLUMNS or the terminal say."""
TALLEST = 500
"""Lines that a console has at most."""


class BoundedConsole(Console):
    """A rich console that follows the terminal's size within limits, and leaves a closed pipe to its caller."""

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal, within the limits."""
        width, height = super().size
        return ConsoleDimensions(min(max(width, NARROWEST), WIDEST), min(max(height, 1), TALLEST))

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError on; rich would end the program."""
        raise


def make_console() -> BoundedConsole:
    """Return a console that shows text as it is, without markup and highlighted numbers."""
    return BoundedConsole(highlight=False, markup=False)
