"""The one exception a user is meant to see: what is wrong, where, and what to do about it, in one line."""


class NarrowsError(ValueError):
    """Input that cannot be used. The command line prints its text as one line and exits with code 2."""


class OptionError(NarrowsError):
    """Data that an option of training would make usable; `otherwise` is the whole line for commands without options."""

    def __init__(self, problem: str, option: str, otherwise: str) -> None:
        super().__init__(problem, option, otherwise)
        self.otherwise = f"{problem}; {otherwise}"

    def __str__(self) -> str:
        return f"{self.args[0]}; {self.args[1]}"
