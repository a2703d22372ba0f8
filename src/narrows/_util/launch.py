"""What a launcher such as torchrun tells a process, and which process speaks for all of them; loads no torch."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from narrows._util.errors import NarrowsError
from narrows._util.printing import warn

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The variables by which a launcher tells a process its place."""
REMEDY = "start narrows with torchrun, or unset RANK, LOCAL_RANK and WORLD_SIZE"
PATIENCE = 10.0
"""Seconds of waiting for other processes before that is said."""
OTHERS_FIRST = 2.0
"""Seconds in which a process that ended can say why, before another one says only that it has ended."""


class ProcessLost(NarrowsError):
    """Another training process has ended, so this one cannot go on."""


def is_first_process() -> bool:
    """Return whether this process speaks for all processes of a run; one that is alone speaks for itself."""
    return os.environ.get("RANK", "0") == "0" or any(name not in os.environ for name in PLACE)


def check_launch() -> None:
    """Raise if the launcher's variables are there only in part (left over from another program), or make no sense."""
    if not {"RANK", "LOCAL_RANK"} & os.environ.keys() and os.environ.get("WORLD_SIZE", "1") == "1":
        return
    missing = [name for name in PLACE if name not in os.environ]
    if missing:
        given = ", ".join(name for name in PLACE if name in os.environ)
        raise NarrowsError(
            f"the environment has {given}, as in one of several processes, but not {', '.join(missing)}; {REMEDY}"
        )
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"):
        if not os.environ[name].isdecimal():
            raise NarrowsError(
                f"the environment variable {name} must be a whole number; it is {os.environ[name]!r}; {REMEDY}"
            )
    if int(os.environ["RANK"]) >= int(os.environ["WORLD_SIZE"]):
        raise NarrowsError(
            f"the environment says that this is process {os.environ['RANK']}, counted from 0, of "
            f"{os.environ['WORLD_SIZE']}; {REMEDY}"
        )


@contextlib.contextmanager
def waiting_for_others() -> Iterator[None]:
    """Say after a while that other processes are waited for, and where; raise if they cannot be found."""
    if "RANK" not in os.environ:
        yield
        return
    count, address = os.environ["WORLD_SIZE"], f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    notice = threading.Timer(
        PATIENCE, warn, [f"waiting for all {count} processes to meet at {address}; if there are no others: {REMEDY}"]
    )
    notice.daemon = True
    notice.start()
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error, NarrowsError):
            raise
        reason = str(error).partition("\n")[0]
        raise NarrowsError(f"the {count} processes cannot meet at {address} ({reason}); {REMEDY}") from None
    finally:
        notice.cancel()


def is_first_to_report(after: float = 0.0) -> bool:
    """Return whether no other training process has said yet how the program ends; each asks once, and then says it.

    Arguments:
        after: Seconds to wait for the others to say so.
    """
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return is_first_process()
    time.sleep(after)
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        said: int = store.add(f"narrows said {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", 1)
        return said == 1
    except RuntimeError:  # the process that kept the store has ended
        return False
