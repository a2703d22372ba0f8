"""The one exception a user is meant to see: what is wrong, where, and what to do about it, in one line."""


class NarrowsError(ValueError):
    """Input that cannot be used. The command line prints its text as one line and exits with code 2."""
