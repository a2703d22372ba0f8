"""The program: `narrows`, or `python -m narrows`.

Signals are taken first, before anything slow is imported, so that a program that is stopped ends in the same way at any
time: with one line, and no traceback.
"""

import signal
import sys

from narrows.training.signals import EndProgram


def main() -> int:
    """Run the command line and return its exit code."""
    signals = EndProgram()
    signals.install()
    try:
        from narrows.cli import main as run

        return run()
    except BaseException:
        if not signals.number:
            raise
        signals.uninstall()  # the signal came inside an import, or became another exception on its way
        print(f"narrows: stopped by {signal.Signals(signals.number).name}", file=sys.stderr)
        return 128 + signals.number
    finally:
        signals.uninstall()


if __name__ == "__main__":
    sys.exit(main())
